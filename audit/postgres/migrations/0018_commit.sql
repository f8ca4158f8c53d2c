-- The commit of checks and outcomes. A statement, a call of a function, an expression of PL/pgSQL
-- and a parameter cost a commit of few checks as much as its rows do, so what a commit has none
-- of is not asked about: a commit calls record_checks and, around it, the functions of what else it mostly has,
-- or record_extra. Each takes what the one inside returns, null, so that it comes after it. An array without elements is null.
-- Nodes sort what commits insert or lock, so that two commits do not deadlock: a sort costs a small commit more than its rows.
--
-- SG021: something was stopped since the checks were judged.
-- SG020: payments have another version than was seen.
-- SG019: what a commit takes from counters is more than take_from_calendar can do. The commit
-- is to be made again by record_extra.

-- Refuses a commit, behind its locks.
CREATE FUNCTION refused_commit(node uuid, epoch uuid) RETURNS uuid
LANGUAGE plpgsql
AS $$ BEGIN
    PERFORM begin_commit(node, epoch); -- which says what is over
    RAISE EXCEPTION 'something was stopped meanwhile' USING ERRCODE = 'SG021';
END $$;

-- A commit of checks alone: the keys and the checks, hash by hash and check by check, the place
-- of the batch in the chain of its node and, if some of the checks are, the violations. The
-- locks come first, and the batch's row, whose chain is that of the node only if the epoch is
-- in force and the node not fenced, is inserted by a statement of its own: only a snapshot
-- taken under the locks shows a fence that was committed while this waited.
CREATE FUNCTION record_checks(node uuid, epoch uuid, stops bigint, key_hashes bytea[], key_ids uuid[], has_violations boolean, rows check_record[],
    seq bigint, version smallint, first_id uuid, last_id uuid, entries bytea, head bytea, counts check_count[], OUT recorded boolean)
LANGUAGE plpgsql
AS $$
DECLARE
    inserted integer;
    taken    text;
BEGIN
    -- A lock that is taken is not null. What is wrong with the session begin_commit mends or
    -- refuses, and takes the locks.
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
            OR pg_advisory_xact_lock_shared('epoch'::regclass::oid::integer, 0) IS NULL
            OR pg_advisory_xact_lock_shared('fenced_nodes'::regclass::oid::integer, node_lock_key(record_checks.node)) IS NULL THEN
        PERFORM begin_commit(node, epoch);
    END IF;
    INSERT INTO batches (chain_id, seq, first_id, last_id, version, head, entries, counts)
        VALUES (CASE WHEN (SELECT e.id = record_checks.epoch AND e.stops = record_checks.stops FROM epoch AS e)
                    AND NOT EXISTS (SELECT FROM fenced_nodes AS f WHERE f.node = record_checks.node)
                THEN record_checks.node ELSE refused_commit(record_checks.node, record_checks.epoch) END,
            record_checks.seq, record_checks.first_id, record_checks.last_id, record_checks.version,
            record_checks.head, record_checks.entries, record_checks.counts);
    IF key_hashes IS NOT NULL THEN
        INSERT INTO idempotency_keys AS i (key_hash, check_id, expires_at)
            SELECT k.hash, k.id, clock_timestamp() + interval '24 hours'
            FROM unnest(key_hashes, key_ids) AS k (hash, id)
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
        INSERT INTO checks SELECT r.* FROM unnest(rows) AS r; -- as they are, without a projection
        IF has_violations THEN
            INSERT INTO violations (id, policy_version, latency_ms, action_type, decision, confidence, amount,
                    currency, agent_id, policy_id, counterparty, rule_id, rule_description, key_id, principal, owner)
                SELECT r.check_id, r.policy_version, r.latency_ms, r.action_type, r.decision, r.confidence, r.amount,
                    r.currency, r.agent_id, r.policy_id, r.counterparty, coalesce(r.rule_id, ''), coalesce(r.rule_description, ''),
                    r.key_id, r.principal, r.owner
                FROM unnest(rows) AS r WHERE r.decision <> 'a';
        END IF;
    END IF;
END $$;

