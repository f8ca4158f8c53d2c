-- Checks, their hash chains and idempotency keys.

-- Fixed-length columns come first, so that no byte is lost to alignment. No
-- CHECK constraints: the encoder is the only writer, and each costs every row.
CREATE TABLE checks (
    check_id           uuid     NOT NULL, -- its millisecond is the timestamp (S5)
    node               uuid     NOT NULL, -- incarnation of the node that claimed
    epoch              uuid     NOT NULL,
    claimed_ms         bigint,            -- Redis' clock; null when the duplicate guard blocked
    until_ms           bigint,
    policy_version     integer  NOT NULL,
    latency_ms         integer  NOT NULL,
    format             smallint NOT NULL, -- of the row: which columns it has, and the encoder that renders it
    requested_type     "char",            -- null when the classifier was asked
    action_type        "char"   NOT NULL,
    decision           "char"   NOT NULL,
    confidence         "char"   NOT NULL,
    amount             numeric  NOT NULL,
    fingerprint        bytea    NOT NULL,
    request_sha        bytea    NOT NULL,
    currency           text     NOT NULL,
    agent_id           text     NOT NULL,
    policy_id          text     NOT NULL,
    counterparty       text     NOT NULL,
    payment_method     text,
    merchant_or_vendor text,
    reason_text        text,
    idempotency_key    text,
    metadata           text,              -- as sent; jsonb would reorder and reformat it
    reason_code        text,
    rule_id            text,
    rule_description   text,
    message            text,
    next_step          text,
    key_id             text     NOT NULL,
    request_id         text     NOT NULL,
    principal          text,              -- of the key, as its record said; null: key_id
    owner              text,
    charges            text,              -- JSON: what it took from budgets; null when nothing
    approval_id        uuid,              -- which it was sent with; used when it is allowed
    approval           text,              -- JSON: what it asks of people; null when nothing
    namespace          text,              -- of its idempotency keys (S59); null: the one that plain API keys share
    stops              bigint,            -- the last stop by which it was judged (S87); null when there was none
    payment            text,              -- JSON: the payment that it is of (S84); null when of none
    PRIMARY KEY (check_id)
) PARTITION BY RANGE (check_id);

CREATE INDEX checks_fingerprint ON checks (fingerprint, check_id) WHERE claimed_ms IS NOT NULL;

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON checks
    FOR EACH ROW EXECUTE FUNCTION refuse_change(); -- partitions inherit it
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON checks
    EXECUTE FUNCTION refuse_change(); -- partitions do not

-- A detached day stays closed: its rows are those of the archive. So does every day
-- of a time whose violations are archived, also one that had no checks.
CREATE FUNCTION refuse_archived_day() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF NEW.check_id < violations_from() OR EXISTS (SELECT FROM archived_days WHERE day = day_of(NEW.check_id)) THEN
        RAISE EXCEPTION 'the checks of % are archived', day_of(NEW.check_id) USING ERRCODE = 'SG004';
    END IF;
    RETURN NEW;
END $$;

-- Rows that belong to no other partition: identifiers of a clock that is far
-- off, or of a day whose partition was not created in time.
CREATE TABLE checks_default PARTITION OF checks DEFAULT;
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON checks_default
    EXECUTE FUNCTION refuse_change();
CREATE TRIGGER archived BEFORE INSERT ON checks_default
    FOR EACH ROW EXECUTE FUNCTION refuse_archived_day();

