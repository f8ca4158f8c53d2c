-- Checks that a draft judged are found by the primary key: the index cost every commit, also
-- of checks that no draft judged.
DROP INDEX checks_shadowed;
