-- The audit trail, its fences and the configuration. Everything is made in the
-- first schema of the connection's search_path.
--
-- One-letter codes ("char"): action types r refund, c credit, d discount,
-- s spend; decisions a allow, e escalate, b block; confidence l, m, h.

DO $$ BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database must be encoded in UTF8, not %', current_setting('server_encoding');
    END IF;
END $$;

-- The smallest identifier (UUIDv7) of a Unix millisecond.
CREATE FUNCTION first_id(ms bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (lpad(to_hex(greatest(ms, 0)), 12, '0') || repeat('0', 20))::uuid $$;

CREATE FUNCTION refuse() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'SG004'; END $$;

-- Fixed-length columns come first, so that no byte is lost to alignment. No
-- CHECK constraints: the encoder is the only writer, and each costs every row.
-- A hash chain per writer (G8) needs a table of its own, keyed by node, and at
-- most one nullable column here, which costs old rows nothing.
CREATE TABLE checks (
    check_id           uuid     NOT NULL, -- its millisecond is the timestamp (S5)
    node               uuid     NOT NULL, -- incarnation of the node that claimed
    epoch              uuid     NOT NULL,
    claimed_ms         bigint,            -- Redis' clock; null when the duplicate guard blocked
    until_ms           bigint,
    policy_version     integer  NOT NULL,
    latency_ms         integer  NOT NULL,
    format             smallint NOT NULL, -- of the encoder that renders the row
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
    PRIMARY KEY (check_id)
) PARTITION BY RANGE (check_id);

CREATE INDEX checks_passed ON checks (fingerprint, check_id) WHERE claimed_ms IS NOT NULL;

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON checks
    FOR EACH ROW EXECUTE FUNCTION refuse(); -- partitions inherit it
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON checks
    EXECUTE FUNCTION refuse(); -- partitions do not

-- What no other partition takes: identifiers of a clock that is far off, or of
-- a day that was not made in time.
CREATE TABLE checks_default PARTITION OF checks DEFAULT;
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON checks_default
    EXECUTE FUNCTION refuse();

-- Makes the partition of a UTC day if it is not there. Attaching one, unlike
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
    IF EXISTS (SELECT FROM pg_class WHERE relname = part AND relnamespace = quote_ident(current_schema())::regnamespace) THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE checks INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', part);
    EXECUTE format('CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON %I EXECUTE FUNCTION refuse()', part);
    EXECUTE format('ALTER TABLE checks ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
        part, first_id(ms), first_id(ms + 86400000));
END $$;

-- How long a pass may stay in force beyond its identifier's millisecond: a
-- pass that is live at a moment has an identifier no older than this. Commits
-- raise it before the first row that needs it.
CREATE TABLE horizon (ms bigint NOT NULL);
INSERT INTO horizon VALUES (0);

CREATE FUNCTION reach(wanted bigint) RETURNS void
LANGUAGE sql
AS $$ UPDATE horizon SET ms = wanted WHERE ms < wanted $$;

-- A violation has the identifier of its check.
CREATE TABLE violations (
    id               uuid    PRIMARY KEY,
    policy_version   integer NOT NULL,
    latency_ms       integer NOT NULL,
    action_type      "char"  NOT NULL,
    decision         "char"  NOT NULL,
    confidence       "char"  NOT NULL,
    amount           numeric NOT NULL,
    currency         text    NOT NULL,
    agent_id         text    NOT NULL,
    policy_id        text    NOT NULL,
    counterparty     text    NOT NULL,
    rule_id          text    NOT NULL,
    rule_description text    NOT NULL
);

CREATE INDEX violations_agent ON violations (agent_id, id);

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON violations
    FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON violations
    EXECUTE FUNCTION refuse();

-- One table for all days: a table per day would let a key pass twice around
-- midnight (F14). The clock that counts is this server's.
CREATE TABLE idempotency (
    key_hash   bytea       PRIMARY KEY, -- SHA-256 of the key
    check_id   uuid        NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE INDEX idempotency_expiry ON idempotency (expires_at);

-- Records the keys (their SHA-256) or raises SG003 with those that are taken.
-- Sorted, so that two batches with common keys do not deadlock.
CREATE FUNCTION take_keys(hashes bytea[], ids uuid[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    taken  integer;
    losers text;
BEGIN
    INSERT INTO idempotency AS i (key_hash, check_id, expires_at)
        SELECT k.hash, k.id, clock_timestamp() + interval '24 hours'
        FROM unnest(hashes, ids) AS k (hash, id)
        ORDER BY k.hash
    ON CONFLICT (key_hash) DO UPDATE
        SET check_id = excluded.check_id, expires_at = excluded.expires_at
        WHERE i.expires_at <= clock_timestamp();
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken < cardinality(hashes) THEN
        SELECT string_agg(encode(k.hash, 'hex'), ',') INTO losers
            FROM unnest(hashes) AS k (hash)
            WHERE NOT EXISTS (SELECT FROM idempotency AS i
                WHERE i.key_hash = k.hash AND i.xmin = pg_current_xact_id()::xid);
        RAISE EXCEPTION 'idempotency keys are taken' USING ERRCODE = 'SG003', DETAIL = losers;
    END IF;
END $$;

CREATE TABLE epoch (id uuid NOT NULL);
INSERT INTO epoch VALUES (gen_random_uuid());

CREATE TABLE fenced (node uuid PRIMARY KEY, fenced_at timestamptz NOT NULL);

-- Every commit holds two advisory locks, shared, to its end: of the epoch and
-- of its node. Whoever ends one of them takes that lock alone. A lock is named
-- by the table that it guards, so that schemas do not share any.
CREATE FUNCTION node_lock(node uuid) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT hashtext(node::text) $$;

-- Begins a commit, or refuses it. The locks come first, and the reading is a
-- statement of its own: only a snapshot taken under the locks shows a fence
-- that was committed while this waited. Hence READ COMMITTED, too: under a
-- stricter isolation a stale epoch would pass. The locks are taken in
-- assignments because PERFORM runs a query, which costs ten times as much.
CREATE FUNCTION enter(node uuid, epoch uuid) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    held    boolean;
    current uuid;
    gone    boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'commits must be READ COMMITTED, not %', current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    held := pg_advisory_xact_lock_shared('epoch'::regclass::oid::integer, 0) IS NOT NULL;
    held := pg_advisory_xact_lock_shared('fenced'::regclass::oid::integer, node_lock(enter.node)) IS NOT NULL;
    SELECT e.id, EXISTS (SELECT FROM fenced AS f WHERE f.node = enter.node) INTO current, gone FROM epoch AS e;
    IF current IS DISTINCT FROM enter.epoch THEN
        RAISE EXCEPTION 'the epoch is over' USING ERRCODE = 'SG001';
    END IF;
    IF gone THEN
        RAISE EXCEPTION 'the node is fenced' USING ERRCODE = 'SG002';
    END IF;
    -- A role or a database may have lowered it; an answered check must not depend on that (F17).
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

-- A check as a node sends it: what the checks of a commit have in common is
-- left out. Its fields are part of the protocol between nodes and database: a
-- change is another type and another commit_checks beside these, for the nodes
-- that are still of the version before.
CREATE TYPE check_row AS (
    check_id           uuid,
    claimed_ms         bigint,
    until_ms           bigint,
    policy_version     integer,
    latency_ms         integer,
    requested_type     "char",
    action_type        "char",
    decision           "char",
    confidence         "char",
    amount             numeric,
    fingerprint        bytea,
    request_sha        bytea,
    currency           text,
    agent_id           text,
    policy_id          text,
    counterparty       text,
    payment_method     text,
    merchant_or_vendor text,
    reason_text        text,
    idempotency_key    text,
    metadata           text,
    reason_code        text,
    rule_id            text,
    rule_description   text,
    message            text,
    next_step          text,
    key_id             text,
    request_id         text
);

-- The whole of a commit: the fence, the keys (hash by hash and check by check),
-- the horizon, the checks and, if some of them are, the violations.
CREATE FUNCTION commit_checks(node uuid, epoch uuid, key_hashes bytea[], key_ids uuid[], horizon_ms bigint,
    format smallint, violations boolean, rows check_row[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM enter(node, epoch);
    IF cardinality(key_hashes) > 0 THEN
        PERFORM take_keys(key_hashes, key_ids);
    END IF;
    IF horizon_ms > 0 THEN
        PERFORM reach(horizon_ms);
    END IF;
    INSERT INTO checks (check_id, node, epoch, claimed_ms, until_ms, policy_version, latency_ms, format,
            requested_type, action_type, decision, confidence, amount, fingerprint, request_sha, currency,
            agent_id, policy_id, counterparty, payment_method, merchant_or_vendor, reason_text,
            idempotency_key, metadata, reason_code, rule_id, rule_description, message, next_step,
            key_id, request_id)
        SELECT r.check_id, commit_checks.node, commit_checks.epoch, r.claimed_ms, r.until_ms, r.policy_version, r.latency_ms, commit_checks.format,
            r.requested_type, r.action_type, r.decision, r.confidence, r.amount, r.fingerprint, r.request_sha, r.currency,
            r.agent_id, r.policy_id, r.counterparty, r.payment_method, r.merchant_or_vendor, r.reason_text,
            r.idempotency_key, r.metadata, r.reason_code, r.rule_id, r.rule_description, r.message, r.next_step,
            r.key_id, r.request_id
        FROM unnest(rows) AS r;
    IF violations THEN
        INSERT INTO violations (id, policy_version, latency_ms, action_type, decision, confidence, amount,
                currency, agent_id, policy_id, counterparty, rule_id, rule_description)
            SELECT r.check_id, r.policy_version, r.latency_ms, r.action_type, r.decision, r.confidence, r.amount,
                r.currency, r.agent_id, r.policy_id, r.counterparty, coalesce(r.rule_id, ''), coalesce(r.rule_description, '')
            FROM unnest(rows) AS r WHERE r.decision <> 'a';
    END IF;
END $$;

-- Makes next the epoch if seen still is; gives the epoch now in force.
CREATE FUNCTION rotate(seen uuid, next uuid) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    current uuid;
BEGIN
    PERFORM pg_advisory_xact_lock('epoch'::regclass::oid::integer, 0);
    UPDATE epoch SET id = next WHERE id = seen;
    SELECT id INTO current FROM epoch;
    RETURN current;
END $$;

-- Always writes, also for a node that is fenced already: a commit that wrote
-- nothing would not wait for the standby, behind which the caller looks up.
CREATE FUNCTION fence(node uuid) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock('fenced'::regclass::oid::integer, node_lock(fence.node));
    INSERT INTO fenced AS f (node, fenced_at) VALUES (fence.node, clock_timestamp())
        ON CONFLICT ON CONSTRAINT fenced_pkey DO UPDATE SET fenced_at = excluded.fenced_at;
END $$;

-- The number of the latest change of policies or keys.
CREATE TABLE config (gen bigint NOT NULL);
INSERT INTO config VALUES (0);

-- Every write of configuration begins with this, and so holds the row to its
-- end: generations commit in order, and the versions of a policy are
-- consecutive.
CREATE FUNCTION raise_generation() RETURNS bigint
LANGUAGE sql
AS $$ UPDATE config SET gen = gen + 1 RETURNING gen $$;

CREATE FUNCTION from_ms(ms bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT timestamptz 'epoch' + ms * interval '1 millisecond' $$;

CREATE FUNCTION to_ms(at timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM at) * 1000)::bigint $$;

CREATE TABLE policies (
    policy_id   text        NOT NULL,
    version     integer     NOT NULL,
    name        text        NOT NULL,
    description text        NOT NULL,
    rules       text        NOT NULL, -- as they were sent
    metadata    text        NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    gen         bigint      NOT NULL,
    PRIMARY KEY (policy_id, version)
);

CREATE INDEX policies_gen ON policies (gen);

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON policies
    FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON policies
    EXECUTE FUNCTION refuse();

CREATE TABLE keys (
    id         uuid        PRIMARY KEY,
    hash       bytea       NOT NULL UNIQUE, -- SHA-256 of the raw key
    name       text        NOT NULL,
    rpm        integer     NOT NULL,
    active     boolean     NOT NULL,
    created_at timestamptz NOT NULL,
    last_used  timestamptz,          -- null when never; changes without gen
    gen        bigint      NOT NULL
);

CREATE INDEX keys_gen ON keys (gen);

CREATE FUNCTION create_policy(new_id text, new_name text, new_description text, new_rules text, new_metadata text, now_ms bigint,
    OUT new_version integer, OUT created_ms bigint)
LANGUAGE plpgsql
AS $$
DECLARE
    new_gen bigint := raise_generation();
BEGIN
    SELECT coalesce(max(version), 0) + 1, coalesce(to_ms(min(created_at)), now_ms) INTO new_version, created_ms
        FROM policies WHERE policy_id = new_id;
    INSERT INTO policies (policy_id, version, name, description, rules, metadata, created_at, updated_at, gen)
        VALUES (new_id, new_version, new_name, new_description, new_rules, new_metadata, from_ms(created_ms), from_ms(now_ms), new_gen);
END $$;

CREATE FUNCTION create_key(new_id uuid, new_hash text, new_name text, new_rpm integer, new_active boolean, now_ms bigint) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    new_gen bigint := raise_generation();
BEGIN
    INSERT INTO keys (id, hash, name, rpm, active, created_at, gen)
        VALUES (new_id, decode(new_hash, 'hex'), new_name, new_rpm, new_active, from_ms(now_ms), new_gen);
END $$;

-- Changes what is not null. Gives no row when there is no such key.
CREATE FUNCTION update_key(changed uuid, new_name text, new_rpm integer, new_active boolean) RETURNS SETOF keys
LANGUAGE plpgsql
AS $$
DECLARE
    new_gen bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM keys AS k WHERE k.id = changed) THEN -- keys are never deleted
        RETURN;
    END IF;
    new_gen := raise_generation();
    RETURN QUERY UPDATE keys AS k
        SET name = coalesce(new_name, k.name), rpm = coalesce(new_rpm, k.rpm), active = coalesce(new_active, k.active), gen = new_gen
        WHERE k.id = changed RETURNING k.*;
END $$;