-- The days whose partitions were detached and archived, so that a day that was
-- archived can be told from one that was removed.
CREATE TABLE archived_days (
    day             date        PRIMARY KEY, -- UTC
    rows            bigint      NOT NULL,
    manifest_sha256 bytea       NOT NULL,
    archived_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- How long a pass may stay in force beyond its identifier's millisecond: a
-- pass that is live at a moment has an identifier no older than this. Commits
-- raise it before the first row that needs it.
CREATE TABLE horizon (ms bigint NOT NULL);
INSERT INTO horizon VALUES (0);

-- Hash chains (G8). The format of what is hashed is docs/audit/format.md.

-- How many checks of a policy a commit has of a minute, by decision.
CREATE TYPE check_count AS (
    minute      bigint, -- since 1970
    policy_id   text,
    allows      integer,
    escalations integer,
    blocks      integer
);

-- Each commit adds one row: its place in the hash chain of the node incarnation
-- that wrote it, an entry per check and per outcome, and the head over all of it and
-- the head before. A chain has one writer, and the primary key makes a fork impossible.
-- Never dropped, also when the days of its checks are archived. Entries are
-- hashes: not worth an attempt to compress them.
CREATE TABLE batches (
    chain_id uuid     NOT NULL, -- node of its checks and outcomes
    seq      bigint   NOT NULL, -- from 1, without gaps
    first_id uuid     NOT NULL,
    last_id  uuid     NOT NULL,
    version  smallint NOT NULL, -- of the format
    head     bytea    NOT NULL,
    entries  bytea    NOT NULL, -- 16 bytes of identifier and 32 of row hash each, by identifier
    counts   check_count[],     -- of its checks, for statistics; null when it has none. Not part of what is hashed
    xid      xid8     NOT NULL DEFAULT pg_current_xact_id(), -- 0 if that was in another cluster, as of violations
    PRIMARY KEY (chain_id, seq)
);
ALTER TABLE batches ALTER COLUMN entries SET STORAGE EXTERNAL;

-- Finds the batches of a range of identifiers. It costs a commit next to nothing.
CREATE INDEX batches_ids ON batches USING brin (first_id, last_id) WITH (pages_per_range = 32, autosummarize = on);

-- Finds what is too new for the counts of checks.
CREATE INDEX batches_xid ON batches (xid) WHERE xid > '0';

-- One table for all days: a table per day would let a key pass twice around
-- midnight (F14). The clock that counts is this server's.
CREATE TABLE idempotency_keys (
    key_hash   bytea       PRIMARY KEY, -- SHA-256 of the key, and of the approval that it was sent with
    check_id   uuid        NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

CREATE FUNCTION raise_horizon(new_ms bigint) RETURNS void
LANGUAGE sql
AS $$ UPDATE horizon SET ms = new_ms WHERE ms < new_ms $$;

-- A check as a node sends it, with the columns of the table in their order. Its fields are
-- part of the protocol between nodes and database: once released, a change is another type and
-- other functions beside these, for the nodes of the version before.
DO $$ BEGIN
    EXECUTE (SELECT format('CREATE TYPE check_record AS (%s)', string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum))
        FROM pg_attribute WHERE attrelid = 'checks'::regclass AND attnum > 0);
END $$;

-- Creates the partition of a UTC day if it is not there, and the violations of that
-- time are not archived. Attaching one, unlike
-- creating it in place, lets commits go on.
CREATE FUNCTION make_partition(day date) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    part text := 'checks_' || to_char(day, 'YYYYMMDD');
    ms   bigint := extract(epoch FROM day::timestamp) * 1000;
BEGIN
    PERFORM pg_advisory_xact_lock('checks'::regclass::oid::integer, 0); -- one node at a time
    -- Not to_regclass: it may not know yet what others made meanwhile.
    IF EXISTS (SELECT FROM pg_class WHERE relname = part AND relnamespace = quote_ident(current_schema())::regnamespace)
            OR first_id(ms) < violations_from() THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE checks INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', part);
    EXECUTE format('CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON %I EXECUTE FUNCTION refuse_change()', part);
    EXECUTE format('ALTER TABLE checks ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
        part, first_id(ms), first_id(ms + 86400000));
END $$;

-- The first day that may still be needed: until replays of idempotency keys (24
-- hours) and the longest duplicate window of any check are over, and a day more,
-- for clocks that are off.
CREATE FUNCTION detachable_before() RETURNS date
LANGUAGE sql STABLE
AS $$
    SELECT ((clock_timestamp() - greatest(interval '24 hours', ms * interval '1 millisecond') - interval '1 day')
        AT TIME ZONE 'UTC')::date FROM horizon
$$;

-- Refuses new rows of a day from now on, such as those of a node whose clock is
-- days behind. Keeps the checks of payments, which show them also when the day is archived (S84).
CREATE FUNCTION close_day(day date) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    part text   := 'checks_' || to_char(day, 'YYYYMMDD');
    ms   bigint := extract(epoch FROM day::timestamp) * 1000;
BEGIN
    IF day >= detachable_before() THEN
        RAISE EXCEPTION '% is still needed', day USING ERRCODE = 'SG005';
    END IF;
    IF EXISTS (SELECT FROM redemptions_open AS r WHERE day_of(r.check_id) = day) THEN
        RAISE EXCEPTION '% is still needed: a redeemed check has no outcome', day USING ERRCODE = 'SG005';
    END IF;
    IF EXISTS (SELECT FROM allows_open AS a WHERE day_of(a.check_id) = day
            AND NOT EXISTS (SELECT FROM outcomes AS o WHERE o.check_id = a.check_id)) THEN
        RAISE EXCEPTION '% is still needed: an allowed check was neither redeemed nor voided', day USING ERRCODE = 'SG005';
    END IF;
    IF EXISTS (SELECT FROM approval_deadlines AS d WHERE day_of(d.approval_id) = day AND d.at > clock_timestamp()) THEN
        RAISE EXCEPTION '% is still needed: people may still decide about a check, or use their approval', day USING ERRCODE = 'SG005';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = part::regclass AND tgname = 'closed') THEN
        EXECUTE format('CREATE TRIGGER closed BEFORE INSERT ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', part);
    END IF;
    PERFORM pg_advisory_xact_lock('checks'::regclass::oid::integer, 0); -- not beside remove_payments
    EXECUTE format('INSERT INTO kept_checks SELECT c.* FROM %I AS c WHERE c.check_id IN (
            SELECT n.check_id FROM payment_checks AS n WHERE n.check_id >= $1 AND n.check_id < $2 UNION SELECT p.first_check FROM payments AS p
            WHERE p.first_check >= $1 AND p.first_check < $2)
        ON CONFLICT DO NOTHING', part) USING first_id(ms), first_id(ms + 86400000);
