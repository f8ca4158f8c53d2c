-- What a commit of plain checks does not need costs it next to nothing. A statement, a call of
-- a function, an expression of PL/pgSQL and a parameter cost a commit of few checks as much as
-- its rows do: so there are fewer of each. What this replaces stays for nodes of the version
-- before.

-- What few commits have beside their checks: of approvals, outcomes, budgets, and a horizon
-- that is to be raised. An array without elements is null.
CREATE TYPE commit_extra AS (
    horizon_ms      bigint, -- 0 unless it is raised
    approval_checks uuid[],
    approval_ids    uuid[],
    approval_hashes bytea[],
    has_approvals   boolean,
    reports         outcome_row[],
    counters        counter_row[],
    rolling         counter_change[],
    calendar        counter_change[],
    refused         counter_change[],
    corrections     counter_correction[]
);

-- Records what a commit has beside its checks, in the order of the commit_checks before.
-- Budgets come last, so that their rows are locked for no longer than the commit itself takes.
CREATE FUNCTION record_extra(node uuid, epoch uuid, rows check_row[], extra commit_extra) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    done boolean;
BEGIN
    IF extra.reports IS NOT NULL THEN
        done := insert_outcomes(node, epoch, extra.reports) IS NULL;
    END IF;
    IF extra.horizon_ms > 0 THEN
        PERFORM raise_horizon(extra.horizon_ms);
    END IF;
    IF extra.has_approvals THEN
        PERFORM insert_approvals(rows);
    END IF;
    IF extra.approval_ids IS NOT NULL THEN
        PERFORM use_approvals(extra.approval_checks, extra.approval_ids, extra.approval_hashes);
    END IF;
    IF extra.rolling IS NOT NULL OR extra.calendar IS NOT NULL OR extra.refused IS NOT NULL OR extra.corrections IS NOT NULL THEN
        done := change_counters(extra.counters, extra.rolling, extra.calendar, extra.refused, extra.corrections) IS NULL;
    END IF;
END $$;

-- As the commit_checks of 0021_redemption_cost.sql, with begin_commit and
-- insert_idempotency_keys in it. The locks come first, and the batch's row is inserted by a
-- statement of its own on the condition that the epoch is in force and the node not fenced:
-- only a snapshot taken under the locks shows a fence that was committed while this waited.
CREATE FUNCTION commit_checks(node uuid, epoch uuid, key_hashes bytea[], key_ids uuid[], has_violations boolean, rows check_row[],
    seq bigint, version smallint, first_id uuid, last_id uuid, entries bytea, head bytea, counts check_count[], extra commit_extra) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    inserted integer;
    taken    text;
    done     boolean;
BEGIN
    -- A lock that is taken is not null. What is wrong with the session begin_commit mends or
    -- refuses, and takes the locks.
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
            OR pg_advisory_xact_lock_shared('epoch'::regclass::oid::integer, 0) IS NULL
            OR pg_advisory_xact_lock_shared('fenced_nodes'::regclass::oid::integer, node_lock_key(commit_checks.node)) IS NULL THEN
        PERFORM begin_commit(node, epoch);
    END IF;
    INSERT INTO batches (chain_id, seq, first_id, last_id, version, head, entries, counts)
        SELECT commit_checks.node, commit_checks.seq, commit_checks.first_id, commit_checks.last_id, commit_checks.version,
            commit_checks.head, commit_checks.entries, commit_checks.counts
        FROM epoch AS e WHERE e.id = commit_checks.epoch AND NOT EXISTS (SELECT FROM fenced_nodes AS f WHERE f.node = commit_checks.node);
    GET DIAGNOSTICS inserted = ROW_COUNT;
    IF inserted = 0 THEN
        PERFORM begin_commit(node, epoch); -- which says what is over
        RAISE EXCEPTION 'the epoch is over' USING ERRCODE = 'SG001';
    END IF;
    IF key_hashes IS NOT NULL THEN
        INSERT INTO idempotency_keys AS i (key_hash, check_id, expires_at)
            SELECT k.hash, k.id, clock_timestamp() + interval '24 hours'
            FROM unnest(key_hashes, key_ids) AS k (hash, id)
            ORDER BY k.hash -- so that two batches with common keys do not deadlock
        ON CONFLICT (key_hash) DO UPDATE
            SET check_id = excluded.check_id, expires_at = excluded.expires_at
            WHERE i.expires_at <= clock_timestamp();
        GET DIAGNOSTICS inserted = ROW_COUNT;
        IF inserted < cardinality(key_hashes) THEN
            SELECT string_agg(encode(k.hash, 'hex'), ',') INTO taken
                FROM unnest(key_hashes) AS k (hash)
                WHERE NOT EXISTS (SELECT FROM idempotency_keys AS i
                    WHERE i.key_hash = k.hash AND i.xmin = pg_current_xact_id()::xid);
            RAISE EXCEPTION 'idempotency keys are taken' USING ERRCODE = 'SG003', DETAIL = taken;
        END IF;
    END IF;
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
        IF has_violations THEN
            INSERT INTO violations (id, policy_version, latency_ms, action_type, decision, confidence, amount,
                    currency, agent_id, policy_id, counterparty, rule_id, rule_description, key_id, principal, owner)
                SELECT r.check_id, r.policy_version, r.latency_ms, r.action_type, r.decision, r.confidence, r.amount,
                    r.currency, r.agent_id, r.policy_id, r.counterparty, coalesce(r.rule_id, ''), coalesce(r.rule_description, ''),
                    r.key_id, r.principal, r.owner
                FROM unnest(rows) AS r WHERE r.decision <> 'a';
        END IF;
    END IF;
    IF NOT extra IS NULL THEN
        done := record_extra(node, epoch, rows, extra) IS NULL;
    END IF;
END $$;
