-- Backtests.

-- Replays of recorded checks by other rules (S53). They are derived from the record and
-- no part of it.
CREATE TABLE backtests (
    id         uuid        PRIMARY KEY,
    policy_id  text        NOT NULL,
    version    integer,              -- of the candidate; null when it has rules
    rules      text,
    from_ms    bigint      NOT NULL, -- both included
    to_ms      bigint      NOT NULL,
    recorded   boolean     NOT NULL, -- history's decisions are the candidate's state
    key_id     text        NOT NULL,
    principal  text        NOT NULL,
    status     text        NOT NULL DEFAULT 'queued', -- running, succeeded, failed, canceled
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    ended_at   timestamptz,
    attempts   integer     NOT NULL DEFAULT 0,
    checks     bigint      NOT NULL DEFAULT 0, -- replayed so far
    reached_ms bigint,               -- to where, in the time of the checks
    error      text,
    report     text,                 -- of the last run that succeeded
    draft      bigint,               -- the generation of the draft that is the candidate; null of none
    kept       text,                 -- the report that the next run of a draft's backtest continues
    holder     uuid,                 -- the node that runs it, until then
    held_until timestamptz
);

CREATE INDEX backtests_open ON backtests (created_at, id) WHERE status IN ('queued', 'running');

-- The checks that the candidate decides otherwise, JSON, in their order.
CREATE TABLE backtest_flips (
    backtest_id uuid    NOT NULL REFERENCES backtests ON DELETE CASCADE,
    n           integer NOT NULL, -- from 1
    flip        text    NOT NULL,
    PRIMARY KEY (backtest_id, n)
);
