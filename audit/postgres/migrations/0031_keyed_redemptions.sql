-- A commit of redemptions alone that have lasting keys, which commit_checks recorded so far.

-- As record_redemptions of 0029_plain_redemptions.sql. A lasting key that is there already is
-- another check's, or this one's, which then is redeemed.
CREATE FUNCTION record_keyed_redemptions(node uuid, epoch uuid, redemptions outcome_row[], seq bigint, version smallint, first_id uuid,
    last_id uuid, entries bytea, head bytea) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    inserted integer;
    at       bigint;
BEGIN
    -- As in 0027_plain_commit.sql.
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
            OR pg_advisory_xact_lock_shared('epoch'::regclass::oid::integer, 0) IS NULL
            OR pg_advisory_xact_lock_shared('fenced_nodes'::regclass::oid::integer, node_lock_key(record_keyed_redemptions.node)) IS NULL THEN
        PERFORM begin_commit(node, epoch);
    END IF;
    INSERT INTO batches (chain_id, seq, first_id, last_id, version, head, entries)
        VALUES (CASE WHEN (SELECT e.id FROM epoch AS e) = record_keyed_redemptions.epoch
                    AND NOT EXISTS (SELECT FROM fenced_nodes AS f WHERE f.node = record_keyed_redemptions.node)
                THEN record_keyed_redemptions.node ELSE refused_commit(record_keyed_redemptions.node, record_keyed_redemptions.epoch) END,
            record_keyed_redemptions.seq, record_keyed_redemptions.first_id, record_keyed_redemptions.last_id, record_keyed_redemptions.version,
            record_keyed_redemptions.head, record_keyed_redemptions.entries);
    at := extract(epoch FROM clock_timestamp()) * 1000;
    WITH in_time AS (
        SELECT a.* FROM unnest(redemptions) AS a
            WHERE a.step = 1 AND at <= a.redeem_by AND (a.check_id < (SELECT first_id(f.from_ms) FROM redeemable AS f)) IS NOT TRUE
    ), taken AS (
        INSERT INTO redemption_keys (key_hash, check_id) SELECT a.once, a.check_id FROM in_time AS a WHERE a.once IS NOT NULL ORDER BY a.once
        ON CONFLICT DO NOTHING
        RETURNING redemption_keys.key_hash, redemption_keys.check_id
    ), redeemed AS (
        INSERT INTO outcomes (outcome_id, check_id, node, epoch, step, number, status, release, key_id, principal, request_id, may_release, replay, once)
            SELECT a.outcome_id, a.check_id, record_keyed_redemptions.node, record_keyed_redemptions.epoch, a.step, a.number, a.status, a.release,
                a.key_id, a.principal, a.request_id, a.may_release, a.replay, a.once
            FROM in_time AS a
            WHERE a.once IS NULL OR EXISTS (SELECT FROM taken AS t WHERE t.key_hash = a.once AND t.check_id = a.check_id)
            ORDER BY a.check_id
        ON CONFLICT ON CONSTRAINT outcomes_pkey DO NOTHING
        RETURNING outcomes.check_id
    )
    INSERT INTO redemptions_open (check_id, redeemed_at) SELECT r.check_id, clock_timestamp() FROM redeemed AS r;
    GET DIAGNOSTICS inserted = ROW_COUNT;
    IF inserted < cardinality(redemptions) THEN
        PERFORM insert_outcomes(node, epoch, redemptions);
    END IF;
END $$;
