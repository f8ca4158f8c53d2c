-- A commit of checks alone, and one of checks that take from counters of calendar windows
-- which have rows and room, in functions of their own: what they have none of is not asked
-- about. commit_checks is for all others, and for nodes of the version before.
--
-- SG019: what a commit takes from counters is more than take_from_calendar can do. The commit
-- is to be made again by commit_checks.

-- A check_row with what the checks of a commit have in common, in the order of the table: so a
-- row is inserted as it is, without a projection that each commit would build.
CREATE TYPE check_record AS (
    check_id           uuid,
    node               uuid,
    epoch              uuid,
    claimed_ms         bigint,
    until_ms           bigint,
    policy_version     integer,
    latency_ms         integer,
    format             smallint,
    requested_type     "char",
    action_type        "char",
    decision           "char",
    confidence         "char",
    amount             numeric,
    fingerprint        bytea,
    request_sha        bytea,
    currency           text,
    agent_id           text,
    policy_id          text,
    counterparty       text,
    payment_method     text,
    merchant_or_vendor text,
    reason_text        text,
    idempotency_key    text,
    metadata           text,
    reason_code        text,
    rule_id            text,
    rule_description   text,
    message            text,
    next_step          text,
    key_id             text,
    request_id         text,
    principal          text,
    owner              text,
    charges            text,
    approval_id        uuid,
    approval           text,
    namespace          text,
    shadow             text
);

-- Refuses a commit, behind its locks.
CREATE FUNCTION refused_commit(node uuid, epoch uuid) RETURNS uuid
LANGUAGE plpgsql
AS $$ BEGIN
    PERFORM begin_commit(node, epoch); -- which says what is over
    RAISE EXCEPTION 'the epoch is over' USING ERRCODE = 'SG001';
END $$;

-- As the commit_checks of 0025_lean_commit.sql, without what few commits have. The locks come
-- first, and the batch's row, whose chain is that of the node only if the epoch is in force
-- and the node not fenced, is inserted by a statement of its own: only a snapshot taken under
-- the locks shows a fence that was committed while this waited. What it returns is null: it
-- is there so that take_from_calendar comes after it.
CREATE FUNCTION record_checks(node uuid, epoch uuid, key_hashes bytea[], key_ids uuid[], has_violations boolean, rows check_record[],
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
        VALUES (CASE WHEN (SELECT e.id FROM epoch AS e) = record_checks.epoch
                    AND NOT EXISTS (SELECT FROM fenced_nodes AS f WHERE f.node = record_checks.node)
                THEN record_checks.node ELSE refused_commit(record_checks.node, record_checks.epoch) END,
            record_checks.seq, record_checks.first_id, record_checks.last_id, record_checks.version,
            record_checks.head, record_checks.entries, record_checks.counts);
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
    INSERT INTO checks (
            check_id, node, epoch, claimed_ms, until_ms, policy_version, latency_ms, format, requested_type, action_type,
            decision, confidence, amount, fingerprint, request_sha, currency, agent_id, policy_id, counterparty, payment_method,
            merchant_or_vendor, reason_text, idempotency_key, metadata, reason_code, rule_id, rule_description, message,
            next_step, key_id, request_id, principal, owner, charges, approval_id, approval, namespace, shadow)
        SELECT
            r.check_id, r.node, r.epoch, r.claimed_ms, r.until_ms, r.policy_version, r.latency_ms, r.format, r.requested_type,
            r.action_type, r.decision, r.confidence, r.amount, r.fingerprint, r.request_sha, r.currency, r.agent_id, r.policy_id,
            r.counterparty, r.payment_method, r.merchant_or_vendor, r.reason_text, r.idempotency_key, r.metadata, r.reason_code,
            r.rule_id, r.rule_description, r.message, r.next_step, r.key_id, r.request_id, r.principal, r.owner, r.charges,
            r.approval_id, r.approval, r.namespace, r.shadow
        FROM unnest(rows) AS r;
    IF has_violations THEN
        INSERT INTO violations (id, policy_version, latency_ms, action_type, decision, confidence, amount,
                currency, agent_id, policy_id, counterparty, rule_id, rule_description, key_id, principal, owner)
            SELECT r.check_id, r.policy_version, r.latency_ms, r.action_type, r.decision, r.confidence, r.amount,
                r.currency, r.agent_id, r.policy_id, r.counterparty, coalesce(r.rule_id, ''), coalesce(r.rule_description, ''),
                r.key_id, r.principal, r.owner
            FROM unnest(rows) AS r WHERE r.decision <> 'a';
    END IF;
END $$;

-- Takes from counters of calendar windows what the checks of a commit take, as
-- change_counters does, or raises SG019: if one has no row, no room, or none left then. It has
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
            AND (b.used + c.used >= c.max_used) IS NOT TRUE AND (b.count + c.count >= c.max_count) IS NOT TRUE;
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken < cardinality(changes) THEN
        RAISE EXCEPTION 'counters of budgets are not as they mostly are' USING ERRCODE = 'SG019';
    END IF;
END $$;
