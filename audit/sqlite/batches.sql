-- Tamper evidence (G8), as in PostgreSQL: each commit leaves its place in the
-- chain of the node incarnation that wrote it.

CREATE TABLE batches (
    lane    BLOB NOT NULL,
    seq     INTEGER NOT NULL,
    version INTEGER NOT NULL,
    head    BLOB NOT NULL,
    entries BLOB NOT NULL,
    PRIMARY KEY (lane, seq)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER batches_update BEFORE UPDATE ON batches
BEGIN SELECT RAISE(ABORT, 'batches are immutable'); END;
CREATE TRIGGER batches_delete BEFORE DELETE ON batches
BEGIN SELECT RAISE(ABORT, 'batches are immutable'); END;
CREATE TRIGGER batches_replace BEFORE INSERT ON batches
WHEN EXISTS (SELECT 1 FROM batches WHERE lane = NEW.lane AND seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'batches are immutable'); END;

PRAGMA user_version = 2;
