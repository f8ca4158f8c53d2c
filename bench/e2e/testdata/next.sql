-- A migration as the next version may bring it: a column, and functions that commit
-- beside the ones that nodes of this version call, which fill it.
ALTER TABLE checks ADD COLUMN written_by text;
ALTER TABLE checks ALTER COLUMN written_by SET DEFAULT current_setting('spendgate.version', true);

CREATE INDEX keys_name ON keys (name);

DO $$
DECLARE
    present pg_proc;
    arguments text;
BEGIN
    FOR present IN SELECT * FROM pg_proc
            WHERE proname = 'record_checks' AND pronamespace = quote_ident(current_schema())::regnamespace LOOP
        SELECT string_agg('$' || i, ', ') INTO arguments FROM generate_series(1, present.pronargs) AS i;
        EXECUTE format('CREATE FUNCTION %I(%s, software text) RETURNS %s LANGUAGE sql AS %L', present.proname,
            pg_get_function_identity_arguments(present.oid), pg_get_function_result(present.oid),
            format('SELECT set_config(''spendgate.version'', software, true); SELECT %I(%s)', present.proname, arguments));
    END LOOP;
END $$;
