-- Backtests.

-- Replays of recorded checks by other rules (S53). They are derived from the record and
-- no part of it. Times are Unix milliseconds.
CREATE TABLE backtests (
    id         uuid    PRIMARY KEY,
    policy_id  text    NOT NULL,
    version    integer NOT NULL, -- of the candidate; 0 when it has rules
    rules      text    NOT NULL, -- empty when it has a version
    from_ms    bigint  NOT NULL, -- both included
    to_ms      bigint  NOT NULL,
    recorded   boolean NOT NULL, -- history's decisions are the candidate's state
    key_id     text    NOT NULL,
    principal  text    NOT NULL,
    status     text    NOT NULL DEFAULT 'queued', -- running, succeeded, failed, canceled
    created_at bigint  NOT NULL,
    started_at bigint,
    ended_at   bigint,
    attempts   integer NOT NULL DEFAULT 0,
    checks     bigint  NOT NULL DEFAULT 0, -- replayed so far
    reached_ms bigint,           -- to where, in the time of the checks
    error      text    NOT NULL DEFAULT '',
    report     text    NOT NULL DEFAULT '', -- of the last run that succeeded
    draft      bigint  NOT NULL DEFAULT 0,  -- the generation of the draft that is the candidate; 0 of none
    kept       text    NOT NULL DEFAULT '', -- the report that the next run of a draft's backtest continues
    holder     uuid,             -- the node that runs it, until then
    held_until bigint  NOT NULL DEFAULT 0
);

CREATE INDEX backtests_open ON backtests (created_at, id) WHERE status IN ('queued', 'running');

-- The checks that the candidate decides otherwise, JSON, in their order.
CREATE TABLE backtest_flips (
    backtest_id uuid    NOT NULL REFERENCES backtests ON DELETE CASCADE,
    n           integer NOT NULL, -- from 1
    flip        text    NOT NULL,
    PRIMARY KEY (backtest_id, n)
);
