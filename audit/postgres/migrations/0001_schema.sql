-- The audit trail, its fences and the configuration. Everything is created in
-- the first schema of the connection's search_path.
--
-- One-letter codes ("char"): action types r refund, c credit, d discount,
-- s spend; decisions a allow, e escalate, b block; confidence l, m, h; statuses of
-- outcomes x executed, f failed, v voided; their release n none, p pending, d done;
-- their excess e exceeded, p exceeded_pending.
--
-- Errors: SG001 the epoch is over, SG002 the node is fenced, SG003 idempotency
-- keys are taken (DETAIL lists them), SG004 a record is immutable, SG005 a day
-- cannot be detached, SG007 budgets have no room (DETAIL lists the counters),
-- SG008 outcomes are reported already, SG009 approvals cannot be used (both list the
-- checks in DETAIL), SG012 there are as many webhooks as there may be.

DO $$ BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database must be encoded in UTF8, not %', current_setting('server_encoding');
    END IF;
END $$;

-- Conversions.

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

-- The number of the latest transaction that has ended, as a statement sees it.
CREATE FUNCTION latest_ended() RETURNS xid8
LANGUAGE sql STABLE
AS $$ SELECT (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8 $$;

-- Checks.

CREATE FUNCTION refuse_change() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'SG004'; END $$;

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
    principal          text,              -- of the key, as its record said; null: key_id
    owner              text,
    charges            text,              -- JSON: what it took from budgets; null when nothing
    approval_id        uuid,              -- which it was sent with; used when it is allowed
    approval           text,              -- JSON: what it asks of people; null when nothing
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

-- What became of allowed actions, as it was reported (S39): a first report, and a
-- second by a key that may release after a first by one that may not. Kept also
-- when the days of their checks are archived.
CREATE TABLE outcomes (
    outcome_id uuid     NOT NULL, -- its millisecond is when it was reported
    check_id   uuid     NOT NULL,
    node       uuid     NOT NULL, -- incarnation of the node that recorded it
    epoch      uuid     NOT NULL,
    number     smallint NOT NULL, -- 1, 2
    status     "char"   NOT NULL,
    release    "char"   NOT NULL,
    excess     "char",            -- null when no more was moved than allowed
    amount     numeric,           -- that was moved; null unless executed
    reference  text,
    note       text,
    key_id     text     NOT NULL,
    principal  text,              -- of the key, as its record said; null: key_id
    request_id text     NOT NULL,
    xid        xid8     NOT NULL DEFAULT pg_current_xact_id(), -- see event_state
    PRIMARY KEY (check_id, number)
);

CREATE INDEX outcomes_xid ON outcomes (xid) WHERE xid > '0';
CREATE UNIQUE INDEX outcomes_id ON outcomes (outcome_id);

-- How long a pass may stay in force beyond its identifier's millisecond: a
-- pass that is live at a moment has an identifier no older than this. Commits
-- raise it before the first row that needs it.
CREATE TABLE horizon (ms bigint NOT NULL);
INSERT INTO horizon VALUES (0);

-- Hash chains (G8). The format of what is hashed is deploy/AUDIT-FORMAT.md.

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
    PRIMARY KEY (chain_id, seq)
);
ALTER TABLE batches ALTER COLUMN entries SET STORAGE EXTERNAL;

-- Finds the batches of a range of identifiers. It costs a commit next to nothing.
CREATE INDEX batches_ids ON batches USING brin (first_id, last_id) WITH (pages_per_range = 32, autosummarize = on);

-- Violations.

-- A violation has the identifier of its check. Column xid is the transaction
-- that wrote it; 0 if that was in another cluster (see recount_violations).
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
    rule_description text    NOT NULL,
    key_id           text    NOT NULL,
    principal        text,
    owner            text,
    xid              xid8    NOT NULL DEFAULT pg_current_xact_id()
);

-- They begin with what filters compare, so that each combination reads what it
-- returns and little else. That of transactions is for what is too new for the
-- counts.
CREATE INDEX violations_kind ON violations (action_type, decision, id);
CREATE INDEX violations_agent_kind ON violations (agent_id, action_type, decision, id);
CREATE INDEX violations_xid ON violations (xid) WHERE xid > '0';

-- The months whose violations were archived, oldest first, with how many of each
-- kind there were. What is older than the end of the latest is neither listed nor
-- counted from then on, and its rows may be deleted; nothing comes into it any more.
CREATE TABLE archived_violations (
    month                date        PRIMARY KEY, -- its first day, UTC
    rows                 bigint      NOT NULL,
    manifest_sha256      bytea       NOT NULL,
    refund_blocks        bigint      NOT NULL,
    refund_escalations   bigint      NOT NULL,
    credit_blocks        bigint      NOT NULL,
    credit_escalations   bigint      NOT NULL,
    discount_blocks      bigint      NOT NULL,
    discount_escalations bigint      NOT NULL,
    spend_blocks         bigint      NOT NULL,
    spend_escalations    bigint      NOT NULL,
    archived_at          timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The smallest identifier of a month, and of the month after it.
CREATE FUNCTION month_ids(month date, OUT low uuid, OUT high uuid)
LANGUAGE sql IMMUTABLE
AS $$
    SELECT first_id((extract(epoch FROM month::timestamp) * 1000)::bigint),
        first_id((extract(epoch FROM month::timestamp + interval '1 month') * 1000)::bigint)
$$;

-- The smallest identifier that a violation may have which is not archived.
CREATE FUNCTION violations_from() RETURNS uuid
LANGUAGE sql STABLE
AS $$
    SELECT coalesce((SELECT (month_ids(max(month))).high FROM archived_violations), '00000000000000000000000000000000')
$$;

-- Nothing but what is archived can be deleted.
CREATE FUNCTION refuse_change_of_violation() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM archived_violations WHERE month >= date_trunc('month', day_of(OLD.id)::timestamp)) THEN
        RETURN OLD; -- what is older than violations_from()
    END IF;
    RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'SG004';
END $$;

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON violations
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_violation();
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON violations
    EXECUTE FUNCTION refuse_change();

-- Counts of violations, so that total_count is exact without counting rows one
-- by one. They are derived: recount_violations makes them anew at any time. Archived
-- violations are not counted (see trim_violation_counts).
--
-- A row is a bucket: it counts the identifiers from its start_id to the start_id
-- of the agent's next bucket. Buckets begin not with hours but after a number of
-- violations, between one and two bucket sizes: whatever the rate, what is left
-- to be counted one by one at the ends of a range is bounded, and so is the
-- number of rows. All agents together are ''. An agent has buckets of its own
-- once it has two bucket sizes.
CREATE TABLE violation_counts (
    agent_id             text   NOT NULL,
    start_id             uuid   NOT NULL,
    max_id               uuid   NOT NULL, -- no identifier counted here is greater
    refund_blocks        bigint NOT NULL DEFAULT 0,
    refund_escalations   bigint NOT NULL DEFAULT 0,
    credit_blocks        bigint NOT NULL DEFAULT 0,
    credit_escalations   bigint NOT NULL DEFAULT 0,
    discount_blocks      bigint NOT NULL DEFAULT 0,
    discount_escalations bigint NOT NULL DEFAULT 0,
    spend_blocks         bigint NOT NULL DEFAULT 0,
    spend_escalations    bigint NOT NULL DEFAULT 0,
    total                bigint NOT NULL GENERATED ALWAYS AS (
        refund_blocks + refund_escalations + credit_blocks + credit_escalations +
        discount_blocks + discount_escalations + spend_blocks + spend_escalations) STORED,
    PRIMARY KEY (agent_id, start_id)
) WITH (fillfactor = 70);
INSERT INTO violation_counts (agent_id, start_id, max_id)
    VALUES ('', '00000000000000000000000000000000', '00000000000000000000000000000000');

-- What is counted: every violation whose transaction is below a bound and not
-- one of those that were pending when the bound was drawn. All of them had
-- ended, so no violation joins them any more. A transaction's number decides,
-- not the row's identifier: a node's clock may be behind and a commit may be
-- late, but what a snapshot shows is final for every transaction that had ended
-- by then.
--
-- While violations are recounted, recounted_to is the greatest identifier that
-- is; null when all are.
CREATE TABLE violation_count_state (
    below        xid8    NOT NULL,
    pending      xid8[]  NOT NULL,
    recounted_to uuid,
    bucket_size  integer NOT NULL DEFAULT 4096 CHECK (bucket_size >= 2), -- in violations
    cluster      bigint  NOT NULL -- whose transactions these are
);
INSERT INTO violation_count_state (below, pending, cluster) SELECT '1', '{}', system_identifier FROM pg_control_system();

-- Events.

-- The feed of what happened (S51), numbered when somebody asks for it: see
-- EVENTS.md. A row names its source, from which the event is read.
-- Types: v violation.recorded, r approval.requested, a approval.approved, d
-- approval.denied, e approval.expired, u approval.used, o outcome.reported, p
-- outcome.release_pending, x outcome.exceeded, b budget.exhausted, c policy.created,
-- k key.changed.
CREATE TABLE events (
    sequence  bigint PRIMARY KEY,
    source    uuid   NOT NULL, -- of a change its number
    type      "char" NOT NULL,
    policy_id text,            -- null when it is of none, or its check was archived before it had a number
    agent_id  text,            -- likewise
    UNIQUE (source, type)
);

-- What has a number: everything at positions below the bound, unless its transaction
-- was pending when the bound was drawn (see violation_count_state). The position of
-- a row is the number of its transaction. Where a transaction may have waited for
-- another after it had its number, in changes and uses of approvals, it is the number
-- of the latest that had ended by then, if that is greater.
CREATE TABLE event_state (
    below    xid8   NOT NULL,
    pending  xid8[] NOT NULL, -- ascending
    last     bigint NOT NULL, -- the greatest number
    timeline text   NOT NULL, -- of this server, which changes when a standby is promoted
    cluster  bigint NOT NULL  -- whose transactions these are
);
INSERT INTO event_state (below, pending, last, timeline, cluster) SELECT '1', '{}', 0, '', system_identifier FROM pg_control_system();

-- Idempotency keys.

