-- Outcomes.

-- What became of allowed actions, step by step: that the check was redeemed (S74), that
-- it is in doubt since, and reports (S39) that follow one another, of which only the first
-- is by a key that may not release (S61). Of two steps at once one is recorded. Kept
-- also when the days of their checks are archived.
CREATE TABLE outcomes (
    outcome_id uuid     NOT NULL, -- its millisecond is when it was recorded
    check_id   uuid     NOT NULL,
    node       uuid     NOT NULL, -- incarnation of the node that recorded it
    epoch      uuid     NOT NULL,
    step       smallint NOT NULL, -- from 1, without gaps
    number     smallint NOT NULL, -- of reports, from 1, without gaps; 0 of other steps
    status     "char"   NOT NULL, -- x, f, v; r redeemed, d in doubt
    release    "char"   NOT NULL,
    excess     "char",            -- null when no more was moved than allowed; u when it was escalated
    amount     numeric,           -- that was moved; null unless executed
    reference  text,
    note       text,
    key_id     text     NOT NULL,
    principal  text,              -- of the key, as its record said; null: key_id
    request_id text     NOT NULL,
    may_release boolean NOT NULL, -- who reported
    replay     bytea,             -- of a redemption: its API key and its Idempotency-Key
    once       bytea,             -- of a redemption: its lasting key
    xid        xid8     NOT NULL DEFAULT pg_current_xact_id(), -- see event_state
    PRIMARY KEY (check_id, step)
);

CREATE INDEX outcomes_xid ON outcomes (xid) WHERE xid > '0';
CREATE UNIQUE INDEX outcomes_id ON outcomes (outcome_id);

-- An outcome as a node sends it, and what a commit's outcomes correct in one
-- counter: added to used and count, both mostly below zero.
CREATE TYPE outcome_row AS (
    outcome_id uuid,
    check_id   uuid,
    step       smallint,
    number     smallint,
    status     "char",
    release    "char",
    excess     "char",
    amount     numeric,
    reference  text,
    note       text,
    key_id     text,
    principal  text,
    request_id text,
    may_release boolean,
    replay     bytea,
    once       bytea,
    redeem_by  bigint   -- until when a redemption may be recorded, in milliseconds
);

-- Records outcomes or raises SG008 with the checks whose last step has another number
-- than the one before, whose redemption comes too late, or has a lasting key of another.
-- Sorted, so that two batches do not deadlock.
CREATE FUNCTION insert_outcomes(node uuid, epoch uuid, reports outcome_row[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    inserted integer;
    reported text;
    redeems  boolean := EXISTS (SELECT FROM unnest(reports) AS r WHERE r.step > r.number);
BEGIN
    IF redeems THEN
        PERFORM insert_redemption_keys(reports);
    END IF;
    INSERT INTO outcomes (outcome_id, check_id, node, epoch, step, number, status, release, excess, amount, reference, note, key_id, principal, request_id,
            may_release, replay, once)
        SELECT r.outcome_id, r.check_id, insert_outcomes.node, insert_outcomes.epoch, r.step, r.number, r.status, r.release, r.excess, r.amount,
            r.reference, r.note, r.key_id, r.principal, r.request_id, r.may_release, r.replay, r.once
        FROM unnest(reports) AS r
        WHERE CASE WHEN r.step = 1 THEN r.number = 1 OR r.status = 'r' AND may_redeem(r)
            ELSE EXISTS (SELECT FROM outcomes AS o WHERE o.check_id = r.check_id AND o.step = r.step - 1 AND CASE r.status
                WHEN 'r' THEN false
                WHEN 'd' THEN o.status = 'r'
                ELSE o.number = r.number - 1 AND (r.number = 1 OR r.may_release) END) END
        ORDER BY r.check_id
    ON CONFLICT ON CONSTRAINT outcomes_pkey DO NOTHING;
    GET DIAGNOSTICS inserted = ROW_COUNT;
    IF inserted < cardinality(reports) THEN
        SELECT string_agg(r.check_id::text, ',') INTO reported
            FROM unnest(reports) AS r WHERE NOT EXISTS (SELECT FROM outcomes AS o WHERE o.outcome_id = r.outcome_id);
        RAISE EXCEPTION 'outcomes are reported already' USING ERRCODE = 'SG008', DETAIL = reported;
    END IF;
    IF redeems THEN
        PERFORM note_redemptions(reports);
    END IF;
END $$;