END $$;

-- Takes the partition of a day out of checks and records its archive. The lock
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
    EXECUTE format('CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', part);
    INSERT INTO archived_days (day, rows, manifest_sha256) VALUES (day, rows, manifest_sha256);
END $$;

-- Reports whether the default partition has rows. It reads the first.
CREATE FUNCTION default_partition_occupied() RETURNS boolean
LANGUAGE sql STABLE
AS $$ SELECT EXISTS (SELECT FROM checks_default) $$;

-- Moves the rows of the default partition to partitions of their days, all at
-- once and unchanged, and returns how many there were. Commits wait meanwhile.
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
    ALTER TABLE checks_default RENAME TO unpartitioned;
    CREATE TABLE checks_default (LIKE unpartitioned INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES);
    CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON checks_default EXECUTE FUNCTION refuse_change();
    CREATE TRIGGER archived BEFORE INSERT ON checks_default FOR EACH ROW EXECUTE FUNCTION refuse_archived_day();
    ALTER TABLE checks ATTACH PARTITION checks_default DEFAULT;
    PERFORM make_partition(d.day) FROM (SELECT DISTINCT day_of(check_id) AS day FROM unpartitioned) AS d;
    INSERT INTO checks SELECT * FROM unpartitioned;
    GET DIAGNOSTICS moved = ROW_COUNT;
    SELECT count(*), sum(hashtextextended(s::text, 0)::numeric) INTO present, expected FROM unpartitioned AS s;
    SELECT sum(hashtextextended(c::text, 0)::numeric) INTO found FROM checks AS c WHERE c.check_id IN (SELECT check_id FROM unpartitioned);
    IF moved <> present OR found IS DISTINCT FROM expected OR EXISTS (SELECT FROM checks_default) THEN
        RAISE EXCEPTION 'rows of the default partition were not moved as they are';
    END IF;
    DROP TABLE unpartitioned;
    RETURN moved;
END $$;
