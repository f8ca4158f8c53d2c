-- Redemptions at little more than the cost of checks: what a commit has none of is not asked
-- about, and plans are kept. may_redeem and note_redemptions are called no more; a commit may
-- be in them while this is run, so they stay until a later version.

-- As in 0014_redemptions.sql, with a plan that is kept.
CREATE OR REPLACE FUNCTION insert_redemption_keys(reports outcome_row[]) RETURNS void
LANGUAGE plpgsql
AS $$ BEGIN
    INSERT INTO redemption_keys (key_hash, check_id)
        SELECT r.once, r.check_id FROM unnest(reports) AS r WHERE r.status = 'r' AND r.once IS NOT NULL ORDER BY r.once
    ON CONFLICT DO NOTHING;
END $$;

-- As in 0004_outcomes.sql. Which of a commit's outcomes may follow what is recorded, and
-- have their lasting keys, is asked before they are inserted: what is recorded stays.
CREATE OR REPLACE FUNCTION insert_outcomes(node uuid, epoch uuid, reports outcome_row[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    r        outcome_row;
    accepted outcome_row[] := reports;
    inserted integer;
    reported text;
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
    INSERT INTO outcomes (outcome_id, check_id, node, epoch, step, number, status, release, excess, amount, reference, note, key_id, principal, request_id,
            may_release, replay, once)
        SELECT a.outcome_id, a.check_id, insert_outcomes.node, insert_outcomes.epoch, a.step, a.number, a.status, a.release, a.excess, a.amount,
            a.reference, a.note, a.key_id, a.principal, a.request_id, a.may_release, a.replay, a.once
        FROM unnest(accepted) AS a
        WHERE a.step > 1 OR a.number = 1 OR a.status = 'r' AND (extract(epoch FROM clock_timestamp()) * 1000)::bigint <= a.redeem_by
            AND (a.check_id < (SELECT first_id(f.from_ms) FROM redeemable AS f)) IS NOT TRUE
        ORDER BY a.check_id
    ON CONFLICT ON CONSTRAINT outcomes_pkey DO NOTHING;
    GET DIAGNOSTICS inserted = ROW_COUNT;
    IF inserted < cardinality(reports) THEN
        SELECT string_agg(a.check_id::text, ',') INTO reported
            FROM unnest(reports) AS a WHERE NOT EXISTS (SELECT FROM outcomes AS o WHERE o.outcome_id = a.outcome_id);
        RAISE EXCEPTION 'outcomes are reported already' USING ERRCODE = 'SG008', DETAIL = reported;
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

-- The commit of checks and outcomes.

-- The whole of a commit: the fence, the keys (hash by hash and check by check), the
-- outcomes, the horizon, the batch's place in the chain of its node, the checks and,
-- if some of them are, the violations. Budgets come last, so that their rows are
-- locked for no longer than the commit itself takes. An array without elements is null.
CREATE OR REPLACE FUNCTION commit_checks(node uuid, epoch uuid, key_hashes bytea[], key_ids uuid[], horizon_ms bigint,
    has_violations boolean, rows check_row[],
    approval_checks uuid[], approval_ids uuid[], approval_hashes bytea[], has_approvals boolean, reports outcome_row[],
    counters counter_row[], rolling counter_change[], calendar counter_change[], refused counter_change[], corrections counter_correction[],
    seq bigint, version smallint, first_id uuid, last_id uuid, entries bytea, head bytea, counts check_count[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    done boolean;
BEGIN
    done := begin_commit(node, epoch) IS NULL;
    IF key_hashes IS NOT NULL THEN
        PERFORM insert_idempotency_keys(key_hashes, key_ids);
    END IF;
    IF reports IS NOT NULL THEN
        done := insert_outcomes(node, epoch, reports) IS NULL;
    END IF;
    IF horizon_ms > 0 THEN
        PERFORM raise_horizon(horizon_ms);
    END IF;
    INSERT INTO batches (chain_id, seq, first_id, last_id, version, head, entries, counts)
        VALUES (commit_checks.node, commit_checks.seq, commit_checks.first_id, commit_checks.last_id, commit_checks.version,
            commit_checks.head, commit_checks.entries, commit_checks.counts);
    IF rows IS NOT NULL THEN
        INSERT INTO checks (check_id, node, epoch, claimed_ms, until_ms, policy_version, latency_ms, format,
                requested_type, action_type, decision, confidence, amount, fingerprint, request_sha, currency,
                agent_id, policy_id, counterparty, payment_method, merchant_or_vendor, reason_text,
                idempotency_key, metadata, reason_code, rule_id, rule_description, message, next_step,
                key_id, request_id, principal, owner, charges, approval_id, approval, namespace, shadow)
            SELECT r.check_id, commit_checks.node, commit_checks.epoch, r.claimed_ms, r.until_ms, r.policy_version, r.latency_ms, r.format,
                r.requested_type, r.action_type, r.decision, r.confidence, r.amount, r.fingerprint, r.request_sha, r.currency,
                r.agent_id, r.policy_id, r.counterparty, r.payment_method, r.merchant_or_vendor, r.reason_text,
                r.idempotency_key, r.metadata, r.reason_code, r.rule_id, r.rule_description, r.message, r.next_step,
                r.key_id, r.request_id, r.principal, r.owner, r.charges, r.approval_id, r.approval, r.namespace, r.shadow
            FROM unnest(rows) AS r;
    END IF;
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

-- The checks of which no outcome is recorded; the bounds are those of ids. One plan for
-- all, whose partitions the bounds name when it is run: making a plan costs more than
-- the rows.
CREATE FUNCTION untouched_checks(ids uuid[], low uuid, high uuid) RETURNS SETOF checks
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$ BEGIN
    RETURN QUERY SELECT c.* FROM checks AS c WHERE c.check_id = ANY (ids) AND c.check_id >= low AND c.check_id <= high
        AND CASE WHEN EXISTS (SELECT FROM outcomes AS o WHERE o.check_id = c.check_id) THEN false ELSE true END;
END $$;
