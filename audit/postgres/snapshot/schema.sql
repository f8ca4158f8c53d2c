-- What the guarantees rest on, an object a row: name and definition (docs/audit/format.md).
-- {schema} is the schema's name as a literal. Nothing but pg_catalog may be in the search_path.
WITH ours AS (
    SELECT c.oid, c.relname, c.relispartition, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, c.relnamespace, quote_ident(n.nspname) AS own
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = {schema} AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
        AND (c.relname !~ '^checks_[0-9]{8}$' OR EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid))
)
SELECT 'table ' || t.relname, concat_ws(' ', t.relkind, t.relpersistence, t.relrowsecurity, t.relforcerowsecurity,
        (SELECT count(*) FROM pg_rewrite WHERE ev_class = t.oid), (SELECT count(*) FROM pg_policy WHERE polrelid = t.oid),
        (SELECT string_agg(a.attname || ' ' || replace(format_type(a.atttypid, a.atttypmod), t.own || '.', ''), ', ' ORDER BY a.attname)
            FROM pg_attribute AS a WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped AND NOT t.relispartition))
    FROM ours AS t
UNION ALL
SELECT 'default of ' || a.attname || ' of ' || t.relname, concat_ws(' ', a.attgenerated::text, replace(pg_get_expr(d.adbin, d.adrelid), t.own || '.', ''))
    FROM ours AS t JOIN pg_attrdef AS d ON d.adrelid = t.oid JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = d.adnum
UNION ALL
SELECT 'trigger ' || CASE WHEN g.tgisinternal THEN p.proname ELSE g.tgname END || ' on ' || t.relname,
        concat_ws(' ', g.tgenabled, g.tgtype, g.tgdeferrable, g.tgattr, encode(g.tgargs, 'hex'), pg_get_expr(g.tgqual, g.tgrelid),
            CASE WHEN p.pronamespace <> t.relnamespace THEN p.pronamespace::regnamespace || '.' END || p.proname, p.proname)
    FROM ours AS t JOIN pg_trigger AS g ON g.tgrelid = t.oid JOIN pg_proc AS p ON p.oid = g.tgfoid
UNION ALL
SELECT 'constraint on ' || t.relname || ': ' || replace(pg_get_constraintdef(c.oid), t.own || '.', ''), c.convalidated::text
    FROM ours AS t JOIN pg_constraint AS c ON c.conrelid = t.oid WHERE c.contype IN ('c', 'f', 'p', 'u', 'x')
UNION ALL
SELECT CASE WHEN i.indisunique THEN 'unique index on ' ELSE 'index on ' END || t.relname || ': ' || m.amname || ' ('
        || (SELECT string_agg(replace(pg_get_indexdef(i.indexrelid, n, false), t.own || '.', ''), ', ' ORDER BY n) FROM generate_series(1, i.indnatts) AS n)
        || ')' || coalesce(' WHERE ' || replace(pg_get_expr(i.indpred, i.indrelid), t.own || '.', ''), ''),
        concat_ws(' ', i.indisvalid, i.indisready, i.indislive, i.indisprimary, i.indimmediate)
    FROM ours AS t JOIN pg_index AS i ON i.indrelid = t.oid JOIN pg_class AS x ON x.oid = i.indexrelid JOIN pg_am AS m ON m.oid = x.relam
UNION ALL
SELECT 'function ' || p.proname || '(' || replace(oidvectortypes(p.proargtypes), quote_ident(n.nspname) || '.', '') || ')',
        encode(sha256(convert_to(concat_ws(E'\n', p.prosrc, l.lanname, p.prokind, p.provolatile, p.prosecdef, p.proisstrict, p.proparallel,
            replace(pg_get_function_result(p.oid), quote_ident(n.nspname) || '.', ''),
            replace(array_to_string(p.proconfig, E'\n'), '=' || quote_ident(n.nspname) || ',', '=SCHEMA,')), 'UTF8')), 'hex')
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace JOIN pg_language AS l ON l.oid = p.prolang
    WHERE n.nspname = {schema}
UNION ALL
SELECT 'setting ' || s.name, s.reset_val FROM pg_settings AS s WHERE s.name = 'session_replication_role' AND s.reset_val <> 'origin'
UNION ALL
SELECT concat_ws(' ', 'setting session_replication_role of', d.datname, r.rolname), c.setting
    FROM pg_db_role_setting AS s LEFT JOIN pg_database AS d ON d.oid = s.setdatabase LEFT JOIN pg_roles AS r ON r.oid = s.setrole, unnest(s.setconfig) AS c (setting)
    WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
        AND c.setting LIKE 'session\_replication\_role=%' AND c.setting <> 'session_replication_role=origin'
ORDER BY 1, 2
