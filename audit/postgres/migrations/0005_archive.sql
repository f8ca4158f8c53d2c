-- Old days of checks leave the database for files (spendgate audit detach). What
-- proves them, the chain, stays, and so do their violations.

-- The days that left, so that one that was archived can be told from one that
-- was removed.
CREATE TABLE archived_days (
    day             date        PRIMARY KEY, -- UTC
    rows            bigint      NOT NULL,
    manifest_sha256 bytea       NOT NULL,
    at              timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The UTC day of an identifier.
CREATE FUNCTION day_of(id uuid) RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (timestamp 'epoch' + ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint * interval '1 millisecond')::date $$;

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON archived_days
    FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON archived_days
    EXECUTE FUNCTION refuse();

-- A day that left stays closed: its rows are those of the archive.
CREATE FUNCTION refuse_archived() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
AS $$ BEGIN
    IF EXISTS (SELECT FROM archived_days WHERE day = day_of(NEW.check_id)) THEN
        RAISE EXCEPTION 'the checks of % are archived', day_of(NEW.check_id) USING ERRCODE = 'SG004';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER archived BEFORE INSERT ON checks_default
    FOR EACH ROW EXECUTE FUNCTION refuse_archived();

-- Days before this one are needed by no promise any more: replays of idempotency
-- keys (24 hours) and the longest duplicate window that any check left are over,
-- by a day, for clocks that are off.
CREATE FUNCTION detachable_before() RETURNS date
LANGUAGE sql STABLE
AS $$
    SELECT ((clock_timestamp() - greatest(interval '24 hours', ms * interval '1 millisecond') - interval '1 day')
        AT TIME ZONE 'UTC')::date FROM horizon
$$;

-- Takes the partition of a day out of checks and notes its archive. The lock
-- stops commits for the moment that it takes: callers set a short lock_timeout
-- and try again. The partition must have been closed before it was archived.
CREATE FUNCTION detach_day(day date, rows bigint, manifest_sha256 bytea) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    part text := 'checks_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF day >= detachable_before() THEN
        RAISE EXCEPTION '% is still needed', day USING ERRCODE = 'SG005';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = part::regclass AND tgname = 'closed') THEN
        RAISE EXCEPTION '% was not closed', part USING ERRCODE = 'SG005';
    END IF;
    EXECUTE format('ALTER TABLE checks DETACH PARTITION %I', part);
    -- What it inherited is gone.
    EXECUTE format('CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse()', part);
    INSERT INTO archived_days (day, rows, manifest_sha256) VALUES (day, rows, manifest_sha256);
END $$;

-- No row comes into a day any more. A node whose clock is days behind has its
-- commits refused from now on.
CREATE FUNCTION close_day(day date) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    part text := 'checks_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF day >= detachable_before() THEN
        RAISE EXCEPTION '% is still needed', day USING ERRCODE = 'SG005';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = part::regclass AND tgname = 'closed') THEN
        EXECUTE format('CREATE TRIGGER closed BEFORE INSERT ON %I FOR EACH ROW EXECUTE FUNCTION refuse()', part);
    END IF;
END $$;

-- Whether the default partition has rows: it looks at the first.
CREATE FUNCTION default_partition_occupied() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER
AS $$ SELECT EXISTS (SELECT FROM checks_default) $$;

-- Gives the rows of the default partition days of their own, all of them at
-- once and unchanged, and tells how many there were. Commits wait meanwhile.
CREATE FUNCTION empty_default_partition() RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    moved    bigint;
    present  bigint;
    expected numeric; -- over all rows, whatever their order
    found    numeric;
BEGIN
    PERFORM pg_advisory_xact_lock('checks'::regclass::oid::integer, 0);
    ALTER TABLE checks DETACH PARTITION checks_default;
    ALTER TABLE checks_default RENAME TO strays;
    CREATE TABLE checks_default (LIKE strays INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES);
    CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON checks_default EXECUTE FUNCTION refuse();
    CREATE TRIGGER archived BEFORE INSERT ON checks_default FOR EACH ROW EXECUTE FUNCTION refuse_archived();
    ALTER TABLE checks ATTACH PARTITION checks_default DEFAULT;
    PERFORM make_partition(d.day) FROM (SELECT DISTINCT day_of(check_id) AS day FROM strays) AS d;
    INSERT INTO checks SELECT * FROM strays;
    GET DIAGNOSTICS moved = ROW_COUNT;
    SELECT count(*), sum(hashtextextended(s::text, 0)::numeric) INTO present, expected FROM strays AS s;
    SELECT sum(hashtextextended(c::text, 0)::numeric) INTO found FROM checks AS c WHERE c.check_id IN (SELECT check_id FROM strays);
    IF moved <> present OR found IS DISTINCT FROM expected OR EXISTS (SELECT FROM checks_default) THEN
        RAISE EXCEPTION 'rows of the default partition were not moved as they are';
    END IF;
    DROP TABLE strays;
    RETURN moved;
END $$;

REVOKE EXECUTE ON FUNCTION detach_day(date, bigint, bytea), close_day(date), empty_default_partition() FROM PUBLIC;

DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION refuse_archived() SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION default_partition_occupied() SET search_path = %I, pg_temp', current_schema());
END $$;
