-- What the other files use. Everything is created in the first schema of the connection's search_path.
--
-- One-letter codes ("char"): action types r refund, c credit, d discount,
-- s spend; decisions a allow, e escalate, b block; confidence l, m, h; statuses of
-- outcomes x executed, f failed, v voided; their release n none, p pending, d done;
-- their excess e exceeded, p exceeded_pending, u unapproved.
--
-- Errors: SG001 the epoch is over, SG002 the node is fenced, SG003 idempotency
-- keys are taken (DETAIL lists them), SG004 a record is immutable, SG005 a day
-- cannot be detached, SG006 policies have as many bytes as they may, SG007 budgets
-- have no room (DETAIL lists the counters), SG008 outcomes are reported already, SG009
-- approvals cannot be used (both list the checks in DETAIL), SG010 counters changed:
-- the commit is to be made again, SG012 there are as many webhooks as there may be, SG013
-- budgets to drop do not end, SG014 budgets that end are in use (both list them in DETAIL).

DO $$ BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database must be encoded in UTF8, not %', current_setting('server_encoding');
    END IF;
END $$;

-- The smallest identifier (UUIDv7) of a Unix millisecond.
CREATE FUNCTION first_id(ms bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (lpad(to_hex(greatest(ms, 0)), 12, '0') || repeat('0', 20))::uuid $$;

-- The UTC day of an identifier.
CREATE FUNCTION day_of(id uuid) RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (timestamp 'epoch' + ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint * interval '1 millisecond')::date $$;

CREATE FUNCTION from_ms(ms bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT timestamptz 'epoch' + ms * interval '1 millisecond' $$;

CREATE FUNCTION to_ms(at timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM at) * 1000)::bigint $$;

-- This server's time. In PL/pgSQL, since a function in SQL is parsed anew for each plan that it becomes a part of.
CREATE FUNCTION now_ms() RETURNS bigint
LANGUAGE plpgsql
AS $$ BEGIN RETURN extract(epoch FROM clock_timestamp()) * 1000; END $$;

-- The number of the latest transaction that has ended, as a statement sees it.
CREATE FUNCTION latest_ended() RETURNS xid8
LANGUAGE sql STABLE
AS $$ SELECT (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8 $$;

CREATE FUNCTION refuse_change() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'SG004'; END $$;