-- Takes from counters of calendar windows what the checks of a commit take, as
-- change_counters does, or raises SG019: if one has no row, no room, or none left then, or reaches a
-- percentage that is to be on record. It has
-- no settings, which would cost each call: sessions that call it have those of change_counters
-- for all that they do, so that counters are locked in the order of the changes.
CREATE FUNCTION take_from_calendar(recorded boolean, changes counter_change[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    taken integer;
BEGIN
    UPDATE budget_counters AS b SET used = b.used + c.used, count = b.count + c.count FROM unnest(changes) AS c
        WHERE b.counter_id = c.counter_id AND b.start_ms = c.start_ms
            AND (b.used <= c.most_used) IS NOT FALSE AND (b.count <= c.most_count) IS NOT FALSE
            AND (b.used + c.used >= c.max_used) IS NOT TRUE AND (b.count + c.count >= c.max_count) IS NOT TRUE
            AND (c.notify_at IS NULL OR c.count = 0
                OR reached(string_to_array(c.notify_at, ',')::integer[], b.used + c.used, b.count + c.count, c.max_used, c.max_count) <@ b.noticed);
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken < cardinality(changes) THEN
        RAISE EXCEPTION 'counters of budgets are not as they mostly are' USING ERRCODE = 'SG019';
    END IF;
END $$;

-- Records redemptions. What it does not record insert_outcomes refuses.
CREATE FUNCTION redeem(recorded boolean, node uuid, epoch uuid, redemptions outcome_row[], OUT redeemed boolean)
LANGUAGE plpgsql
AS $$
DECLARE
    inserted integer;
    at       bigint := extract(epoch FROM clock_timestamp()) * 1000;
BEGIN
    WITH new AS (
        INSERT INTO outcomes (outcome_id, check_id, node, epoch, step, number, status, release, key_id, principal, request_id, may_release, replay, stops, payment)
            SELECT a.outcome_id, a.check_id, redeem.node, redeem.epoch, a.step, a.number, a.status, a.release,
                a.key_id, a.principal, a.request_id, a.may_release, a.replay, a.stops, a.payment
            FROM unnest(redemptions) AS a
            WHERE a.step = 1 AND at <= a.redeem_by AND (a.check_id < (SELECT first_id(f.from_ms) FROM redeemable AS f)) IS NOT TRUE
        ON CONFLICT ON CONSTRAINT outcomes_pkey DO NOTHING
        RETURNING outcomes.check_id
    )
    INSERT INTO redemptions_open (check_id, redeemed_at) SELECT n.check_id, clock_timestamp() FROM new AS n;
    GET DIAGNOSTICS inserted = ROW_COUNT;
    IF inserted < cardinality(redemptions) THEN
        PERFORM insert_outcomes(node, epoch, redemptions);
    END IF;
END $$;

-- What few commits have beside their checks: of approvals, outcomes, budgets, payments, and a horizon
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
    corrections     counter_correction[],
    payments        payment_change[],
    redeemed        outcome_row[], -- redemptions of the commit's own checks
    payment_hashes  bytea[], -- of payment_checks
    payment_checks  uuid[],
    allows          uuid[],  -- that only a redemption carries out
    redeem_by       bigint[], -- of these, in milliseconds
    withdrawing     uuid[],  -- checks
    withdrawn       uuid[]   -- approvals
);

-- Records what a commit has beside its checks. What it locks comes in the order of keys, payments, outcomes, approvals, the record
-- of changes, and counters.
-- Budgets come last, so that their rows are locked for no longer than the commit itself takes.
CREATE FUNCTION record_extra(recorded boolean, node uuid, epoch uuid, rows check_record[], extra commit_extra) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    done    boolean;
    refused text;
BEGIN
    IF extra.payments IS NOT NULL THEN
        done := change_payments(recorded, extra.payments);
    END IF;
    IF extra.reports IS NOT NULL THEN
        done := insert_outcomes(node, epoch, extra.reports) IS NULL;
    END IF;
    IF extra.redeemed IS NOT NULL THEN
        done := redeem(recorded, node, epoch, extra.redeemed);
    END IF;
    IF extra.payment_checks IS NOT NULL THEN
        INSERT INTO payment_checks (payment_hash, check_id) SELECT * FROM unnest(extra.payment_hashes, extra.payment_checks)
        ON CONFLICT DO NOTHING;
    END IF;
    IF extra.allows IS NOT NULL THEN
        INSERT INTO allows_open (check_id, redeem_by) SELECT a.id, timestamptz 'epoch' + a.until * interval '1 millisecond'
            FROM unnest(extra.allows, extra.redeem_by) AS a (id, until);
    END IF;
    IF extra.horizon_ms > 0 THEN
        PERFORM raise_horizon(extra.horizon_ms);
    END IF;
    IF extra.has_approvals THEN
        PERFORM insert_approvals(rows, ARRAY(SELECT p.payment_hash FROM unnest(extra.payments) AS p),
            ARRAY(SELECT p.check_id FROM unnest(extra.payments) AS p));
    END IF;
    IF extra.withdrawn IS NOT NULL THEN
        refused := withdraw_approvals(extra.withdrawing, extra.withdrawn, extra.approval_ids, rows);
    END IF;
    IF extra.approval_ids IS NOT NULL OR refused IS NOT NULL THEN
        PERFORM use_approvals(extra.approval_checks, extra.approval_ids, extra.approval_hashes, refused);
    END IF;
    IF extra.rolling IS NOT NULL OR extra.calendar IS NOT NULL OR extra.refused IS NOT NULL OR extra.corrections IS NOT NULL THEN
        done := change_counters(extra.counters, extra.rolling, extra.calendar, extra.refused, extra.corrections) IS NULL;
    END IF;
END $$;