-- One table for all days: a table per day would let a key pass twice around
-- midnight (F14). The clock that counts is this server's.
CREATE TABLE idempotency_keys (
    key_hash   bytea       PRIMARY KEY, -- SHA-256 of the key
    check_id   uuid        NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

-- Budgets.

-- What was taken from the counters of budgets (G12): derived from the charges of
-- checks, changed in their own commits, and recomputed by audit verify. One row
-- per window, or per bucket of a rolling window. Commits that take from a rolling
-- window take turns by a row of start_ms -1, which counts nothing.
CREATE TABLE budget_counters (
    counter_id uuid    NOT NULL, -- of the policy, rule, since and subject
    start_ms   bigint  NOT NULL, -- Unix milliseconds; 0 of a lifetime
    bucket_ms  bigint  NOT NULL, -- length of a rolling window's bucket, else 0
    end_ms     bigint,           -- not needed any more; null of a lifetime
    count      bigint  NOT NULL DEFAULT 0,
    since      integer NOT NULL, -- version of the policy
    used       numeric NOT NULL DEFAULT 0,
    policy_id  text    NOT NULL,
    rule_id    text    NOT NULL,
    subject    text    NOT NULL COLLATE "C", -- JSON array of the values of per
    agent_id   text,                         -- null unless the budget is per agent
    PRIMARY KEY (counter_id, start_ms)
) WITH (fillfactor = 70);

-- For listings. A subject may be longer than an index can hold.
CREATE INDEX budget_counters_listed ON budget_counters (policy_id, rule_id, since, start_ms, left(subject, 64));
CREATE INDEX budget_counters_end ON budget_counters (end_ms);

-- Which counters had no room left, or refused a check: once in each window (S51).
CREATE TABLE budget_exhaustions (
    counter_id   uuid        NOT NULL,
    start_ms     bigint      NOT NULL,
    bucket_ms    bigint      NOT NULL,
    id           uuid        NOT NULL DEFAULT gen_random_uuid(),
    at           timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
    count        bigint      NOT NULL, -- what was taken by then
    max_count    bigint,
    since        integer     NOT NULL,
    used         numeric     NOT NULL,
    max_used     numeric,
    policy_id    text        NOT NULL,
    rule_id      text        NOT NULL,
    subject      text        NOT NULL,
    agent_id     text,                 -- null unless the budget is per agent
    xid          xid8        NOT NULL DEFAULT pg_current_xact_id(), -- see event_state
    PRIMARY KEY (counter_id, start_ms)
);

CREATE UNIQUE INDEX budget_exhaustions_id ON budget_exhaustions (id);
CREATE INDEX budget_exhaustions_xid ON budget_exhaustions (xid) WHERE xid > '0';

-- Whose checks a counter met (S30), in whatever window, as long as it has a row.
CREATE TABLE budget_principals (
    counter_id uuid NOT NULL,
    principal  text NOT NULL,
    PRIMARY KEY (counter_id, principal)
);

-- Removes those of a counter whose last row was deleted. A commit that gives it a row
-- again has them locked, and they stay, or waits and inserts them (F86). That it gave
-- one while this came to the lock shows only in a statement that begins with the lock
-- held. One transaction at a time: of two that delete a row each, both would see the
-- other's.
CREATE FUNCTION remove_principals() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    locked text[];
BEGIN
    PERFORM pg_advisory_xact_lock('budget_principals'::regclass::oid::integer, 0);
    IF NOT EXISTS (SELECT FROM budget_counters AS b WHERE b.counter_id = OLD.counter_id) THEN
        SELECT array_agg(l.principal) INTO locked FROM (
            SELECT p.principal FROM budget_principals AS p WHERE p.counter_id = OLD.counter_id FOR UPDATE SKIP LOCKED) AS l;
        DELETE FROM budget_principals AS p WHERE p.counter_id = OLD.counter_id AND p.principal = ANY (locked)
            AND NOT EXISTS (SELECT FROM budget_counters AS b WHERE b.counter_id = OLD.counter_id);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER principals AFTER DELETE ON budget_counters
    FOR EACH ROW EXECUTE FUNCTION remove_principals();

-- Approvals.

-- What an escalated check asks of people (S42), with the identifier of the check,
-- whose row says the same (column approval). Times are this server's.
CREATE TABLE approvals (
    id            uuid        PRIMARY KEY,
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL, -- no decision from then on
    use_within_ms bigint      NOT NULL, -- of the approval that decides
    required      integer     NOT NULL,
    action_hash   bytea       NOT NULL,
    policy_id     text        NOT NULL,
    agent_id      text        NOT NULL,
    principal     text        NOT NULL, -- who asked
    owner         text,
    xid           xid8        NOT NULL DEFAULT pg_current_xact_id() -- see event_state
);

CREATE INDEX approvals_xid ON approvals (xid) WHERE xid > '0';

-- Once, for one check (G13).
CREATE TABLE approval_uses (
    approval_id uuid PRIMARY KEY REFERENCES approvals,
    check_id    uuid NOT NULL,
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id(), -- see event_state
    position    xid8 NOT NULL DEFAULT greatest(pg_current_xact_id(), latest_ended())
);

CREATE INDEX approval_uses_position ON approval_uses (position) WHERE position > '0';

-- When each that is pending or approved expires, so that those that are due are
-- found without reading others. Derived from the rest.
CREATE TABLE approval_deadlines (
    approval_id uuid        PRIMARY KEY,
    at          timestamptz NOT NULL
);

CREATE INDEX approval_deadlines_at ON approval_deadlines (at);

-- Fences.

-- Names this deployment in Redis, which another one might share.
CREATE TABLE deployment (id uuid NOT NULL);
INSERT INTO deployment VALUES (gen_random_uuid());

CREATE TABLE epoch (id uuid NOT NULL);
INSERT INTO epoch VALUES (gen_random_uuid());

CREATE TABLE fenced_nodes (node uuid PRIMARY KEY, fenced_at timestamptz NOT NULL);

-- Configuration.

CREATE TABLE config (
    generation   bigint NOT NULL, -- the number of the latest change of policies or keys
    policy_bytes bigint NOT NULL  -- the texts of all versions of all policies
);
INSERT INTO config VALUES (0, 0);

CREATE TABLE policies (
    policy_id   text        NOT NULL COLLATE "C",
    version     integer     NOT NULL,
    name        text        NOT NULL,
    description text        NOT NULL,
    rules       text        NOT NULL, -- as they were sent
    metadata    text        NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    generation  bigint      NOT NULL,
    budgets     jsonb,                -- since when each counts, by rule_id; null when there is none
    PRIMARY KEY (policy_id, version)
);

CREATE INDEX policies_generation ON policies (generation);

CREATE TABLE keys (
    id         uuid        PRIMARY KEY,
    hash       bytea       NOT NULL UNIQUE, -- SHA-256 of the raw key
    name       text        NOT NULL,
    rpm        integer     NOT NULL,
    active     boolean     NOT NULL,
    created_at timestamptz NOT NULL,
    last_used  timestamptz,          -- null when never; changes without generation
    grants     jsonb,                -- role, scopes, bindings and so on; null when none was given
    generation bigint      NOT NULL
);

CREATE INDEX keys_generation ON keys (generation);

-- The endpoints that events are delivered to (S52). What deliveries change is in
-- webhook_states, and so are the secrets, which no verifier has to read.
CREATE TABLE webhooks (
    id            uuid        PRIMARY KEY,
    url           text        NOT NULL,
    event_types   text        NOT NULL, -- JSON array
    active        boolean     NOT NULL,
    secret_sha256 bytea       NOT NULL,
    created_at    timestamptz NOT NULL,
    generation    bigint      NOT NULL
);

CREATE TABLE webhook_states (
    webhook_id      uuid        PRIMARY KEY REFERENCES webhooks ON DELETE CASCADE,
    secret          text        NOT NULL, -- as it is: HMAC needs it
    previous_secret text,                 -- signs too, until then
    previous_until  timestamptz,
    cursor          bigint      NOT NULL, -- events up to it were tried
    failures        integer     NOT NULL DEFAULT 0, -- in a row
    resume_at       timestamptz NOT NULL, -- when the next new event may be tried
    holder          uuid,                 -- the node that delivers
    held_until      timestamptz           -- any other may be the holder from then on
);

-- Events that are to be tried again.
CREATE TABLE webhook_retries (
    webhook_id uuid        NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    sequence   bigint      NOT NULL,
    attempts   integer     NOT NULL,
    since      timestamptz NOT NULL, -- since when it waits: the event's time, or that of its replay
    due_at     timestamptz NOT NULL,
    PRIMARY KEY (webhook_id, sequence)
);

CREATE INDEX webhook_retries_due ON webhook_retries (webhook_id, due_at);
CREATE INDEX webhook_retries_since ON webhook_retries (webhook_id, since);

-- Attempts. Those of a deleted webhook age as all do.
CREATE TABLE webhook_deliveries (
    id          uuid    PRIMARY KEY, -- its millisecond is when it was made
    webhook_id  uuid    NOT NULL,
    sequence    bigint  NOT NULL,
    event_id    uuid    NOT NULL,
    event_type  text    NOT NULL,
    attempt     integer NOT NULL,
    duration_ms bigint  NOT NULL,
    status_code integer NOT NULL, -- 0 when there was no answer
    error       text    NOT NULL, -- empty when it was delivered
    next_at     timestamptz       -- when it is tried again; null when it is not
);

CREATE INDEX webhook_deliveries_listed ON webhook_deliveries (webhook_id, id);

-- Every change of policies, keys and webhooks, and who made it (G8). The changes have one
-- hash chain: their writers take turns (raise_generation).
CREATE TABLE changes (
    seq        bigint      PRIMARY KEY, -- from 1, without gaps: the generation that the change made
    kind       text        NOT NULL,    -- policy.created, key.created, key.changed, approval.approved, webhook.created and so on
    subject    text        NOT NULL,    -- the policy_id, key_id, approval_id or webhook_id
    version    integer,                 -- of the policy
    actor      text        NOT NULL,    -- key, admin or system; what is not known of it is null
    key_id     text,                    -- the API key that it was made with
    principal  text,
    credential text,                    -- the admin key that it was made with: 8 hex digits of its SHA-256
    request_id text,
    address    text,                    -- of the client
    at         timestamptz NOT NULL,    -- by this server's clock
    details    text        NOT NULL,    -- JSON: what is to be read of the policy or key, never a secret
    hash       bytea       NOT NULL,    -- of the row of the policy or key as the change left it
    head       bytea       NOT NULL,
    xid        xid8        NOT NULL DEFAULT pg_current_xact_id(), -- see event_state
    position   xid8        NOT NULL DEFAULT greatest(pg_current_xact_id(), latest_ended())
);

CREATE INDEX changes_subject ON changes (subject, seq);
CREATE INDEX changes_position ON changes (position) WHERE position > '0';

-- Rows of these, like those of checks and violations, never change (G8).
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['outcomes', 'batches', 'events', 'budget_exhaustions', 'approvals', 'approval_uses', 'policies', 'changes', 'archived_days', 'archived_violations'] LOOP
        EXECUTE format('CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON %I EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;

-- No policy without the record of its creation.
CREATE FUNCTION require_recorded_policy() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF NOT EXISTS (SELECT FROM changes AS c WHERE c.subject = NEW.policy_id AND c.version = NEW.version
            AND c.kind = 'policy.created' AND c.hash = hash_policy(NEW)) THEN
        RAISE EXCEPTION 'policy % version % is not recorded: a policy is created by create_policy', NEW.policy_id, NEW.version;
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER recorded AFTER INSERT ON policies DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION require_recorded_policy();

-- No key otherwise than its newest change left it. Uses of keys are no changes.
CREATE FUNCTION require_recorded_key() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF hash_key(OLD) = hash_key(NEW) THEN
            RETURN NULL;
        END IF;
    END IF;
    IF hash_key(NEW) IS DISTINCT FROM (SELECT c.hash FROM changes AS c
            WHERE c.subject = name_key(NEW.id) AND c.kind <> 'policy.created' ORDER BY c.seq DESC LIMIT 1) THEN
        RAISE EXCEPTION 'the change of % is not recorded: keys are changed by create_key and update_key', name_key(NEW.id);
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER recorded AFTER INSERT OR UPDATE ON keys DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION require_recorded_key();

-- No webhook otherwise than its newest change left it, and none deleted without one.
CREATE FUNCTION require_recorded_webhook() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    w      webhooks := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    newest changes;
BEGIN
    SELECT * INTO newest FROM changes AS c WHERE c.subject = name_webhook(w.id) ORDER BY c.seq DESC LIMIT 1;
    IF (newest.kind = 'webhook.deleted') IS DISTINCT FROM (TG_OP = 'DELETE') OR TG_OP <> 'DELETE' AND newest.hash <> hash_webhook(w) THEN
        RAISE EXCEPTION 'the change of % is not recorded: webhooks are changed by create_webhook, update_webhook and delete_webhook', name_webhook(w.id);
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER recorded AFTER INSERT OR UPDATE OR DELETE ON webhooks DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION require_recorded_webhook();

-- The approval_id of an approval.
CREATE FUNCTION name_approval(id uuid) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT 'apr_' || replace(id::text, '-', '') $$;

-- The state of an approval at this moment. Its decisions are changes, and hashed
-- like all of them, and so is its expiry, which holds whatever the clock says later.
-- What is approved is denied by a later denial, until it is used; nothing turns into
-- approved by time (S45).
CREATE TYPE approval_state AS (
    status      text, -- pending, approved, denied, expired or used
    approved_at timestamptz,
    used_by     uuid
);

CREATE FUNCTION state_of_approval(a approvals) RETURNS approval_state
LANGUAGE sql VOLATILE
AS $$
    WITH decided AS (
        SELECT bool_or(d.kind = 'approval.denied') AS denied, bool_or(d.kind = 'approval.expired') AS expired,
            CASE WHEN count(*) FILTER (WHERE d.kind = 'approval.approved') >= a.required THEN max(d.at) FILTER (WHERE d.kind = 'approval.approved') END AS at
        FROM changes AS d WHERE d.subject = name_approval(a.id)
    )
    SELECT CASE
            WHEN u.check_id IS NOT NULL THEN 'used'
            WHEN d.denied THEN 'denied'
            WHEN d.expired THEN 'expired'
            WHEN d.at IS NULL AND clock_timestamp() < a.expires_at THEN 'pending'
            WHEN clock_timestamp() < d.at + a.use_within_ms * interval '1 millisecond' THEN 'approved'
            ELSE 'expired' END, d.at, u.check_id
    FROM decided AS d LEFT JOIN approval_uses AS u ON u.approval_id = a.id
$$;

-- Functions that commit checks.

-- Every commit holds two advisory locks, shared, to its end: of the epoch and
-- of its node. Whoever ends one of them takes that lock alone. A lock is named
-- by the table that it guards, so that schemas do not share any.
CREATE FUNCTION node_lock_key(node uuid) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT hashtext(node::text) $$;

-- Begins a commit, or refuses it. The locks come first, and the reading is a
-- statement of its own: only a snapshot taken under the locks shows a fence
-- that was committed while this waited. Hence READ COMMITTED, too: under a
-- stricter isolation a stale epoch would pass. The locks are taken in
-- assignments because PERFORM runs a query, which costs ten times as much.
CREATE FUNCTION begin_commit(node uuid, epoch uuid) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    held      boolean;
    current   uuid;
    is_fenced boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'commits must be READ COMMITTED, not %', current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    held := pg_advisory_xact_lock_shared('epoch'::regclass::oid::integer, 0) IS NOT NULL;
    held := pg_advisory_xact_lock_shared('fenced_nodes'::regclass::oid::integer, node_lock_key(begin_commit.node)) IS NOT NULL;
    SELECT e.id, EXISTS (SELECT FROM fenced_nodes AS f WHERE f.node = begin_commit.node) INTO current, is_fenced FROM epoch AS e;
    IF current IS DISTINCT FROM begin_commit.epoch THEN
        RAISE EXCEPTION 'the epoch is over' USING ERRCODE = 'SG001';
    END IF;
    IF is_fenced THEN
        RAISE EXCEPTION 'the node is fenced' USING ERRCODE = 'SG002';
    END IF;
    -- A role or a database may have lowered it; an answered check must not depend on that (F17).
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

-- Records the keys (their SHA-256) or raises SG003 with those that are taken.
-- Sorted, so that two batches with common keys do not deadlock.
CREATE FUNCTION insert_idempotency_keys(hashes bytea[], ids uuid[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    inserted integer;
    taken    text;
BEGIN
    INSERT INTO idempotency_keys AS i (key_hash, check_id, expires_at)
        SELECT k.hash, k.id, clock_timestamp() + interval '24 hours'
        FROM unnest(hashes, ids) AS k (hash, id)
        ORDER BY k.hash
    ON CONFLICT (key_hash) DO UPDATE
        SET check_id = excluded.check_id, expires_at = excluded.expires_at
        WHERE i.expires_at <= clock_timestamp();
    GET DIAGNOSTICS inserted = ROW_COUNT;
    IF inserted < cardinality(hashes) THEN
        SELECT string_agg(encode(k.hash, 'hex'), ',') INTO taken
            FROM unnest(hashes) AS k (hash)
            WHERE NOT EXISTS (SELECT FROM idempotency_keys AS i
                WHERE i.key_hash = k.hash AND i.xmin = pg_current_xact_id()::xid);
        RAISE EXCEPTION 'idempotency keys are taken' USING ERRCODE = 'SG003', DETAIL = taken;
    END IF;
END $$;

CREATE FUNCTION raise_horizon(new_ms bigint) RETURNS void
LANGUAGE sql
AS $$ UPDATE horizon SET ms = new_ms WHERE ms < new_ms $$;

-- A check as a node sends it: what the checks of a commit have in common is
-- left out. Its fields are part of the protocol between nodes and database:
-- once released, a change is another type and another commit_checks beside
-- these, for the nodes that are still of the version before.
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
    request_id         text,
    principal          text,
    owner              text,
    charges            text,
    approval_id        uuid,
    approval           text
);

-- A counter that may have no row, and whose check it meets.
CREATE TYPE counter_row AS (
    counter_id uuid,
    start_ms   bigint,
    bucket_ms  bigint,
    end_ms     bigint,
    since      integer,
    policy_id  text,
    rule_id    text,
    subject    text,
    agent_id   text,
    principal  text -- null if there is none to record
);

-- What a commit takes from one counter of a budget. What was taken before must be
-- at most most_used and most_count, where these are not null; max_used and
-- max_count are the budget's limits, null where it has none.
CREATE TYPE counter_change AS (
    counter_id uuid,
    start_ms   bigint,
    bucket_ms  bigint,
    count      bigint,
    used       numeric,
    most_count bigint,
    most_used  numeric,
    max_count  bigint,
    max_used   numeric
);

-- An outcome as a node sends it, and what a commit's outcomes correct in one
-- counter: added to used and count, both mostly below zero.
CREATE TYPE outcome_row AS (
    outcome_id uuid,
    check_id   uuid,
    number     smallint,
    status     "char",
    release    "char",
    excess     "char",
    amount     numeric,
    reference  text,
    note       text,
    key_id     text,
    principal  text,
    request_id text
);

CREATE TYPE counter_correction AS (
    counter_id uuid,
    start_ms   bigint,
    bucket_ms  bigint,
    count      bigint,
    used       numeric
);

-- Records outcomes or raises SG008 with the checks that have one of that number, or,
-- for a second, no first that left something to do. Sorted, so that two batches
-- do not deadlock.
CREATE FUNCTION insert_outcomes(node uuid, epoch uuid, reports outcome_row[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    inserted integer;
    reported text;
BEGIN
    INSERT INTO outcomes (outcome_id, check_id, node, epoch, number, status, release, excess, amount, reference, note, key_id, principal, request_id)
        SELECT r.outcome_id, r.check_id, insert_outcomes.node, insert_outcomes.epoch, r.number, r.status, r.release, r.excess, r.amount,
            r.reference, r.note, r.key_id, r.principal, r.request_id
        FROM unnest(reports) AS r
        WHERE r.number = 1 OR EXISTS (SELECT FROM outcomes AS o WHERE o.check_id = r.check_id AND o.number = 1 AND (o.release = 'p' OR o.excess = 'p'))
        ORDER BY r.check_id
    ON CONFLICT ON CONSTRAINT outcomes_pkey DO NOTHING;
    GET DIAGNOSTICS inserted = ROW_COUNT;
    IF inserted < cardinality(reports) THEN
        SELECT string_agg(r.check_id::text, ',') INTO reported
            FROM unnest(reports) AS r WHERE NOT EXISTS (SELECT FROM outcomes AS o WHERE o.outcome_id = r.outcome_id);
        RAISE EXCEPTION 'outcomes are reported already' USING ERRCODE = 'SG008', DETAIL = reported;
    END IF;
END $$;

-- Makes counters that have no row, unused, and records whose checks they meet.
-- First it waits for the other commits that take from the same rolling windows:
-- each has a row of its own to lock. Sorted, so that two commits do not deadlock.
-- Principals that are there are locked (see remove_principals).
CREATE FUNCTION insert_counters(counters counter_row[]) RETURNS void
LANGUAGE plpgsql -- which keeps plans, unlike sql
AS $$ BEGIN
    INSERT INTO budget_counters AS b (counter_id, start_ms, bucket_ms, end_ms, since, policy_id, rule_id, subject, agent_id)
        SELECT c.counter_id, -1, c.bucket_ms, max(c.end_ms), c.since, c.policy_id, c.rule_id, c.subject, c.agent_id
        FROM unnest(counters) AS c WHERE c.bucket_ms > 0
        GROUP BY c.counter_id, c.bucket_ms, c.since, c.policy_id, c.rule_id, c.subject, c.agent_id ORDER BY c.counter_id
    ON CONFLICT (counter_id, start_ms) DO UPDATE SET end_ms = greatest(b.end_ms, excluded.end_ms);

    INSERT INTO budget_counters (counter_id, start_ms, bucket_ms, end_ms, since, policy_id, rule_id, subject, agent_id)
        SELECT c.counter_id, c.start_ms, c.bucket_ms, c.end_ms, c.since, c.policy_id, c.rule_id, c.subject, c.agent_id
        FROM unnest(counters) AS c ORDER BY c.counter_id, c.start_ms
    ON CONFLICT (counter_id, start_ms) DO NOTHING;

    INSERT INTO budget_principals (counter_id, principal)
        SELECT DISTINCT c.counter_id, c.principal FROM unnest(counters) AS c WHERE c.principal IS NOT NULL ORDER BY 1, 2
    ON CONFLICT (counter_id, principal) DO UPDATE SET principal = excluded.principal WHERE false;
END $$;

-- Records that counters are exhausted, unless that is recorded for their window: for
-- a rolling one, in any of the buckets that count (S51).
CREATE FUNCTION insert_exhaustions(changes counter_change[]) RETURNS void
LANGUAGE sql
AS $$
    INSERT INTO budget_exhaustions (counter_id, start_ms, bucket_ms, count, max_count, since, used, max_used, policy_id, rule_id, subject, agent_id)
        SELECT DISTINCT ON (c.counter_id, CASE WHEN c.bucket_ms = 0 THEN c.start_ms END)
            c.counter_id, c.start_ms, c.bucket_ms, u.count, c.max_count, own.since, u.used, c.max_used, own.policy_id, own.rule_id, own.subject, own.agent_id
        FROM unnest(changes) AS c JOIN budget_counters AS own USING (counter_id, start_ms), LATERAL (
            SELECT coalesce(sum(b.used), 0) AS used, coalesce(sum(b.count), 0)::bigint AS count FROM budget_counters AS b
            WHERE b.counter_id = c.counter_id AND b.start_ms >= greatest(c.start_ms - 60 * c.bucket_ms, 0) AND (c.bucket_ms > 0 OR b.start_ms = c.start_ms)) AS u
        WHERE NOT EXISTS (SELECT FROM budget_exhaustions AS e
            WHERE e.counter_id = c.counter_id AND e.start_ms >= c.start_ms - 60 * c.bucket_ms AND (c.bucket_ms > 0 OR e.start_ms = c.start_ms))
        ORDER BY c.counter_id, CASE WHEN c.bucket_ms = 0 THEN c.start_ms END, c.start_ms
    ON CONFLICT (counter_id, start_ms) DO NOTHING
$$;

-- Takes from rolling windows, one after the other. What counts is the bucket, the 60
-- before it (S34), and any that a node whose clock is ahead has begun. Returns the
-- places of those that have no room, each with what was taken from it, and those that
-- are exhausted then.
CREATE FUNCTION take_from_rolling(changes counter_change[], OUT refused text, OUT exhausted counter_change[])
LANGUAGE plpgsql
AS $$
DECLARE
    change record;
    before record;
BEGIN
    FOR change IN SELECT * FROM unnest(changes) WITH ORDINALITY AS c LOOP
        SELECT coalesce(sum(b.used), 0) AS used, coalesce(sum(b.count), 0)::bigint AS count INTO before FROM budget_counters AS b
            WHERE b.counter_id = change.counter_id AND b.start_ms >= greatest(change.start_ms - 60 * change.bucket_ms, 0);
        IF before.used > change.most_used OR before.count > change.most_count THEN
            refused := concat_ws(',', refused, change.ordinality || ':' || before.used || ':' || before.count);
            CONTINUE;
        END IF;
        UPDATE budget_counters AS b SET used = b.used + change.used, count = b.count + change.count
            WHERE b.counter_id = change.counter_id AND b.start_ms = change.start_ms;
        IF before.used + change.used >= change.max_used OR before.count + change.count >= change.max_count THEN
            exhausted := exhausted || changes[change.ordinality];
        END IF;
    END LOOP;
END $$;

-- Takes from counters what the checks of a commit take, those of rolling windows
-- first, or raises SG007 with the places of those that have no room and what was taken
-- from each, or SG010 if one of a calendar window has no row, or if those that had no
-- room have it now: the update does not lock a row that it leaves. Then corrects
-- counters, in the window in which the outcomes' checks counted (S40) if its row is
-- still there: what is given back makes no room for the commit itself. Counters that
-- refused checks of the commit when these were judged are exhausted, like those that it
-- uses up. An array is null when it has no elements.
--
-- A new row has no use, so what it refuses can never be taken.
CREATE FUNCTION change_counters(counters counter_row[], rolling counter_change[], calendar counter_change[],
    refused counter_change[], corrections counter_correction[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    no_room   text;
    refusals  text;
    taken     integer;
    exhausted boolean;
    absent    boolean;
    used_up   counter_change[] := refused;
BEGIN
    IF counters IS NOT NULL THEN
        PERFORM insert_counters(counters);
    END IF;
    IF corrections IS NOT NULL THEN
        PERFORM FROM budget_counters AS b -- locked in the order in which they are changed
            WHERE (b.counter_id, b.start_ms) IN (SELECT c.counter_id, c.start_ms FROM unnest(rolling || calendar) AS c
                UNION ALL SELECT c.counter_id, c.start_ms FROM unnest(corrections) AS c)
            ORDER BY b.bucket_ms = 0, b.counter_id, b.start_ms FOR UPDATE;
    END IF;
    IF rolling IS NOT NULL THEN
        SELECT t.refused, used_up || t.exhausted INTO no_room, used_up FROM take_from_rolling(rolling) AS t;
    END IF;
    IF calendar IS NOT NULL THEN
        WITH counters AS (
            UPDATE budget_counters AS b SET used = b.used + c.used, count = b.count + c.count FROM unnest(calendar) AS c
                WHERE b.counter_id = c.counter_id AND b.start_ms = c.start_ms
                    AND (b.used <= c.most_used) IS NOT FALSE AND (b.count <= c.most_count) IS NOT FALSE
            RETURNING b.used >= c.max_used OR b.count >= c.max_count AS exhausted
        )
        SELECT count(*), bool_or(c.exhausted) INTO taken, exhausted FROM counters AS c;
        IF taken < cardinality(calendar) THEN
            SELECT string_agg(coalesce(cardinality(rolling), 0) + c.ordinality || ':' || b.used || ':' || b.count, ',')
                    FILTER (WHERE b.used > c.most_used OR b.count > c.most_count), bool_or(b.counter_id IS NULL) INTO refusals, absent
                FROM unnest(calendar) WITH ORDINALITY AS c LEFT JOIN budget_counters AS b USING (counter_id, start_ms)
                WHERE b.xmin IS DISTINCT FROM pg_current_xact_id()::xid OR c.most_count < 0;
            IF absent OR refusals IS NULL THEN
                RAISE EXCEPTION 'counters of budgets changed' USING ERRCODE = 'SG010';
            END IF;
            no_room := concat_ws(',', no_room, refusals);
        ELSIF exhausted THEN
            SELECT used_up || array_agg(c) INTO used_up FROM unnest(calendar) AS c JOIN budget_counters AS b USING (counter_id, start_ms)
                WHERE b.used >= c.max_used OR b.count >= c.max_count;
        END IF;
    END IF;
    IF no_room <> '' THEN
        RAISE EXCEPTION 'budgets have no room' USING ERRCODE = 'SG007', DETAIL = no_room;
    END IF;
    IF corrections IS NOT NULL THEN
        UPDATE budget_counters AS b SET used = greatest(b.used + c.used, 0), count = greatest(b.count + c.count, 0)
            FROM unnest(corrections) AS c WHERE b.counter_id = c.counter_id AND b.start_ms = c.start_ms;
    END IF;
    IF used_up IS NOT NULL THEN
        PERFORM insert_exhaustions(used_up);
    END IF;
END $$;

-- Makes the approvals that escalated checks ask for, and notes when they expire.
CREATE FUNCTION insert_approvals(rows check_row[]) RETURNS void
LANGUAGE plpgsql -- which keeps plans, unlike sql
AS $$ BEGIN
    WITH made AS (
        INSERT INTO approvals (id, created_at, expires_at, use_within_ms, required, action_hash, policy_id, agent_id, principal, owner)
            SELECT r.check_id, now.at, now.at + (a.asks ->> 'expires_ms')::bigint * interval '1 millisecond', (a.asks ->> 'use_within_ms')::bigint,
                (a.asks ->> 'required')::integer, decode(a.asks ->> 'action_hash', 'hex'), r.policy_id, r.agent_id, coalesce(r.principal, r.key_id), r.owner
            FROM unnest(rows) AS r, LATERAL (SELECT r.approval::jsonb AS asks) AS a,
                (SELECT date_trunc('milliseconds', clock_timestamp()) AS at) AS now
            WHERE r.approval IS NOT NULL
        RETURNING id, expires_at
    )
    INSERT INTO approval_deadlines (approval_id, at) SELECT id, expires_at FROM made;
END $$;

-- Uses approvals, each for one check (G13), or raises SG009 with the checks that
-- may not and why: absent, mismatch or the state, and which check used it. In the
-- order of approvals, so that two commits do not deadlock.
CREATE FUNCTION use_approvals(check_ids uuid[], approval_ids uuid[], hashes bytea[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    wanted  record;
    a       approvals;
    state   approval_state;
    refused text;
BEGIN
    FOR wanted IN SELECT * FROM unnest(check_ids, approval_ids, hashes) AS w (check_id, approval_id, hash) ORDER BY w.approval_id, w.check_id LOOP
        SELECT * INTO a FROM approvals AS x WHERE x.id = wanted.approval_id FOR UPDATE;
        IF NOT FOUND THEN
            state := ('absent', NULL, NULL);
        ELSIF a.action_hash <> wanted.hash THEN
            state := ('mismatch', NULL, NULL);
        ELSE
            state := state_of_approval(a);
        END IF;
        IF state.status = 'approved' THEN
            INSERT INTO approval_uses (approval_id, check_id) VALUES (wanted.approval_id, wanted.check_id);
            DELETE FROM approval_deadlines AS d WHERE d.approval_id = wanted.approval_id;
        ELSE
            refused := concat_ws(',', refused, concat_ws(':', wanted.check_id, state.status, state.used_by));
        END IF;
    END LOOP;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION 'approvals cannot be used' USING ERRCODE = 'SG009', DETAIL = refused;
    END IF;
END $$;

-- The whole of a commit: the fence, the keys (hash by hash and check by check), the
-- outcomes, the horizon, the batch's place in the chain of its node, the checks and,
-- if some of them are, the violations. Budgets come last, so that their rows are
-- locked for no longer than the commit itself takes. An array without elements is null.
CREATE FUNCTION commit_checks(node uuid, epoch uuid, key_hashes bytea[], key_ids uuid[], horizon_ms bigint,
    format smallint, has_violations boolean, rows check_row[],
    approval_checks uuid[], approval_ids uuid[], approval_hashes bytea[], has_approvals boolean, reports outcome_row[],
    counters counter_row[], rolling counter_change[], calendar counter_change[], refused counter_change[], corrections counter_correction[],
    seq bigint, version smallint, first_id uuid, last_id uuid, entries bytea, head bytea) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM begin_commit(node, epoch);
    IF key_hashes IS NOT NULL THEN
        PERFORM insert_idempotency_keys(key_hashes, key_ids);
    END IF;
    IF reports IS NOT NULL THEN
        PERFORM insert_outcomes(node, epoch, reports);
    END IF;
    IF horizon_ms > 0 THEN
        PERFORM raise_horizon(horizon_ms);
    END IF;
    INSERT INTO batches (chain_id, seq, first_id, last_id, version, head, entries)
        VALUES (commit_checks.node, commit_checks.seq, commit_checks.first_id, commit_checks.last_id, commit_checks.version,
            commit_checks.head, commit_checks.entries);
    INSERT INTO checks (check_id, node, epoch, claimed_ms, until_ms, policy_version, latency_ms, format,
            requested_type, action_type, decision, confidence, amount, fingerprint, request_sha, currency,
            agent_id, policy_id, counterparty, payment_method, merchant_or_vendor, reason_text,
            idempotency_key, metadata, reason_code, rule_id, rule_description, message, next_step,
            key_id, request_id, principal, owner, charges, approval_id, approval)
        SELECT r.check_id, commit_checks.node, commit_checks.epoch, r.claimed_ms, r.until_ms, r.policy_version, r.latency_ms, commit_checks.format,
            r.requested_type, r.action_type, r.decision, r.confidence, r.amount, r.fingerprint, r.request_sha, r.currency,
            r.agent_id, r.policy_id, r.counterparty, r.payment_method, r.merchant_or_vendor, r.reason_text,
            r.idempotency_key, r.metadata, r.reason_code, r.rule_id, r.rule_description, r.message, r.next_step,
            r.key_id, r.request_id, r.principal, r.owner, r.charges, r.approval_id, r.approval
        FROM unnest(rows) AS r;
    IF has_violations THEN
        INSERT INTO violations (id, policy_version, latency_ms, action_type, decision, confidence, amount,
                currency, agent_id, policy_id, counterparty, rule_id, rule_description, key_id, principal, owner)
            SELECT r.check_id, r.policy_version, r.latency_ms, r.action_type, r.decision, r.confidence, r.amount,
                r.currency, r.agent_id, r.policy_id, r.counterparty, coalesce(r.rule_id, ''), coalesce(r.rule_description, ''),
                r.key_id, r.principal, r.owner
            FROM unnest(rows) AS r WHERE r.decision <> 'a';
    END IF;
    IF has_approvals THEN
        PERFORM insert_approvals(rows);
    END IF;
    IF approval_ids IS NOT NULL THEN
        PERFORM use_approvals(approval_checks, approval_ids, approval_hashes);
    END IF;
    IF rolling IS NOT NULL OR calendar IS NOT NULL OR refused IS NOT NULL OR corrections IS NOT NULL THEN
        PERFORM change_counters(counters, rolling, calendar, refused, corrections);
    END IF;
END $$;

-- Functions that fence.

-- Makes next the epoch if seen still is. Returns the epoch now in force.
CREATE FUNCTION rotate_epoch(seen uuid, next uuid) RETURNS uuid
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
CREATE FUNCTION fence_node(node uuid) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock('fenced_nodes'::regclass::oid::integer, node_lock_key(fence_node.node));
    INSERT INTO fenced_nodes AS f (node, fenced_at) VALUES (fence_node.node, clock_timestamp())
        ON CONFLICT ON CONSTRAINT fenced_nodes_pkey DO UPDATE SET fenced_at = excluded.fenced_at;
END $$;

-- Functions that change the configuration.

-- Every write of configuration begins with this, and so holds the row to its
-- end: generations commit in order, the versions of a policy are consecutive,
-- and the changes have one chain.
CREATE FUNCTION raise_generation() RETURNS bigint
LANGUAGE sql
AS $$ UPDATE config SET generation = generation + 1 RETURNING generation $$;

-- A field as COPY writes it in the binary format: its length, -1 for null, then
-- its value.
CREATE FUNCTION encode_field(value bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE
AS $$ SELECT coalesce(int4send(length(value)) || value, int4send(-1)) $$;

CREATE FUNCTION encode_field(value text) RETURNS bytea
LANGUAGE sql STABLE
AS $$ SELECT encode_field(convert_to(value, 'UTF8')) $$;

CREATE FUNCTION hash_policy(p policies) RETURNS bytea
LANGUAGE sql STABLE
AS $$
    SELECT sha256(convert_to(E'spendgate policy 1\n', 'UTF8') || int2send(10::smallint)
        || encode_field(p.policy_id) || encode_field(int4send(p.version))
        || encode_field(p.name) || encode_field(p.description)
        || encode_field(p.rules) || encode_field(p.metadata)
        || encode_field(timestamptz_send(p.created_at)) || encode_field(timestamptz_send(p.updated_at))
        || encode_field(int8send(p.generation)) || encode_field(jsonb_send(p.budgets)))
$$;

CREATE FUNCTION hash_key(k keys) RETURNS bytea
LANGUAGE sql STABLE
AS $$
    SELECT sha256(convert_to(E'spendgate key 1\n', 'UTF8') || int2send(8::smallint)
        || encode_field(uuid_send(k.id)) || encode_field(k.hash) || encode_field(k.name)
        || encode_field(int4send(k.rpm)) || encode_field(boolsend(k.active))
        || encode_field(timestamptz_send(k.created_at)) || encode_field(int8send(k.generation))
        || encode_field(jsonb_send(k.grants)))
$$;

CREATE FUNCTION hash_webhook(w webhooks) RETURNS bytea
LANGUAGE sql STABLE
AS $$
    SELECT sha256(convert_to(E'spendgate webhook 1\n', 'UTF8') || int2send(7::smallint)
        || encode_field(uuid_send(w.id)) || encode_field(w.url) || encode_field(w.event_types) || encode_field(boolsend(w.active))
        || encode_field(w.secret_sha256) || encode_field(timestamptz_send(w.created_at)) || encode_field(int8send(w.generation)))
$$;

-- The key_id of a key.
CREATE FUNCTION name_key(id uuid) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT 'key_' || replace(id::text, '-', '') $$;

-- The webhook_id of a webhook.
CREATE FUNCTION name_webhook(id uuid) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT 'whk_' || replace(id::text, '-', '') $$;

-- Who makes a change, and from where.
CREATE TYPE actor AS (
    kind       text,
    key_id     text,
    principal  text,
    credential text,
    request_id text,
    address    text
);

-- Adds a change to the record. Called under the lock of raise_generation, whose
-- number it has.
CREATE FUNCTION record_change(generation bigint, kind text, subject text, version integer, who actor, details jsonb, hash bytea) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    made     timestamptz := date_trunc('milliseconds', clock_timestamp());
    previous bytea       := (SELECT c.head FROM changes AS c ORDER BY c.seq DESC LIMIT 1);
BEGIN
    INSERT INTO changes (seq, kind, subject, version, actor, key_id, principal, credential, request_id, address, at, details, hash, head)
        VALUES (generation, kind, subject, version, who.kind, who.key_id, who.principal, who.credential, who.request_id, who.address,
            made, details::text, hash, sha256(convert_to(E'spendgate change 1\n', 'UTF8')
                || coalesce(previous, decode(repeat('00', 32), 'hex')) || int2send(13::smallint)
                || encode_field(int8send(generation)) || encode_field(kind) || encode_field(subject) || encode_field(int4send(version))
                || encode_field(who.kind) || encode_field(who.key_id) || encode_field(who.principal) || encode_field(who.credential)
                || encode_field(who.request_id) || encode_field(who.address) || encode_field(timestamptz_send(made))
                || encode_field(details::text) || encode_field(hash)));
END $$;

-- Records what a key is now.
CREATE FUNCTION record_key(kind text, k keys, who actor) RETURNS void
LANGUAGE sql
AS $$
    SELECT record_change(k.generation, kind, name_key(k.id), NULL, who,
        jsonb_build_object('name', k.name, 'rate_limit_rpm', k.rpm, 'active', k.active) || coalesce(k.grants, '{}'), hash_key(k))
$$;

-- Records the decision of a person about an approval, unless it may not decide
-- (S44): outcome is absent, mismatch, own, replayed or the approval's status
-- when it takes none, else recorded. The count, the separation and the decision
-- are one transaction, and use_approvals waits for it.
CREATE FUNCTION decide_approval(wanted uuid, hash bytea, new_approves boolean, who_owner text, new_note text, who actor, OUT outcome text)
LANGUAGE plpgsql
AS $$
DECLARE
    a        approvals;
    status   text;
    decided  approval_state;
    decision text := CASE WHEN new_approves THEN 'approval.approved' ELSE 'approval.denied' END;
BEGIN
    SELECT * INTO a FROM approvals AS x WHERE x.id = wanted FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 'absent';
        RETURN;
    END IF;
    status := (state_of_approval(a)).status;
    outcome := CASE
        WHEN a.action_hash <> hash THEN 'mismatch'
        WHEN who.principal IN (a.principal, a.owner) OR who_owner IN (a.principal, a.owner) THEN 'own'
        WHEN EXISTS (SELECT FROM changes AS d WHERE d.subject = name_approval(wanted) AND d.principal = who.principal AND d.kind = decision) THEN 'replayed'
        WHEN status = 'pending' OR status = 'approved' AND NOT new_approves THEN 'recorded'
        ELSE status END;
    IF outcome = 'recorded' THEN
        PERFORM record_change(raise_generation(), decision, name_approval(wanted), NULL, who,
            jsonb_strip_nulls(jsonb_build_object('action_hash', encode(hash, 'hex'), 'note', new_note, 'owner', who_owner)), hash);
        decided := state_of_approval(a);
        IF decided.status = 'approved' THEN
            UPDATE approval_deadlines AS d SET at = decided.approved_at + a.use_within_ms * interval '1 millisecond' WHERE d.approval_id = wanted;
        ELSIF decided.status = 'denied' THEN
            DELETE FROM approval_deadlines AS d WHERE d.approval_id = wanted;
        END IF;
    END IF;
END $$;

-- Records the expiry of up to most approvals that are due. Returns whether more may
-- be, and since when the approval is pending that is longest. An approval that a decision or a use holds is left for the next time: waiting
-- for it could deadlock with a decision, which takes the generation after it.
CREATE FUNCTION expire_approvals(most integer, who actor, OUT more boolean, OUT oldest timestamptz)
LANGUAGE plpgsql
AS $$
DECLARE
    a     approvals;
    state approval_state;
    found integer := 0;
BEGIN
    FOR a IN SELECT x.* FROM approval_deadlines AS d JOIN approvals AS x ON x.id = d.approval_id
            WHERE d.at <= statement_timestamp() ORDER BY d.at LIMIT most FOR UPDATE OF x SKIP LOCKED LOOP
        found := found + 1;
        state := state_of_approval(a); -- as it is under the lock
        IF state.status = 'expired' AND NOT EXISTS (SELECT FROM changes AS c WHERE c.subject = name_approval(a.id) AND c.kind = 'approval.expired') THEN
            PERFORM record_change(raise_generation(), 'approval.expired', name_approval(a.id), NULL, who,
                jsonb_build_object('action_hash', encode(a.action_hash, 'hex'), 'was', CASE WHEN state.approved_at IS NULL THEN 'pending' ELSE 'approved' END),
                a.action_hash);
        END IF;
        IF state.status NOT IN ('pending', 'approved') THEN
            DELETE FROM approval_deadlines AS d WHERE d.approval_id = a.id;
        END IF;
    END LOOP;
    more := found = most;
    SELECT x.created_at INTO oldest FROM approval_deadlines AS d JOIN approvals AS x ON x.id = d.approval_id
        WHERE d.at = x.expires_at AND d.at > clock_timestamp() -- what is approved has another deadline
        ORDER BY d.approval_id LIMIT 1;
END $$;

-- Fails with SG006 if all policies together would have more than max_bytes.
-- new_budgets are the identities of its budgets by rule_id: a budget that is the
-- same in the version before goes on counting (S37).
CREATE FUNCTION create_policy(new_id text, new_name text, new_description text, new_rules text, new_metadata text, now_ms bigint,
    max_bytes bigint, new_budgets jsonb, who actor, OUT new_version integer, OUT created_ms bigint, OUT counted_since text)
LANGUAGE plpgsql
AS $$
DECLARE
    new_generation bigint := raise_generation();
    bytes          bigint := octet_length(new_id) + octet_length(new_name) + octet_length(new_description)
                          + octet_length(new_rules) + octet_length(new_metadata);
    previous       jsonb;
    created        policies;
BEGIN
    UPDATE config SET policy_bytes = policy_bytes + bytes WHERE policy_bytes + bytes <= max_bytes;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the policies have no room for % bytes', bytes USING ERRCODE = 'SG006';
    END IF;
    SELECT coalesce(max(version), 0) + 1, coalesce(to_ms(min(created_at)), now_ms) INTO new_version, created_ms
        FROM policies WHERE policy_id = new_id;
    SELECT budgets INTO previous FROM policies WHERE policy_id = new_id AND version = new_version - 1;
    INSERT INTO policies (policy_id, version, name, description, rules, metadata, created_at, updated_at, generation, budgets)
        SELECT new_id, new_version, new_name, new_description, new_rules, new_metadata, from_ms(created_ms), from_ms(now_ms), new_generation,
            jsonb_object_agg(b.key, CASE WHEN previous -> b.key ->> 'identity' = b.value THEN previous -> b.key
                ELSE jsonb_build_object('identity', b.value, 'version', new_version, 'at_ms', now_ms) END)
        FROM jsonb_each_text(coalesce(new_budgets, '{}')) AS b
        RETURNING * INTO created;
    counted_since := created.budgets::text;
    PERFORM record_change(new_generation, 'policy.created', new_id, new_version, who, jsonb_build_object('name', new_name), hash_policy(created));
END $$;

CREATE FUNCTION create_key(new_id uuid, new_hash text, new_name text, new_rpm integer, new_active boolean, now_ms bigint,
    new_grants jsonb, who actor) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    new_generation bigint := raise_generation();
    created        keys;
BEGIN
    INSERT INTO keys (id, hash, name, rpm, active, created_at, generation, grants)
        VALUES (new_id, decode(new_hash, 'hex'), new_name, new_rpm, new_active, from_ms(now_ms), new_generation, new_grants)
        RETURNING * INTO created;
    PERFORM record_key('key.created', created, who);
END $$;

-- Changes what is not null; the grants by a merge patch. Returns no row when there
-- is no such key.
CREATE FUNCTION update_key(changed uuid, new_name text, new_rpm integer, new_active boolean, grants_patch jsonb, who actor) RETURNS SETOF keys
LANGUAGE plpgsql
AS $$
DECLARE
    new_generation bigint;
    made           keys;
BEGIN
    IF NOT EXISTS (SELECT FROM keys AS k WHERE k.id = changed) THEN -- keys are never deleted
        RETURN;
    END IF;
    new_generation := raise_generation();
    UPDATE keys AS k
        SET name = coalesce(new_name, k.name), rpm = coalesce(new_rpm, k.rpm), active = coalesce(new_active, k.active), generation = new_generation,
            grants = CASE WHEN grants_patch IS NULL THEN k.grants
                ELSE nullif(jsonb_strip_nulls(coalesce(k.grants, '{}') || grants_patch), '{}') END
        WHERE k.id = changed RETURNING k.* INTO made;
    PERFORM record_key('key.changed', made, who);
    RETURN NEXT made;
END $$;

-- Records what a webhook is now, or was when it was deleted.
CREATE FUNCTION record_webhook(kind text, w webhooks, who actor) RETURNS void
LANGUAGE sql
AS $$
    SELECT record_change(w.generation, kind, name_webhook(w.id), NULL, who,
        jsonb_build_object('url', w.url, 'event_types', w.event_types::jsonb, 'status', CASE WHEN w.active THEN 'active' ELSE 'disabled' END), hash_webhook(w))
$$;

-- Fails with SG012 if there are most webhooks.
CREATE FUNCTION create_webhook(new_id uuid, new_url text, new_types text, new_active boolean, new_secret text, now_ms bigint, new_cursor bigint,
    most integer, who actor) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    new_generation bigint := raise_generation();
    created        webhooks;
BEGIN
    IF (SELECT count(*) FROM webhooks) >= most THEN
        RAISE EXCEPTION 'there are % webhooks', most USING ERRCODE = 'SG012';
    END IF;
    INSERT INTO webhooks (id, url, event_types, active, secret_sha256, created_at, generation)
        VALUES (new_id, new_url, new_types, new_active, sha256(convert_to(new_secret, 'UTF8')), from_ms(now_ms), new_generation)
        RETURNING * INTO created;
    INSERT INTO webhook_states (webhook_id, secret, cursor, resume_at) VALUES (new_id, new_secret, new_cursor, clock_timestamp());
    PERFORM record_webhook('webhook.created', created, who);
END $$;

-- Changes what is not null. The secret before a new one still signs for keep_ms. A
-- webhook that is active again is tried at once. Returns no row when there is no
-- such webhook.
CREATE FUNCTION update_webhook(changed uuid, new_url text, new_types text, new_active boolean, new_secret text, keep_ms bigint, who actor) RETURNS SETOF webhooks
LANGUAGE plpgsql
AS $$
DECLARE
    new_generation bigint;
    made           webhooks;
BEGIN
    PERFORM FROM webhooks AS w WHERE w.id = changed FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    new_generation := raise_generation();
    UPDATE webhooks AS w SET url = coalesce(new_url, w.url), event_types = coalesce(new_types, w.event_types), active = coalesce(new_active, w.active),
            secret_sha256 = coalesce(sha256(convert_to(new_secret, 'UTF8')), w.secret_sha256), generation = new_generation
        WHERE w.id = changed RETURNING w.* INTO made;
    UPDATE webhook_states AS s
        SET previous_secret = CASE WHEN new_secret IS NULL THEN s.previous_secret ELSE s.secret END,
            previous_until = CASE WHEN new_secret IS NULL THEN s.previous_until ELSE clock_timestamp() + keep_ms * interval '1 millisecond' END,
            secret = coalesce(new_secret, s.secret),
            failures = CASE WHEN new_active THEN 0 ELSE s.failures END,
            resume_at = CASE WHEN new_active THEN clock_timestamp() ELSE s.resume_at END
        WHERE s.webhook_id = changed;
    PERFORM record_webhook('webhook.changed', made, who);
    RETURN NEXT made;
END $$;

-- Reports whether there was one.
CREATE FUNCTION delete_webhook(deleted uuid, who actor) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    was webhooks;
BEGIN
    DELETE FROM webhooks AS w WHERE w.id = deleted RETURNING w.* INTO was;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    was.generation := raise_generation();
    PERFORM record_webhook('webhook.deleted', was, who);
    RETURN true;
END $$;

-- Functions that deliver to webhooks.

-- Records an attempt and what follows from it, if the node holds the webhook, and
-- reports whether it does. retried is when the retry was due that it was, null of a
-- new event: a retry that was put anew meanwhile stays. The event is tried again
-- after retry_ms, or not if that is null. The cursor moves while the webhook has the
-- types that the feed was read with. May be repeated.
CREATE FUNCTION record_delivery(node uuid, d webhook_deliveries, since timestamptz, retried timestamptz, retry_ms bigint, pause_ms bigint,
    new_cursor bigint, seen_types text)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    now timestamptz := clock_timestamp();
BEGIN
    PERFORM FROM webhook_states AS s WHERE s.webhook_id = d.webhook_id AND s.holder = node AND s.held_until > now FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    d.next_at := now + retry_ms * interval '1 millisecond';
    INSERT INTO webhook_deliveries VALUES (d.*) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    IF retried IS NULL AND retry_ms IS NOT NULL THEN
        INSERT INTO webhook_retries (webhook_id, sequence, attempts, since, due_at) VALUES (d.webhook_id, d.sequence, d.attempt, record_delivery.since, d.next_at)
            ON CONFLICT DO NOTHING;
    ELSIF retry_ms IS NOT NULL THEN
        UPDATE webhook_retries AS r SET attempts = d.attempt, due_at = d.next_at
            WHERE r.webhook_id = d.webhook_id AND r.sequence = d.sequence AND r.due_at = retried;
    ELSE
        DELETE FROM webhook_retries AS r WHERE r.webhook_id = d.webhook_id AND r.sequence = d.sequence AND r.due_at = retried;
    END IF;
    UPDATE webhook_states AS s SET failures = CASE WHEN d.error = '' THEN 0 ELSE s.failures + 1 END, resume_at = now + pause_ms * interval '1 millisecond',
            cursor = CASE WHEN EXISTS (SELECT FROM webhooks AS w WHERE w.id = d.webhook_id AND w.event_types = seen_types)
                THEN greatest(s.cursor, new_cursor) ELSE s.cursor END
        WHERE s.webhook_id = d.webhook_id;
    RETURN true;
END $$;

-- Functions that manage the partitions of checks.

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
-- days behind.
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
        EXECUTE format('CREATE TRIGGER closed BEFORE INSERT ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', part);
    END IF;
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

-- Functions that take violations out.

-- Notes that the violations of a month are archived. All checks of that time, and
-- before it, must have been detached, and all older violations archived. It keeps
-- new ones away meanwhile: their checks would be in the default partition, or in a
-- partition that is made now. Roll-ups that began before it fail.
CREATE FUNCTION detach_violations(month date, rows bigint, manifest_sha256 bytea) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    ids  record := month_ids(month);
    kept archived_violations;
BEGIN
    IF month <> date_trunc('month', month::timestamp)::date THEN
        RAISE EXCEPTION '% is not the first day of a month', month USING ERRCODE = 'SG005';
    END IF;
    IF (month + interval '1 month')::date > detachable_before() THEN
        RAISE EXCEPTION 'checks of % are still needed', to_char(month, 'YYYY-MM') USING ERRCODE = 'SG005';
    END IF;
    PERFORM pg_advisory_xact_lock('checks'::regclass::oid::integer, 0);
    LOCK TABLE checks_default IN SHARE MODE;
    PERFORM pg_advisory_xact_lock('violation_count_state'::regclass::oid::integer, 0);
    IF EXISTS (SELECT FROM checks_default WHERE check_id < ids.high) OR EXISTS (
            SELECT FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
            WHERE inhparent = 'checks'::regclass AND relname < 'checks_' || to_char(month + interval '1 month', 'YYYYMMDD')) THEN
        RAISE EXCEPTION 'days before the end of % are not detached', to_char(month, 'YYYY-MM') USING ERRCODE = 'SG005';
    END IF;
    IF EXISTS (SELECT FROM violations AS v WHERE v.id >= violations_from() AND v.id < ids.low) THEN
        RAISE EXCEPTION 'there are violations from before %', month USING ERRCODE = 'SG005';
    END IF;
    IF EXISTS (SELECT FROM violations AS v, event_state AS s
            WHERE v.xid > '0' AND (v.xid >= s.below OR v.xid = ANY (s.pending)) AND v.id < ids.high) THEN
        RAISE EXCEPTION 'violations of % have no events yet', to_char(month, 'YYYY-MM') USING ERRCODE = 'SG005';
    END IF;
    SELECT detach_violations.month, count(*), detach_violations.manifest_sha256,
            count(*) FILTER (WHERE v.action_type = 'r' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'r' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 'c' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'c' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 'd' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'd' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 's' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 's' AND v.decision = 'e'),
            clock_timestamp()
        INTO STRICT kept FROM violations AS v WHERE v.id >= ids.low AND v.id < ids.high;
    IF kept.rows <> detach_violations.rows THEN
        RAISE EXCEPTION '% has % violations, and the archive %', to_char(month, 'YYYY-MM'), kept.rows, detach_violations.rows USING ERRCODE = 'SG005';
    END IF;
    INSERT INTO archived_violations VALUES (kept.*);
    UPDATE violation_count_state SET below = below;
END $$;

-- Begins an agent's buckets where the violations that are not archived begin, and
-- forgets an agent that has none left. Returns whether there may be more such agents.
-- What it counts is final under the lock.
CREATE FUNCTION trim_violation_counts() RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    from_id uuid;
    agent   text;
    next    uuid;
BEGIN
    PERFORM pg_advisory_xact_lock('violation_count_state'::regclass::oid::integer, 0);
    from_id := violations_from();
    SELECT c.agent_id INTO agent FROM violation_counts AS c WHERE c.start_id < from_id ORDER BY c.agent_id LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM violation_counts AS c WHERE c.agent_id = agent AND c.start_id < from_id;
    SELECT c.start_id INTO next FROM violation_counts AS c WHERE c.agent_id = agent ORDER BY c.start_id LIMIT 1;
    INSERT INTO violation_counts (agent_id, start_id, max_id, refund_blocks, refund_escalations, credit_blocks, credit_escalations,
            discount_blocks, discount_escalations, spend_blocks, spend_escalations)
        SELECT agent, from_id, coalesce((array_agg(v.id ORDER BY v.id DESC))[1], from_id),
            count(*) FILTER (WHERE v.action_type = 'r' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'r' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 'c' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'c' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 'd' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'd' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 's' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 's' AND v.decision = 'e')
        FROM violation_count_state AS s JOIN violations AS v ON v.id >= from_id AND v.id < coalesce(next, 'ffffffffffffffffffffffffffffffff')
            AND v.id <= coalesce(s.recounted_to, 'ffffffffffffffffffffffffffffffff') AND v.xid < s.below AND v.xid <> ALL (s.pending)
            AND (agent = '' OR v.agent_id = agent AND v.action_type = ANY ('{r,c,d,s}') AND v.decision = ANY ('{b,e}'))
        HAVING count(*) > 0 OR agent = '' OR next IS NOT NULL;
    UPDATE violation_count_state SET below = below; -- roll-ups that began before this fail
    RETURN true;
END $$;

-- Deletes up to most rows of an archived month, the first with identifiers above
-- after, and returns the last; null when there are none. Who goes on from there does
-- not read again what was deleted.
CREATE FUNCTION delete_violations(month date, after uuid, most integer) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    ids  record := month_ids(month);
    last uuid;
BEGIN
    IF NOT EXISTS (SELECT FROM archived_violations AS a WHERE a.month = delete_violations.month) THEN
        RAISE EXCEPTION 'the violations of % are not archived', to_char(month, 'YYYY-MM') USING ERRCODE = 'SG005';
    END IF;
    IF EXISTS (SELECT FROM violation_counts WHERE start_id < violations_from()) THEN
        RAISE EXCEPTION 'violations of % are still counted', to_char(month, 'YYYY-MM') USING ERRCODE = 'SG005';
    END IF;
    WITH deleted AS (
        DELETE FROM violations WHERE id = ANY (ARRAY(
            SELECT v.id FROM violations AS v WHERE v.id > after AND v.id >= ids.low AND v.id < ids.high ORDER BY v.id LIMIT most))
        RETURNING id)
    SELECT d.id INTO last FROM deleted AS d ORDER BY d.id DESC LIMIT 1;
    RETURN last;
END $$;

-- Functions that count violations.

-- Splits a bucket by counting its violations one by one.
CREATE FUNCTION split_bucket(agent text, from_id uuid) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    state   violation_count_state;
    bucket  violation_counts;
    counted bigint;
BEGIN
    SELECT * INTO STRICT state FROM violation_count_state;
    DELETE FROM violation_counts WHERE agent_id = agent AND start_id = from_id RETURNING * INTO STRICT bucket;
    WITH numbered AS (
        SELECT v.id, v.action_type, v.decision, (row_number() OVER (ORDER BY v.id) - 1) / state.bucket_size AS number
        FROM violations AS v
        WHERE v.id BETWEEN from_id AND least(bucket.max_id, state.recounted_to)
            AND v.xid < state.below AND v.xid <> ALL (state.pending)
            AND (agent = '' OR v.agent_id = agent AND v.action_type = ANY ('{r,c,d,s}') AND v.decision = ANY ('{b,e}'))
    ), buckets AS (
        INSERT INTO violation_counts AS c (agent_id, start_id, max_id, refund_blocks, refund_escalations, credit_blocks, credit_escalations,
                discount_blocks, discount_escalations, spend_blocks, spend_escalations)
            SELECT agent, CASE number WHEN 0 THEN from_id ELSE (array_agg(id ORDER BY id))[1] END, (array_agg(id ORDER BY id DESC))[1],
                count(*) FILTER (WHERE action_type = 'r' AND decision = 'b'), count(*) FILTER (WHERE action_type = 'r' AND decision = 'e'),
                count(*) FILTER (WHERE action_type = 'c' AND decision = 'b'), count(*) FILTER (WHERE action_type = 'c' AND decision = 'e'),
                count(*) FILTER (WHERE action_type = 'd' AND decision = 'b'), count(*) FILTER (WHERE action_type = 'd' AND decision = 'e'),
                count(*) FILTER (WHERE action_type = 's' AND decision = 'b'), count(*) FILTER (WHERE action_type = 's' AND decision = 'e')
            FROM numbered GROUP BY number
        RETURNING c.total)
    SELECT coalesce(sum(total), 0) INTO counted FROM buckets;
    -- An agent's first bucket is inserted empty, to be filled here.
    IF bucket.total NOT IN (0, counted) THEN
        RAISE EXCEPTION '% violations from % are counted as %: see recount_violations', counted, from_id, bucket.total
            USING ERRCODE = 'data_corrupted';
    END IF;
END $$;

-- Adds up to about most violations to the counts. Returns whether all that were
-- visible are counted now; null when another session is counting.
--
-- It sees one snapshot from beginning to end: what it counts, what it splits and
-- the bound that it stores agree. Of two that add the same, the isolation lets
-- one commit; the lock only spares the other the work.
CREATE FUNCTION count_violations(most integer) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    seen    pg_snapshot := pg_current_snapshot();
    old     violation_count_state;
    state   violation_count_state;
    first   xid8;
    next    xid8;
    added   bigint;
    last    uuid;
    agents  text[];
    starts  uuid[];
    sampled text[];
    agent   text;
    from_id uuid;
BEGIN
    IF current_setting('transaction_isolation') <> 'repeatable read' THEN
        RAISE EXCEPTION 'violations are counted in REPEATABLE READ, not %', current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    IF NOT pg_try_advisory_xact_lock('violation_count_state'::regclass::oid::integer, 0) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO STRICT old FROM violation_count_state;
    IF old.cluster <> (SELECT system_identifier FROM pg_control_system()) THEN
        RAISE EXCEPTION 'the violations were written in another cluster: see recount_violations' USING ERRCODE = 'data_corrupted';
    END IF;
    state := old;
    IF old.recounted_to IS NULL THEN
        SELECT xid INTO first FROM violations WHERE xid > '0' AND xid >= old.below ORDER BY xid LIMIT 1;
        IF first IS NULL AND NOT EXISTS (SELECT FROM violations WHERE xid > '0' AND xid = ANY (old.pending)) THEN
            RETURN true; -- nothing is written while nothing happens
        END IF;
        SELECT xid INTO next FROM violations WHERE xid > '0' AND xid >= old.below ORDER BY xid OFFSET most LIMIT 1;
        IF next = first THEN -- a transaction is counted whole
            SELECT xid INTO next FROM violations WHERE xid > '0' AND xid > first ORDER BY xid LIMIT 1;
        END IF;
        state.below := coalesce(next, pg_snapshot_xmax(seen));
        state.pending := ARRAY(SELECT x FROM pg_snapshot_xip(seen) AS x WHERE x < state.below);
    END IF;

    WITH fresh AS MATERIALIZED (
        (SELECT id, agent_id, action_type, decision FROM violations
            WHERE old.recounted_to IS NOT NULL AND id > old.recounted_to AND xid < old.below AND xid <> ALL (old.pending)
            ORDER BY id LIMIT most)
        UNION ALL
        SELECT id, agent_id, action_type, decision FROM violations
            WHERE old.recounted_to IS NULL AND xid > '0' AND xid >= old.below AND xid < state.below
        UNION ALL
        SELECT id, agent_id, action_type, decision FROM violations
            WHERE old.recounted_to IS NULL AND xid > '0' AND xid = ANY (old.pending)
    ), owners AS MATERIALIZED ( -- with null for those that have no buckets of their own
        SELECT a.agent_id, (SELECT c.start_id FROM violation_counts AS c WHERE c.agent_id = a.agent_id ORDER BY c.start_id DESC LIMIT 1) AS last
        FROM (SELECT f.agent_id FROM fresh AS f UNION SELECT '') AS a
    ), owned AS (
        SELECT '' AS agent_id, (SELECT o.last FROM owners AS o WHERE o.agent_id = '') AS last, f.id, f.action_type, f.decision
            FROM fresh AS f
        UNION ALL
        SELECT o.agent_id, o.last, f.id, f.action_type, f.decision
            FROM fresh AS f JOIN owners AS o ON o.agent_id = f.agent_id WHERE o.agent_id <> '' AND o.last IS NOT NULL
    ), placed AS (
        SELECT o.agent_id, o.start_id, (array_agg(o.id ORDER BY o.id DESC))[1] AS max_id,
            count(*) FILTER (WHERE o.action_type = 'r' AND o.decision = 'b') AS refund_blocks,
            count(*) FILTER (WHERE o.action_type = 'r' AND o.decision = 'e') AS refund_escalations,
            count(*) FILTER (WHERE o.action_type = 'c' AND o.decision = 'b') AS credit_blocks,
            count(*) FILTER (WHERE o.action_type = 'c' AND o.decision = 'e') AS credit_escalations,
            count(*) FILTER (WHERE o.action_type = 'd' AND o.decision = 'b') AS discount_blocks,
            count(*) FILTER (WHERE o.action_type = 'd' AND o.decision = 'e') AS discount_escalations,
            count(*) FILTER (WHERE o.action_type = 's' AND o.decision = 'b') AS spend_blocks,
            count(*) FILTER (WHERE o.action_type = 's' AND o.decision = 'e') AS spend_escalations
        FROM (SELECT n.agent_id, n.id, n.action_type, n.decision, CASE
                WHEN n.id >= n.last THEN n.last -- nearly all; only what is late has to look for its bucket
                ELSE (SELECT c.start_id FROM violation_counts AS c
                    WHERE c.agent_id = n.agent_id AND c.start_id <= n.id ORDER BY c.start_id DESC LIMIT 1) END AS start_id
            FROM owned AS n) AS o
        GROUP BY o.agent_id, o.start_id
    ), raised AS (
        UPDATE violation_counts AS c SET max_id = greatest(c.max_id, p.max_id),
            refund_blocks = c.refund_blocks + p.refund_blocks, refund_escalations = c.refund_escalations + p.refund_escalations,
            credit_blocks = c.credit_blocks + p.credit_blocks, credit_escalations = c.credit_escalations + p.credit_escalations,
            discount_blocks = c.discount_blocks + p.discount_blocks, discount_escalations = c.discount_escalations + p.discount_escalations,
            spend_blocks = c.spend_blocks + p.spend_blocks, spend_escalations = c.spend_escalations + p.spend_escalations
        FROM placed AS p WHERE c.agent_id = p.agent_id AND c.start_id = p.start_id
        RETURNING c.agent_id, c.start_id, c.total
    )
    SELECT (SELECT count(*) FROM fresh), (SELECT f.id FROM fresh AS f ORDER BY f.id DESC LIMIT 1),
        ARRAY(SELECT r.agent_id FROM raised AS r WHERE r.total >= 2 * old.bucket_size ORDER BY r.agent_id, r.start_id),
        ARRAY(SELECT r.start_id FROM raised AS r WHERE r.total >= 2 * old.bucket_size ORDER BY r.agent_id, r.start_id),
        -- Counting for every agent would cost more than it is worth: one
        -- violation in half a bucket size has its agent counted.
        ARRAY(SELECT DISTINCT f.agent_id FROM fresh AS f WHERE uuid_hash(f.id) % (old.bucket_size / 2) = 0
            AND NOT EXISTS (SELECT FROM violation_counts AS c WHERE c.agent_id = f.agent_id))
        INTO added, last, agents, starts, sampled;
    IF old.recounted_to IS NOT NULL THEN
        state.recounted_to := CASE WHEN added = most THEN last END;
    END IF;
    UPDATE violation_count_state SET below = state.below, pending = state.pending, recounted_to = state.recounted_to;
    FOR i IN 1 .. cardinality(agents) LOOP
        PERFORM split_bucket(agents[i], starts[i]);
    END LOOP;
    IF cardinality(sampled) > 0 THEN
        from_id := violations_from();
    END IF;
    FOREACH agent IN ARRAY sampled LOOP
        PERFORM FROM violations AS v WHERE v.agent_id = agent AND v.action_type = ANY ('{r,c,d,s}') AND v.decision = ANY ('{b,e}')
                AND v.id >= from_id AND v.id <= coalesce(state.recounted_to, 'ffffffffffffffffffffffffffffffff') OFFSET 2 * old.bucket_size - 1 LIMIT 1;
        IF FOUND THEN
            INSERT INTO violation_counts (agent_id, start_id, max_id)
                VALUES (agent, from_id, coalesce(state.recounted_to, 'ffffffffffffffffffffffffffffffff'));
            PERFORM split_bucket(agent, from_id);
        END IF;
    END LOOP;
    RETURN state.recounted_to IS NULL AND old.recounted_to IS NULL AND next IS NULL;
END $$;

-- Has all violations counted again, by the next calls of count_violations; until
-- then a listing counts one by one. The numbers of transactions mean nothing in
-- another cluster: those that came from one become 0, once events are numbered by
-- them.
CREATE FUNCTION recount_violations() RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    here    bigint := (SELECT system_identifier FROM pg_control_system());
    from_id uuid;
BEGIN
    PERFORM pg_advisory_xact_lock('violation_count_state'::regclass::oid::integer, 0);
    from_id := violations_from();
    IF here <> (SELECT cluster FROM violation_count_state) THEN
        PERFORM sequence_restored();
    END IF;
    DELETE FROM violation_counts;
    INSERT INTO violation_counts (agent_id, start_id, max_id)
        VALUES ('', from_id, from_id);
    UPDATE violation_count_state SET cluster = here, recounted_to = from_id,
        below = pg_snapshot_xmax(pg_current_snapshot()), pending = ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot()));
END $$;

-- Functions that number events.

-- The policy and the agent of a check, null when it is archived. Planned for the check
-- alone: a plan for any check prepares for every partition there is.
CREATE FUNCTION find_action(id uuid, OUT policy_id text, OUT agent_id text)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan
AS $$ BEGIN SELECT c.policy_id, c.agent_id INTO find_action.policy_id, find_action.agent_id FROM checks AS c WHERE c.check_id = find_action.id; END $$;

-- What there is to be numbered: at positions from low up to high, or of the
-- transactions that were pending below low.
CREATE FUNCTION event_sources(low xid8, high xid8, pending xid8[]) RETURNS TABLE
    ("position" xid8, xid xid8, rank integer, source uuid, type "char", policy_id text, agent_id text)
LANGUAGE sql STABLE
AS $$
    SELECT c.position, c.xid, 1, lpad(to_hex(c.seq), 32, '0')::uuid,
            CASE c.kind WHEN 'approval.approved' THEN 'a' WHEN 'approval.denied' THEN 'd' WHEN 'approval.expired' THEN 'e'
                WHEN 'policy.created' THEN 'c' ELSE 'k' END::"char",
            CASE c.kind WHEN 'policy.created' THEN c.subject ELSE a.policy_id END, a.agent_id
        FROM changes AS c LEFT JOIN approvals AS a ON a.id = CASE WHEN c.kind LIKE 'approval.%' THEN substr(c.subject, 5)::uuid END
        WHERE c.position > '0' AND c.position >= coalesce(pending[1], low) AND c.position < high AND (c.position >= low OR c.xid = ANY (pending))
            AND CASE c.kind
                WHEN 'approval.approved' THEN a.required = (SELECT count(*) FROM changes AS d
                    WHERE d.subject = c.subject AND d.kind = 'approval.approved' AND d.seq <= c.seq)
                ELSE c.kind IN ('approval.denied', 'approval.expired', 'policy.created', 'key.created', 'key.changed') END
    UNION ALL
    SELECT u.position, u.xid, 2, u.approval_id, 'u', a.policy_id, a.agent_id
        FROM approval_uses AS u JOIN approvals AS a ON a.id = u.approval_id
        WHERE u.position > '0' AND u.position >= coalesce(pending[1], low) AND u.position < high AND (u.position >= low OR u.xid = ANY (pending))
    UNION ALL
    SELECT b.xid, b.xid, 3, b.id, 'b', b.policy_id, b.agent_id
        FROM budget_exhaustions AS b WHERE b.xid > '0' AND (b.xid >= low AND b.xid < high OR b.xid = ANY (pending))
    UNION ALL
    SELECT v.xid, v.xid, 4, v.id, 'v', v.policy_id, v.agent_id
        FROM violations AS v WHERE v.xid > '0' AND (v.xid >= low AND v.xid < high OR v.xid = ANY (pending))
    UNION ALL
    SELECT a.xid, a.xid, 5, a.id, 'r', a.policy_id, a.agent_id
        FROM approvals AS a WHERE a.xid > '0' AND (a.xid >= low AND a.xid < high OR a.xid = ANY (pending))
    UNION ALL
    SELECT o.xid, o.xid, n.rank, o.outcome_id, n.type, k.policy_id, k.agent_id
        FROM outcomes AS o, LATERAL find_action(o.check_id) AS k, LATERAL (VALUES (6, 'o'::"char", true), (7, 'p', o.release = 'p'), (8, 'x', o.excess IS NOT NULL)) AS n (rank, type, occurred)
        WHERE o.xid > '0' AND (o.xid >= low AND o.xid < high OR o.xid = ANY (pending)) AND n.occurred
$$;

-- The positions of what is at low or above: the smallest, up to most.
CREATE FUNCTION event_positions(low xid8, most integer) RETURNS SETOF xid8
LANGUAGE sql STABLE
AS $$
    SELECT p.at FROM (
        (SELECT position FROM changes WHERE position > '0' AND position >= low ORDER BY position LIMIT most)
        UNION ALL (SELECT position FROM approval_uses WHERE position > '0' AND position >= low ORDER BY position LIMIT most)
        UNION ALL (SELECT xid FROM budget_exhaustions WHERE xid > '0' AND xid >= low ORDER BY xid LIMIT most)
        UNION ALL (SELECT xid FROM violations WHERE xid > '0' AND xid >= low ORDER BY xid LIMIT most)
        UNION ALL (SELECT xid FROM approvals WHERE xid > '0' AND xid >= low ORDER BY xid LIMIT most)
        UNION ALL (SELECT xid FROM outcomes WHERE xid > '0' AND xid >= low ORDER BY xid LIMIT most)
    ) AS p (at) ORDER BY p.at LIMIT most
$$;

-- Whether anything that is visible has no number.
CREATE FUNCTION events_wait() RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT EXISTS (SELECT FROM event_state AS s, LATERAL event_positions(s.below, 1))
        OR EXISTS (SELECT FROM event_state AS s, LATERAL event_sources(s.below, s.below, s.pending) WHERE s.pending <> '{}')
$$;

-- Numbers up to about most of what was committed before the call. Returns whether
-- all of that has numbers now. It waits for a session that is at it, since what that
-- one numbers is to be in reach of the caller, too.
--
-- What counts is one snapshot, taken under the lock: what only later ones show was
-- written by transactions that it shows as running.
CREATE FUNCTION sequence_events(most integer) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    lost_at_most constant bigint := 1000000; -- numbers, by a failover to a standby that was behind
    state    event_state;
    seen     pg_snapshot;
    first    xid8;
    next     xid8;
    here     text;
    added    bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'events are numbered in READ COMMITTED, not %', current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    IF NOT events_wait() THEN
        RETURN true; -- nothing is locked, and nothing written, while nothing happens
    END IF;
    PERFORM pg_advisory_xact_lock('event_state'::regclass::oid::integer, 0);
    IF NOT events_wait() THEN
        RETURN true;
    END IF;
    -- Numbers that were read must not be given again after a failover.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT pg_current_snapshot() INTO seen;
    SELECT * INTO STRICT state FROM event_state;
    IF state.cluster <> (SELECT system_identifier FROM pg_control_system()) THEN
        RAISE EXCEPTION 'the events were written in another cluster: see recount_violations' USING ERRCODE = 'data_corrupted';
    END IF;
    SELECT p INTO first FROM event_positions(state.below, 1) AS p;
    SELECT p INTO next FROM event_positions(state.below, most + 1) AS p ORDER BY p OFFSET most LIMIT 1;
    IF next = first THEN -- a position is numbered whole
        next := NULL;
        SELECT p INTO next FROM event_positions((first::text::bigint + 1)::text::xid8, 1) AS p;
    END IF;
    IF next >= pg_snapshot_xmax(seen) THEN
        next := NULL;
    END IF;
    SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) INTO here;
    IF here <> state.timeline AND state.last > 0 THEN
        state.last := state.last + lost_at_most;
    END IF;
    INSERT INTO events (sequence, source, type, policy_id, agent_id)
        SELECT state.last + row_number() OVER (ORDER BY s.position, s.xid < s.position, s.rank, s.source), s.source, s.type, s.policy_id, s.agent_id
        FROM event_sources(state.below, coalesce(next, pg_snapshot_xmax(seen)), state.pending) AS s
        WHERE pg_visible_in_snapshot(s.xid, seen);
    GET DIAGNOSTICS added = ROW_COUNT;
    UPDATE event_state SET below = coalesce(next, pg_snapshot_xmax(seen)), last = state.last + added, timeline = here,
        pending = ARRAY(SELECT x FROM pg_snapshot_xip(seen) AS x WHERE x < coalesce(next, pg_snapshot_xmax(seen)) ORDER BY x);
    RETURN (next IS NULL);
END $$;

-- Numbers what has none in a database that was restored into another cluster, and
-- makes the numbers of transactions 0, which mean nothing there.
CREATE FUNCTION sequence_restored() RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    state event_state;
    name  text;
    added bigint;
BEGIN
    SELECT * INTO STRICT state FROM event_state;
    INSERT INTO events (sequence, source, type, policy_id, agent_id)
        SELECT state.last + row_number() OVER (ORDER BY s.position, s.xid < s.position, s.rank, s.source), s.source, s.type, s.policy_id, s.agent_id
        FROM event_sources(state.below, '18446744073709551615', state.pending) AS s;
    GET DIAGNOSTICS added = ROW_COUNT;
    FOREACH name IN ARRAY ARRAY['violations', 'approvals', 'outcomes', 'budget_exhaustions', 'approval_uses', 'changes'] LOOP
        EXECUTE format('ALTER TABLE %I DROP COLUMN xid', name);
        EXECUTE format('ALTER TABLE %I ADD COLUMN xid xid8 NOT NULL DEFAULT %L', name, '0');
        EXECUTE format('ALTER TABLE %I ALTER COLUMN xid SET DEFAULT pg_current_xact_id()', name);
        IF name IN ('approval_uses', 'changes') THEN
            EXECUTE format('ALTER TABLE %I DROP COLUMN position', name);
            EXECUTE format('ALTER TABLE %I ADD COLUMN position xid8 NOT NULL DEFAULT %L', name, '0');
            EXECUTE format('ALTER TABLE %I ALTER COLUMN position SET DEFAULT greatest(pg_current_xact_id(), latest_ended())', name);
            EXECUTE format('CREATE INDEX %I ON %I (position) WHERE position > %L', name || '_position', name, '0');
        ELSE
            EXECUTE format('CREATE INDEX %I ON %I (xid) WHERE xid > %L', name || '_xid', name, '0');
        END IF;
    END LOOP;
    -- Of numbers that were read and are gone none is given again: see sequence_events.
    UPDATE event_state SET cluster = (SELECT system_identifier FROM pg_control_system()), timeline = 'restored', last = state.last + added,
        below = pg_snapshot_xmax(pg_current_snapshot()), pending = ARRAY(SELECT x FROM pg_snapshot_xip(pg_current_snapshot()) AS x ORDER BY x);
END $$;

-- Rights. Nodes need not own what they write to (deploy/postgres/grants.sql).
-- What they may only do as a whole runs with the owner's rights, and with a
-- search_path in which a caller can put nothing; a partition belongs to the owner
-- of checks, whoever asks for it, and policies and keys change with their record
-- alone.
DO $$
DECLARE
    fixed text;
BEGIN
    FOREACH fixed IN ARRAY ARRAY['make_partition(date)', 'count_violations(integer)', 'sequence_events(integer)', 'refuse_archived_day()', 'default_partition_occupied()',
            'require_recorded_policy()', 'require_recorded_key()', 'create_policy(text, text, text, text, text, bigint, bigint, jsonb, actor)',
            'create_key(uuid, text, text, integer, boolean, bigint, jsonb, actor)', 'update_key(uuid, text, integer, boolean, jsonb, actor)',
            'create_webhook(uuid, text, text, boolean, text, bigint, bigint, integer, actor)', 'require_recorded_webhook()',
            'update_webhook(uuid, text, text, boolean, text, bigint, actor)', 'delete_webhook(uuid, actor)',
            'decide_approval(uuid, bytea, boolean, text, text, actor)', 'use_approvals(uuid[], uuid[], bytea[])', 'expire_approvals(integer, actor)',
            'state_of_approval(approvals)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', fixed, current_schema());
    END LOOP;
    EXECUTE format('ALTER FUNCTION recount_violations() SET search_path = %I, pg_temp', current_schema());
END $$;

-- What has no number yet is little, whatever the statistics say.
ALTER FUNCTION sequence_events(integer) SET plan_cache_mode = force_custom_plan;
ALTER FUNCTION sequence_events(integer) SET enable_seqscan = off;
ALTER FUNCTION sequence_events(integer) SET jit = off;

-- Counters are locked in the order of the changes, so each is looked up in turn.
ALTER FUNCTION change_counters(counter_row[], counter_change[], counter_change[], counter_change[], counter_correction[]) SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION change_counters(counter_row[], counter_change[], counter_change[], counter_change[], counter_correction[]) SET enable_hashjoin = off;
ALTER FUNCTION change_counters(counter_row[], counter_change[], counter_change[], counter_change[], counter_correction[]) SET enable_mergejoin = off;
ALTER FUNCTION change_counters(counter_row[], counter_change[], counter_change[], counter_change[], counter_correction[]) SET enable_seqscan = off;

-- Each query is planned for its own values, which decide what it has to read.
ALTER FUNCTION count_violations(integer) SET plan_cache_mode = force_custom_plan;
ALTER FUNCTION trim_violation_counts() SET plan_cache_mode = force_custom_plan;
-- Some of many rows, by the index, whatever the statistics say.
ALTER FUNCTION delete_violations(date, uuid, integer) SET plan_cache_mode = force_custom_plan;
ALTER FUNCTION delete_violations(date, uuid, integer) SET enable_seqscan = off;
ALTER FUNCTION delete_violations(date, uuid, integer) SET enable_bitmapscan = off;
-- New rows are in no statistics: it would take them for few.
ALTER FUNCTION count_violations(integer) SET enable_nestloop = off;

REVOKE EXECUTE ON FUNCTION make_partition(date), detach_day(date, bigint, bytea), close_day(date), empty_default_partition(),
    detach_violations(date, bigint, bytea), trim_violation_counts(), delete_violations(date, uuid, integer),
    count_violations(integer), split_bucket(text, uuid), recount_violations(),
    find_action(uuid), event_sources(xid8, xid8, xid8[]), event_positions(xid8, integer), events_wait(), sequence_events(integer), sequence_restored(),
    create_policy(text, text, text, text, text, bigint, bigint, jsonb, actor), create_key(uuid, text, text, integer, boolean, bigint, jsonb, actor),
    create_webhook(uuid, text, text, boolean, text, bigint, bigint, integer, actor),
    update_webhook(uuid, text, text, boolean, text, bigint, actor), delete_webhook(uuid, actor),
    update_key(uuid, text, integer, boolean, jsonb, actor), decide_approval(uuid, bytea, boolean, text, text, actor),
    use_approvals(uuid[], uuid[], bytea[]), expire_approvals(integer, actor) FROM PUBLIC;
