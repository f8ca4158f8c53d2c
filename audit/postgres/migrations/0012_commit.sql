-- The commit of checks and outcomes.

-- The whole of a commit: the fence, the keys (hash by hash and check by check), the
-- outcomes, the horizon, the batch's place in the chain of its node, the checks and,
-- if some of them are, the violations. Budgets come last, so that their rows are
-- locked for no longer than the commit itself takes. An array without elements is null.
CREATE FUNCTION commit_checks(node uuid, epoch uuid, key_hashes bytea[], key_ids uuid[], horizon_ms bigint,
    has_violations boolean, rows check_row[],
    approval_checks uuid[], approval_ids uuid[], approval_hashes bytea[], has_approvals boolean, reports outcome_row[],
    counters counter_row[], rolling counter_change[], calendar counter_change[], refused counter_change[], corrections counter_correction[],
    seq bigint, version smallint, first_id uuid, last_id uuid, entries bytea, head bytea, counts check_count[]) RETURNS void
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
    INSERT INTO batches (chain_id, seq, first_id, last_id, version, head, entries, counts)
        VALUES (commit_checks.node, commit_checks.seq, commit_checks.first_id, commit_checks.last_id, commit_checks.version,
            commit_checks.head, commit_checks.entries, commit_checks.counts);
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
