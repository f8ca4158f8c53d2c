-- Checks of whole days, evenly spread, as the policy "refunds" decides them: nine of ten are of it, one of twenty repeats
-- the action of two seconds before, and agents are 10,000.
CREATE PROCEDURE generate_checks(began bigint, days integer, rows bigint) LANGUAGE plpgsql AS $$
BEGIN
    SET synchronous_commit = off;
    FOR d IN 0 .. days - 1 LOOP
        PERFORM make_partition((timestamp 'epoch' + began * interval '1 millisecond')::date + d);
        COMMIT;
        INSERT INTO checks (check_id, node, epoch, claimed_ms, until_ms, policy_version, latency_ms, format, requested_type, action_type,
                decision, confidence, amount, fingerprint, request_sha, currency, agent_id, policy_id, counterparty, idempotency_key,
                metadata, reason_code, rule_id, rule_description, message, next_step, key_id, request_id)
            SELECT (lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(within), 3, '0') || '8000' || lpad(to_hex(i), 12, '0'))::uuid,
                '018f0000-0000-7000-8000-000000000001', '018f0000-0000-7000-8000-000000000002',
                CASE WHEN NOT again THEN ms END, CASE WHEN NOT again THEN ms + 300000 END, 1, 2, 1, 'r', 'r',
                CASE WHEN again OR amount > 500 THEN 'b' WHEN amount > 400 THEN 'e' ELSE 'a' END::"char", 'h', amount,
                sha256(int8send(k)), sha256(int8send(i)), 'USD', 'agent-' || k % 10007 % 10000,
                CASE WHEN k % 10 = 9 THEN 'spending' ELSE 'refunds' END, 'customer-' || k, NULL,
                '{"order_id":"' || k || '"}',
                CASE WHEN again THEN 'duplicate_action_detected' WHEN amount > 500 THEN 'max_amount_exceeded'
                    WHEN amount > 400 THEN 'escalation_threshold_exceeded' END,
                CASE WHEN again THEN 'twice' WHEN amount > 500 THEN 'cap' WHEN amount > 400 THEN 'ask' END,
                CASE WHEN again OR amount > 400 THEN 'Refunds above the limit are not paid.' END,
                CASE WHEN again OR amount > 400 THEN 'The amount is more than what is allowed.' END,
                CASE WHEN again OR amount > 400 THEN 'Ask for less, or ask a person.' END,
                'key_00000000000000000000000000000001', 'req_' || lpad(to_hex(i), 32, '0')
            FROM (SELECT i, i % 20 = 0 AND i >= 7 AS again, CASE WHEN i % 20 = 0 AND i >= 7 THEN i - 7 ELSE i END AS k,
                    began + i * (days * 86400000::bigint) / rows AS ms, i * (days * 86400000::bigint) % rows * 4096 / rows AS within
                FROM generate_series(d * rows / days, (d + 1) * rows / days - 1) AS i) AS numbered,
                LATERAL (SELECT 1 + k * 7919 % 520 AS amount) AS drawn;
        COMMIT;
    END LOOP;
    INSERT INTO check_counts (policy_id, minute, allows, escalations, blocks)
        SELECT name, minute, sum((decision = 'a')::integer), sum((decision = 'e')::integer), sum((decision = 'b')::integer)
        FROM (SELECT policy_id, decision, ('x' || left(replace(check_id::text, '-', ''), 12))::bit(48)::bigint / 60000 AS minute
                FROM checks) AS c, LATERAL (VALUES (c.policy_id), ('')) AS p (name)
        GROUP BY 1, 2 ORDER BY 1, 2;
END $$;
