-- The single-node store. Identifiers are 16-byte blobs (UUIDv7, so they sort
-- by time), amounts exact decimals as text, times Unix milliseconds.

CREATE TABLE checks (
    check_id         BLOB PRIMARY KEY,
    node             BLOB NOT NULL,
    epoch            BLOB NOT NULL,
    claimed_ms       INTEGER,            -- null when the duplicate guard blocked
    until_ms         INTEGER,
    policy_version   INTEGER NOT NULL,
    latency_ms       INTEGER NOT NULL,
    format           INTEGER NOT NULL,   -- of the encoder that renders the row
    requested_type   TEXT,               -- null when the classifier was asked
    action_type      TEXT NOT NULL,
    decision         TEXT NOT NULL,
    confidence       TEXT NOT NULL,
    amount           TEXT NOT NULL,
    fingerprint      BLOB NOT NULL,
    request_sha      BLOB NOT NULL,
    currency         TEXT NOT NULL,
    agent_id         TEXT NOT NULL,
    policy_id        TEXT NOT NULL,
    counterparty     TEXT NOT NULL,
    payment_method   TEXT,
    merchant_or_vendor TEXT,
    reason_text      TEXT,
    idempotency_key  TEXT,
    metadata         TEXT,
    reason_code      TEXT,
    rule_id          TEXT,
    rule_description TEXT,
    message          TEXT,
    next_step        TEXT,
    key_id           TEXT NOT NULL,
    request_id       TEXT NOT NULL,
    principal        TEXT,               -- of the key, as its record said; null: key_id
    owner            TEXT,
    charges          TEXT,               -- JSON: what it took from budgets; null when nothing
    approval_id      BLOB,               -- which it was sent with; used when it is allowed
    approval         TEXT,               -- JSON: what it asks of people; null when nothing
    namespace        TEXT,               -- of its idempotency keys (S59); null: the one that plain API keys share
    stops            INTEGER,            -- the last stop by which it was judged (S87); null when there was none
    payment          TEXT                -- JSON: what it says of its payment (S84); null without one
) STRICT;

CREATE INDEX checks_fingerprint ON checks (fingerprint, check_id) WHERE claimed_ms IS NOT NULL;
CREATE INDEX checks_until ON checks (until_ms) WHERE claimed_ms IS NOT NULL;

-- What became of allowed actions, as in PostgreSQL.
CREATE TABLE outcomes (
    outcome_id BLOB    NOT NULL UNIQUE,
    check_id   BLOB    NOT NULL,
    node       BLOB    NOT NULL,
    epoch      BLOB    NOT NULL,
    step       INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    status     TEXT    NOT NULL,
    release    TEXT    NOT NULL,
    excess     TEXT,
    amount     TEXT,
    reference  TEXT,
    note       TEXT,
    key_id     TEXT    NOT NULL,
    principal  TEXT,
    request_id TEXT    NOT NULL,
    may_release INTEGER NOT NULL, -- who reported
    replay     BLOB,
    stops      INTEGER,           -- as of checks
    payment    TEXT,              -- JSON: the payments that it changed (S84); null without one
    PRIMARY KEY (check_id, step)
) STRICT;

