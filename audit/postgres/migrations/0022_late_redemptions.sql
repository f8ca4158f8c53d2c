-- A redemption that comes too late is told from one whose lasting key another has, and takes
-- no lasting key from one of the same commit.

-- As in 0021_redemption_cost.sql, of redemptions that are in time.
CREATE OR REPLACE FUNCTION insert_redemption_keys(reports outcome_row[]) RETURNS void
LANGUAGE plpgsql
AS $$ BEGIN
    INSERT INTO redemption_keys (key_hash, check_id)
        SELECT r.once, r.check_id FROM unnest(reports) AS r WHERE r.status = 'r' AND r.once IS NOT NULL
            AND (extract(epoch FROM clock_timestamp()) * 1000)::bigint <= r.redeem_by
            AND (r.check_id < (SELECT first_id(f.from_ms) FROM redeemable AS f)) IS NOT TRUE
        ORDER BY r.once
    ON CONFLICT DO NOTHING;
END $$;

-- As in 0021_redemption_cost.sql. HINT lists those of the refused that are too late.
CREATE OR REPLACE FUNCTION insert_outcomes(node uuid, epoch uuid, reports outcome_row[]) RETURNS void
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
    keyed    boolean := false;
    follows  boolean := false;
    doubts   boolean := false;
    ends     boolean := false;
BEGIN
    FOREACH r IN ARRAY reports LOOP
        redeems := redeems OR r.status = 'r';
        keyed := keyed OR r.once IS NOT NULL;
        IF r.step > 1 THEN
            follows := true;
            doubts := doubts OR r.status = 'd';
            ends := ends OR r.number = 1;
        END IF;
    END LOOP;
    IF keyed THEN
        PERFORM insert_redemption_keys(reports);
        accepted := ARRAY(SELECT a FROM unnest(accepted) AS a
            WHERE a.once IS NULL OR EXISTS (SELECT FROM redemption_keys AS k WHERE k.key_hash = a.once AND k.check_id = a.check_id));
    END IF;
    IF follows THEN
        accepted := ARRAY(SELECT a FROM unnest(accepted) AS a
            WHERE a.step = 1 OR EXISTS (SELECT FROM outcomes AS o WHERE o.check_id = a.check_id AND o.step = a.step - 1 AND CASE a.status
                WHEN 'r' THEN false
                WHEN 'd' THEN o.status = 'r'
                ELSE o.number = a.number - 1 AND (a.number = 1 OR a.may_release) END));
    END IF;
    at := extract(epoch FROM clock_timestamp()) * 1000;
    INSERT INTO outcomes (outcome_id, check_id, node, epoch, step, number, status, release, excess, amount, reference, note, key_id, principal, request_id,
            may_release, replay, once)
        SELECT a.outcome_id, a.check_id, insert_outcomes.node, insert_outcomes.epoch, a.step, a.number, a.status, a.release, a.excess, a.amount,
            a.reference, a.note, a.key_id, a.principal, a.request_id, a.may_release, a.replay, a.once
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
    IF ends THEN
        DELETE FROM redemptions_open AS n USING unnest(reports) AS a WHERE n.check_id = a.check_id AND a.number = 1;
    END IF;
END $$;
