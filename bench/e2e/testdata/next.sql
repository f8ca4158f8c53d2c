-- A migration as the next version may bring it: a column, and a commit_checks
-- beside the one that nodes of this version call, which fills it.
ALTER TABLE checks ADD COLUMN written_by text;
ALTER TABLE checks ALTER COLUMN written_by SET DEFAULT current_setting('spendgate.version', true);

CREATE INDEX keys_name ON keys (name);

DO $$
DECLARE
    present pg_proc;
    arguments text;
BEGIN
    SELECT * INTO STRICT present FROM pg_proc
        WHERE proname = 'commit_checks' AND pronamespace = quote_ident(current_schema())::regnamespace
        ORDER BY oid DESC LIMIT 1; -- the others are those of versions before
    SELECT string_agg('$' || i, ', ') INTO arguments FROM generate_series(1, present.pronargs) AS i;
    EXECUTE format('CREATE FUNCTION commit_checks(%s, software text) RETURNS %s LANGUAGE sql AS %L',
        pg_get_function_identity_arguments(present.oid), pg_get_function_result(present.oid),
        format('SELECT set_config(''spendgate.version'', software, true); SELECT commit_checks(%s)', arguments));
END $$;