-- The redeemed checks of which nothing was reported, as in PostgreSQL.
CREATE TABLE redemptions_open (
    check_id    BLOB    PRIMARY KEY,
    redeemed_at INTEGER NOT NULL,
    doubted_at  INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX redemptions_open_at ON redemptions_open (redeemed_at) WHERE doubted_at IS NULL;

-- What became of payments (S84), as in PostgreSQL.
CREATE TABLE payments (
    payment_hash BLOB    PRIMARY KEY,
    namespace    TEXT    NOT NULL,
    payment_key  TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    first_check  BLOB    NOT NULL,
    state        TEXT    NOT NULL, -- JSON
    changed_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The checks of payments: their own, and those that were redeemed under them.
CREATE TABLE payment_checks (
    payment_hash BLOB NOT NULL,
    check_id     BLOB NOT NULL,
    PRIMARY KEY (payment_hash, check_id)
) STRICT, WITHOUT ROWID;

-- The allowed checks that only a redemption carries out and that nobody redeemed or reported.
CREATE TABLE allows_open (
    check_id  BLOB    PRIMARY KEY,
    redeem_by INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX allows_open_by ON allows_open (redeem_by);

-- Each commit adds its place in the hash chain of the node incarnation that wrote
-- it (G8), as in PostgreSQL.
CREATE TABLE batches (
    chain_id BLOB NOT NULL,
    seq      INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    head     BLOB NOT NULL,
    entries  BLOB NOT NULL,
    PRIMARY KEY (chain_id, seq)
) STRICT, WITHOUT ROWID;

-- How many checks there are of each minute, by decision: of each policy, and of all
-- together, which are those of ''. Counted are the checks up to a rowid, in the order
-- of which they were committed.
CREATE TABLE check_counts (
    policy_id   TEXT    NOT NULL,
    minute      INTEGER NOT NULL, -- since 1970
    allows      INTEGER NOT NULL,
    escalations INTEGER NOT NULL,
    blocks      INTEGER NOT NULL,
    PRIMARY KEY (policy_id, minute)
) STRICT, WITHOUT ROWID;

CREATE TABLE check_count_state (counted_to INTEGER NOT NULL) STRICT;
INSERT INTO check_count_state VALUES (0);

CREATE TABLE violations (
    id               BLOB PRIMARY KEY,
    agent_id         TEXT NOT NULL,
    policy_id        TEXT NOT NULL,
    policy_version   INTEGER NOT NULL,
    action_type      TEXT NOT NULL,
    amount           TEXT NOT NULL,
    currency         TEXT NOT NULL,
    counterparty     TEXT NOT NULL,
    decision         TEXT NOT NULL,
    rule_id          TEXT NOT NULL,
    rule_description TEXT NOT NULL,
    confidence       TEXT NOT NULL,
    latency_ms       INTEGER NOT NULL,
    key_id           TEXT NOT NULL,
    principal        TEXT,
    owner            TEXT
) STRICT;

CREATE INDEX violations_agent ON violations (agent_id, id);

CREATE TABLE idempotency_keys (
    key_hash   BLOB PRIMARY KEY,
    check_id   BLOB NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

-- What was taken from the counters of budgets (G12), as in PostgreSQL: one row per
-- window, or per bucket of a rolling window.
CREATE TABLE budget_counters (
    counter_id BLOB    NOT NULL,
    start_ms   INTEGER NOT NULL,
    bucket_ms  INTEGER NOT NULL,
    end_ms     INTEGER,
    since      INTEGER NOT NULL,
    noticed    TEXT    NOT NULL DEFAULT '', -- the percentages of notify_at that are on record; of a rolling window those still reached, in each bucket
    used       TEXT    NOT NULL,
    count      INTEGER NOT NULL,
    policy_id  TEXT    NOT NULL,
    rule_id    TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    PRIMARY KEY (counter_id, start_ms)
) STRICT, WITHOUT ROWID;

CREATE INDEX budget_counters_listed ON budget_counters (policy_id, rule_id, since, start_ms, subject);
CREATE INDEX budget_counters_end ON budget_counters (end_ms);

CREATE TABLE budget_principals (
    counter_id BLOB NOT NULL,
    principal  TEXT NOT NULL,
    PRIMARY KEY (counter_id, principal)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER budget_counters_principals AFTER DELETE ON budget_counters
    WHEN NOT EXISTS (SELECT 1 FROM budget_counters WHERE counter_id = OLD.counter_id)
BEGIN
    DELETE FROM budget_principals WHERE counter_id = OLD.counter_id;
END;

-- Which counters had no room left, or refused a check, as in PostgreSQL.
CREATE TABLE budget_exhaustions (
    counter_id BLOB    NOT NULL,
    start_ms   INTEGER NOT NULL,
    bucket_ms  INTEGER NOT NULL,
    id         BLOB    NOT NULL UNIQUE,
    at         INTEGER NOT NULL,
    since      INTEGER NOT NULL,
    percent    INTEGER NOT NULL,
    nth        INTEGER NOT NULL,
    max_used   TEXT,
    max_count  INTEGER,
    used       TEXT    NOT NULL,
    count      INTEGER NOT NULL,
    policy_id  TEXT    NOT NULL,
    rule_id    TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    agent_id   TEXT,
    PRIMARY KEY (counter_id, start_ms, percent, nth)
) STRICT;

-- What escalated checks ask of people (S42), as in PostgreSQL; decisions are
-- changes.
CREATE TABLE approvals (
    id         BLOB    PRIMARY KEY,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    policy_id  TEXT    NOT NULL,
    agent_id   TEXT    NOT NULL,
    principal  TEXT    NOT NULL,
    payment    BLOB              -- of the check that asks; null without one
) STRICT;

CREATE INDEX approvals_payment ON approvals (payment, id) WHERE payment IS NOT NULL;

CREATE TABLE approval_uses (
    approval_id BLOB PRIMARY KEY REFERENCES approvals (id),
    check_id    BLOB NOT NULL
) STRICT;

-- When each that is pending or approved expires, as in PostgreSQL.
CREATE TABLE approval_deadlines (
    approval_id BLOB    PRIMARY KEY,
    at          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX approval_deadlines_at ON approval_deadlines (at);

-- Names this deployment in Redis, like every store's.
CREATE TABLE deployment (id BLOB NOT NULL) STRICT;
INSERT INTO deployment VALUES (randomblob(16));

-- stops is the last change that stops something, as in PostgreSQL.
CREATE TABLE epoch (id BLOB NOT NULL, stops INTEGER NOT NULL) STRICT;
INSERT INTO epoch VALUES (randomblob(16), 0);

-- Checks from before it are not redeemed: the file was restored then.
CREATE TABLE redeemable (from_ms INTEGER NOT NULL) STRICT;
INSERT INTO redeemable VALUES (0);

CREATE TABLE fenced_nodes (node BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;

CREATE TABLE config (generation INTEGER NOT NULL) STRICT;
INSERT INTO config VALUES (0);

CREATE TABLE policies (
    policy_id   TEXT NOT NULL,
    version     INTEGER NOT NULL,
    name        TEXT NOT NULL,
    description TEXT NOT NULL,
    rules       TEXT NOT NULL,
    metadata    TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    generation  INTEGER NOT NULL REFERENCES changes (seq) DEFERRABLE INITIALLY DEFERRED,
    budgets     TEXT,              -- since when each counts, by rule_id, JSON; null when there is none
    redeem      TEXT,              -- what it says of redemptions, JSON; null when nothing
    changes     TEXT,              -- what it asks of people before the next version (S80), JSON; null when nothing
    PRIMARY KEY (policy_id, version)
) STRICT;

CREATE INDEX policies_generation ON policies (generation);

-- Drafts of policies and their ends, as in PostgreSQL.
CREATE TABLE drafts (
    policy_id    TEXT NOT NULL,
    generation   INTEGER NOT NULL REFERENCES changes (seq) DEFERRABLE INITIALLY DEFERRED,
    base_version INTEGER NOT NULL,
    name         TEXT NOT NULL,
    description  TEXT NOT NULL,
    rules        TEXT NOT NULL,
    metadata     TEXT NOT NULL,
    made_at      INTEGER NOT NULL,
    redeem       TEXT,
    changes      TEXT,
    PRIMARY KEY (policy_id, generation)
) STRICT;

CREATE TABLE keys (
    id         BLOB PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    rpm        INTEGER NOT NULL,
    active     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    last_used  INTEGER,            -- null when never; changes without generation
    grants     TEXT,               -- role, scopes, bindings and so on, a JSON object; null when none was given
    generation INTEGER NOT NULL REFERENCES changes (seq) DEFERRABLE INITIALLY DEFERRED,
    stopped    INTEGER,            -- the last change that stopped what it had been allowed (S87); null without one
    granter_since INTEGER          -- the last change after which it may grant, and before which it might not (S91); null without one
) STRICT;

CREATE INDEX keys_generation ON keys (generation);

-- The endpoints that events are delivered to (S52), as in PostgreSQL.
CREATE TABLE webhooks (
    id            BLOB    PRIMARY KEY,
    url           TEXT    NOT NULL,
    event_types   TEXT    NOT NULL,
    active        INTEGER NOT NULL,
    secret_sha256 BLOB    NOT NULL,
    created_at    INTEGER NOT NULL,
    generation    INTEGER NOT NULL REFERENCES changes (seq) DEFERRABLE INITIALLY DEFERRED
) STRICT;

CREATE TABLE webhook_states (
    webhook_id      BLOB    PRIMARY KEY REFERENCES webhooks (id) ON DELETE CASCADE,
    secret          TEXT    NOT NULL,
    previous_secret TEXT,
    previous_until  INTEGER,
    cursor          INTEGER NOT NULL,
    failures        INTEGER NOT NULL DEFAULT 0,
    resume_at       INTEGER NOT NULL,
    holder          BLOB,
    held_until      INTEGER
) STRICT;

CREATE TABLE webhook_retries (
    webhook_id BLOB    NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    sequence   INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    since      INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    PRIMARY KEY (webhook_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_retries_due ON webhook_retries (webhook_id, due_at);
CREATE INDEX webhook_retries_since ON webhook_retries (webhook_id, since);

CREATE TABLE webhook_deliveries (
    id          BLOB    PRIMARY KEY,
    webhook_id  BLOB    NOT NULL,
    sequence    INTEGER NOT NULL,
    event_id    BLOB    NOT NULL,
    event_type  TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    status_code INTEGER NOT NULL,
    error       TEXT    NOT NULL,
    next_at     INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_deliveries_listed ON webhook_deliveries (webhook_id, id);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (webhook_id, id) WHERE error <> '';

-- Replays of recorded checks by other rules (S53), as in PostgreSQL.
CREATE TABLE backtests (
    id         BLOB    PRIMARY KEY,
    policy_id  TEXT    NOT NULL,
    version    INTEGER NOT NULL,           -- 0: it has rules
    rules      TEXT    NOT NULL,
    from_ms    INTEGER NOT NULL,
    to_ms      INTEGER NOT NULL,
    recorded   INTEGER NOT NULL,
    key_id     TEXT    NOT NULL,
    principal  TEXT    NOT NULL,
    status     TEXT    NOT NULL DEFAULT 'queued',
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at   INTEGER,
    attempts   INTEGER NOT NULL DEFAULT 0,
    checks     INTEGER NOT NULL DEFAULT 0,
    reached_ms INTEGER,
    error      TEXT    NOT NULL DEFAULT '',
    report     TEXT    NOT NULL DEFAULT '',
    draft      INTEGER NOT NULL DEFAULT 0,
    kept       TEXT    NOT NULL DEFAULT '',
    holder     BLOB,
    held_until INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX backtests_open ON backtests (created_at, id) WHERE status IN ('queued', 'running');

CREATE TABLE backtest_flips (
    backtest_id BLOB    NOT NULL REFERENCES backtests (id) ON DELETE CASCADE,
    n           INTEGER NOT NULL,
    flip        TEXT    NOT NULL,
    PRIMARY KEY (backtest_id, n)
) STRICT, WITHOUT ROWID;

-- Who is signed in (S78), as in PostgreSQL.
CREATE TABLE sessions (
    id           BLOB    PRIMARY KEY,
    token_hash   BLOB    NOT NULL UNIQUE,
    issuer       TEXT    NOT NULL,
    subject      TEXT    NOT NULL,
    provider_sid TEXT    NOT NULL,
    principal    TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    email        TEXT    NOT NULL,
    grants       TEXT    NOT NULL,
    idle_ms      INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    ended_at     INTEGER
) STRICT;

CREATE TABLE session_askers (
    principal TEXT    NOT NULL,
    owner     TEXT    NOT NULL,
    since     INTEGER NOT NULL,
    PRIMARY KEY (principal, owner)
) STRICT, WITHOUT ROWID;

CREATE TABLE session_logouts (
    token        BLOB PRIMARY KEY,
    request      BLOB NOT NULL,
    issuer       TEXT NOT NULL,
    subject      TEXT NOT NULL,
    provider_sid TEXT NOT NULL,
    at           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Every change of policies, keys and webhooks, and who made it (G8), as in PostgreSQL. No
-- policy and no key is without the change of its generation.
CREATE TABLE changes (
    seq        INTEGER PRIMARY KEY, -- from 1, without gaps: the generation that the change made
    kind       TEXT NOT NULL,
    subject    TEXT NOT NULL,
    version    INTEGER,
    actor      TEXT NOT NULL,
    key_id     TEXT,
    principal  TEXT,
    credential TEXT,
    request_id TEXT,
    address    TEXT,
    at         INTEGER NOT NULL,
    details    TEXT NOT NULL,
    hash       BLOB NOT NULL,
    head       BLOB NOT NULL
) STRICT;

CREATE INDEX changes_subject ON changes (subject, seq);
CREATE INDEX changes_freezes ON changes (seq) WHERE kind LIKE 'freeze.%';
CREATE INDEX changes_of_keys ON changes (seq) WHERE kind IN ('key.created', 'key.changed');
CREATE INDEX changes_grants ON changes (seq) WHERE kind LIKE 'grant.%';
CREATE INDEX changes_events ON changes (seq) WHERE kind = 'events.removed';

-- The feed of what happened (S51). Transactions write one after the other here, so
-- that events get their numbers with what they are about, the source.
CREATE TABLE events (
    sequence  INTEGER PRIMARY KEY AUTOINCREMENT,
    source    BLOB NOT NULL, -- of a change its number, in 16 bytes
    type      TEXT NOT NULL,
    policy_id TEXT,
    agent_id  TEXT,
    UNIQUE (source, type)
) STRICT;

CREATE TRIGGER violations_event AFTER INSERT ON violations
BEGIN INSERT INTO events (source, type, policy_id, agent_id) VALUES (NEW.id, 'violation.recorded', NEW.policy_id, NEW.agent_id); END;
CREATE TRIGGER approvals_event AFTER INSERT ON approvals
BEGIN INSERT INTO events (source, type, policy_id, agent_id) VALUES (NEW.id, 'approval.requested', NEW.policy_id, NEW.agent_id); END;
CREATE TRIGGER approval_uses_event AFTER INSERT ON approval_uses
BEGIN
    INSERT INTO events (source, type, policy_id, agent_id)
        SELECT id, 'approval.used', policy_id, agent_id FROM approvals WHERE id = NEW.approval_id;
END;
CREATE TRIGGER outcomes_event AFTER INSERT ON outcomes
BEGIN
    INSERT INTO events (source, type, policy_id, agent_id)
        SELECT NEW.outcome_id, CASE NEW.status WHEN 'redeemed' THEN 'check.redeemed' WHEN 'taken_over' THEN 'check.taken_over'
            WHEN 'in_doubt' THEN 'check.in_doubt' ELSE 'outcome.reported' END,
            policy_id, agent_id FROM checks WHERE check_id = NEW.check_id;
    INSERT INTO events (source, type, policy_id, agent_id)
        SELECT NEW.outcome_id, 'outcome.release_pending', policy_id, agent_id FROM checks WHERE check_id = NEW.check_id AND NEW.release = 'pending';
    INSERT INTO events (source, type, policy_id, agent_id)
        SELECT NEW.outcome_id, 'outcome.exceeded', policy_id, agent_id FROM checks WHERE check_id = NEW.check_id AND NEW.excess <> 'unapproved';
    INSERT INTO events (source, type, policy_id, agent_id)
        SELECT NEW.outcome_id, 'payment.paid_twice', policy_id, agent_id FROM checks WHERE check_id = NEW.check_id
            AND EXISTS (SELECT 1 FROM json_each(NEW.payment, '$.flags') WHERE value = 'paid_twice');
END;
CREATE TRIGGER budget_exhaustions_event AFTER INSERT ON budget_exhaustions
BEGIN INSERT INTO events (source, type, policy_id, agent_id) VALUES (NEW.id, iif(NEW.percent = 100, 'budget.exhausted', 'budget.threshold'), NEW.policy_id, NEW.agent_id); END;
CREATE TRIGGER changes_event AFTER INSERT ON changes WHEN NEW.kind IN ('policy.created', 'policy.forced', 'policy.draft_approved', 'policy.draft_rejected', 'key.created', 'key.changed', 'key.expiring')
    OR NEW.kind = 'policy.draft_put' AND NEW.version IS NOT NULL
BEGIN
    INSERT INTO events (source, type, policy_id) VALUES (unhex(format('%032x', NEW.seq)),
        CASE WHEN NEW.kind = 'policy.draft_put' THEN 'policy.draft_submitted' WHEN NEW.kind = 'key.created' THEN 'key.changed' ELSE NEW.kind END, iif(NEW.kind LIKE 'policy.%', NEW.subject, NULL));
END;
CREATE TRIGGER changes_stop_event AFTER INSERT ON changes WHEN NEW.kind IN ('freeze.created', 'freeze.release_approved', 'freeze.released', 'freeze.forced', 'freeze.ended',
    'grant.created', 'grant.approved', 'grant.revoked')
BEGIN
    INSERT INTO events (source, type, policy_id, agent_id) VALUES (unhex(format('%032x', NEW.seq)), NEW.kind,
        coalesce(NEW.details ->> '$.scope.policy_id', NEW.details ->> 'policy_id'), coalesce(NEW.details ->> '$.scope.agent_id', NEW.details ->> 'agent_id'));
END;
-- Every decision; and of those that approve, that with which they are enough.
CREATE TRIGGER changes_approval_event AFTER INSERT ON changes WHEN NEW.kind IN ('approval.approved', 'approval.denied', 'approval.reopened', 'approval.expired', 'approval.withdrawn')
BEGIN
    INSERT INTO events (source, type, policy_id, agent_id)
        SELECT unhex(format('%032x', NEW.seq)), 'approval.decided', policy_id, agent_id FROM checks
        WHERE check_id = unhex(substr(NEW.subject, 5)) AND NEW.kind IN ('approval.approved', 'approval.denied');
    INSERT INTO events (source, type, policy_id, agent_id)
        SELECT unhex(format('%032x', NEW.seq)), NEW.kind, policy_id, agent_id FROM checks
        WHERE check_id = unhex(substr(NEW.subject, 5)) AND (NEW.kind <> 'approval.approved' OR NEW.details ->> 'completes');
END;

-- What is written has a generation that is recorded after it, in the same
-- transaction: no policy and no key changes without its record. Uses of keys do.
CREATE TRIGGER policies_unrecorded BEFORE INSERT ON policies
WHEN EXISTS (SELECT 1 FROM changes WHERE seq = NEW.generation)
BEGIN SELECT RAISE(ABORT, 'policies are immutable: the change is not recorded'); END;
CREATE TRIGGER drafts_unrecorded BEFORE INSERT ON drafts
WHEN EXISTS (SELECT 1 FROM changes WHERE seq = NEW.generation)
BEGIN SELECT RAISE(ABORT, 'drafts are immutable: the change is not recorded'); END;
CREATE TRIGGER keys_unrecorded BEFORE INSERT ON keys
WHEN EXISTS (SELECT 1 FROM changes WHERE seq = NEW.generation)
BEGIN SELECT RAISE(ABORT, 'keys are immutable: the change is not recorded'); END;
CREATE TRIGGER keys_update BEFORE UPDATE OF id, hash, name, rpm, active, created_at, grants, generation, stopped, granter_since ON keys
WHEN EXISTS (SELECT 1 FROM changes WHERE seq = NEW.generation)
BEGIN SELECT RAISE(ABORT, 'keys are immutable: the change is not recorded'); END;
CREATE TRIGGER webhooks_unrecorded BEFORE INSERT ON webhooks
WHEN EXISTS (SELECT 1 FROM changes WHERE seq = NEW.generation)
BEGIN SELECT RAISE(ABORT, 'webhooks are immutable: the change is not recorded'); END;
CREATE TRIGGER webhooks_update BEFORE UPDATE ON webhooks
WHEN EXISTS (SELECT 1 FROM changes WHERE seq = NEW.generation)
BEGIN SELECT RAISE(ABORT, 'webhooks are immutable: the change is not recorded'); END;
CREATE TRIGGER webhooks_delete BEFORE DELETE ON webhooks
WHEN NOT EXISTS (SELECT 1 FROM changes WHERE seq = (SELECT generation FROM config) AND kind = 'webhook.deleted'
    AND subject = 'whk_' || lower(hex(OLD.id)))
BEGIN SELECT RAISE(ABORT, 'webhooks are immutable: the change is not recorded'); END;
