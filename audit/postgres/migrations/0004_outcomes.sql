-- Outcomes.

-- What became of allowed actions, step by step: that the check was redeemed (S74), that
-- another nonce took it over (S84), that it is in doubt since, and reports (S39) that follow one another, of which only the first
-- is by a key that may not release (S61). Of two steps at once one is recorded. Kept
-- also when the days of their checks are archived.
CREATE TABLE outcomes (
    outcome_id uuid     NOT NULL, -- its millisecond is when it was recorded
    check_id   uuid     NOT NULL,
    node       uuid     NOT NULL, -- incarnation of the node that recorded it
    epoch      uuid     NOT NULL,
    step       smallint NOT NULL, -- from 1, without gaps
    number     smallint NOT NULL, -- of reports, from 1, without gaps; 0 of other steps
    status     "char"   NOT NULL, -- x, f, v; r redeemed, d in doubt, t taken over
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
    stops      bigint,            -- the last stop by which it was judged (S87); null when there was none
    payment    text,              -- JSON: the payments that the step changed (S84), and what is unusual about it
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
    stops      bigint,
    payment    text,
    redeem_by  bigint   -- until when a redemption may be recorded, in milliseconds
);

-- Records outcomes or raises SG008 with the checks whose last step has another number
-- than the one before, whose redemption comes too late (HINT lists those).
-- Which of them may follow what is recorded is asked
-- before they are inserted: what is recorded stays. What a commit has none of is not asked
-- about. Sorted, so that two batches do not deadlock.
CREATE FUNCTION insert_outcomes(node uuid, epoch uuid, reports outcome_row[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    r        outcome_row;
    accepted outcome_row[] := reports;
    inserted integer;
    reported text;
    late     text;
    at       bigint;
    redeems  boolean := false;
    follows  boolean := false;
    doubts   boolean := false;
    takes    boolean := false;
    ends     boolean := false;
    opens    boolean := false;
BEGIN
    FOREACH r IN ARRAY reports LOOP
        redeems := redeems OR r.status = 'r';
        IF r.step > 1 THEN
            follows := true;
            doubts := doubts OR r.status = 'd';
            takes := takes OR r.status = 't';
            ends := ends OR r.number = 1;
        ELSE
            opens := opens OR r.payment IS NOT NULL;
        END IF;
    END LOOP;
    IF follows THEN
        accepted := ARRAY(SELECT a FROM unnest(accepted) AS a
            WHERE a.step = 1 OR EXISTS (SELECT FROM outcomes AS o WHERE o.check_id = a.check_id AND o.step = a.step - 1 AND CASE a.status
                WHEN 'r' THEN false
                WHEN 'd' THEN o.status IN ('r', 't')
                WHEN 't' THEN o.number = 0
                ELSE o.number = a.number - 1 AND (a.number = 1 OR a.may_release) END));
    END IF;
    at := extract(epoch FROM clock_timestamp()) * 1000;
    INSERT INTO outcomes (outcome_id, check_id, node, epoch, step, number, status, release, excess, amount, reference, note, key_id, principal, request_id,
            may_release, replay, stops, payment)
        SELECT a.outcome_id, a.check_id, insert_outcomes.node, insert_outcomes.epoch, a.step, a.number, a.status, a.release, a.excess, a.amount,
            a.reference, a.note, a.key_id, a.principal, a.request_id, a.may_release, a.replay, a.stops, a.payment
        FROM unnest(accepted) AS a
        WHERE a.step > 1 OR a.number = 1 OR a.status = 'r' AND at <= a.redeem_by
            AND (a.check_id < (SELECT first_id(f.from_ms) FROM redeemable AS f)) IS NOT TRUE
        ORDER BY a.check_id
    ON CONFLICT ON CONSTRAINT outcomes_pkey DO NOTHING;
    GET DIAGNOSTICS inserted = ROW_COUNT;
    IF inserted < cardinality(reports) THEN
        SELECT string_agg(a.check_id::text, ','), coalesce(string_agg(a.check_id::text, ',') FILTER (WHERE a.status = 'r' AND (at > a.redeem_by
                OR a.check_id < (SELECT first_id(f.from_ms) FROM redeemable AS f))), '') INTO reported, late
            FROM unnest(reports) AS a WHERE NOT EXISTS (SELECT FROM outcomes AS o WHERE o.outcome_id = a.outcome_id);
        RAISE EXCEPTION 'outcomes are reported already' USING ERRCODE = 'SG008', DETAIL = reported, HINT = late;
    END IF;
    IF redeems THEN
        INSERT INTO redemptions_open (check_id, redeemed_at) SELECT a.check_id, clock_timestamp() FROM unnest(reports) AS a WHERE a.status = 'r';
    END IF;
    IF doubts THEN
        UPDATE redemptions_open AS n SET doubted_at = clock_timestamp() FROM unnest(reports) AS a WHERE n.check_id = a.check_id AND a.status = 'd';
    END IF;
    IF takes THEN
        UPDATE redemptions_open AS n SET redeemed_at = clock_timestamp(), doubted_at = NULL FROM unnest(reports) AS a
            WHERE n.check_id = a.check_id AND a.status = 't';
    END IF;
    IF opens THEN
        DELETE FROM allows_open AS n USING unnest(reports) AS a WHERE n.check_id = a.check_id AND a.step = 1;
    END IF;
    IF ends THEN
        DELETE FROM redemptions_open AS n USING unnest(reports) AS a WHERE n.check_id = a.check_id AND a.number = 1;
    END IF;
END $$;
