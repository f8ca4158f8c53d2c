-- Counts of checks by minute (S55): see docs/internals/counts.md.

-- How many checks there are of each minute, by decision: of each policy, and of all
-- together, which are those of ''. They are derived from what each commit says of
-- itself in batches, which stay when days are archived.
CREATE TABLE check_counts (
    policy_id   text    NOT NULL,
    minute      bigint NOT NULL, -- since 1970
    allows      bigint  NOT NULL,
    escalations bigint  NOT NULL,
    blocks      bigint  NOT NULL,
    PRIMARY KEY (policy_id, minute)
) WITH (fillfactor = 70);

-- What is counted: the batches of transactions below a bound that were not pending
-- when the bound was drawn (see violation_count_state).
CREATE TABLE check_count_state (
    below   xid8   NOT NULL,
    pending xid8[] NOT NULL,
    cluster bigint NOT NULL -- whose transactions these are
);
INSERT INTO check_count_state (below, pending, cluster) SELECT '1', '{}', system_identifier FROM pg_control_system();

-- Adds up to most batches to the counts of checks. Returns whether all that were visible
-- are counted now; null when another session is counting. It works like count_violations. What is new
-- is little, whatever the statistics say.
CREATE FUNCTION count_checks(most integer) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    seen  pg_snapshot := pg_current_snapshot();
    state check_count_state;
    first xid8;
    next  xid8;
BEGIN
    IF current_setting('transaction_isolation') <> 'repeatable read' THEN
        RAISE EXCEPTION 'checks are counted in REPEATABLE READ, not %', current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    IF NOT pg_try_advisory_xact_lock('check_count_state'::regclass::oid::integer, 0) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO STRICT state FROM check_count_state;
    IF state.cluster <> (SELECT system_identifier FROM pg_control_system()) THEN
        RAISE EXCEPTION 'the checks were written in another cluster: see recount_violations' USING ERRCODE = 'data_corrupted';
    END IF;
    SELECT xid INTO first FROM batches WHERE xid > '0' AND xid >= state.below ORDER BY xid LIMIT 1;
    IF first IS NULL AND NOT EXISTS (SELECT FROM batches WHERE xid > '0' AND xid = ANY (state.pending)) THEN
        RETURN true; -- nothing is written while nothing happens
    END IF;
    SELECT xid INTO next FROM batches WHERE xid > '0' AND xid >= state.below ORDER BY xid OFFSET most LIMIT 1;
    IF next = first THEN -- a transaction is counted whole
        SELECT xid INTO next FROM batches WHERE xid > '0' AND xid > first ORDER BY xid LIMIT 1;
    END IF;
    INSERT INTO check_counts AS k (policy_id, minute, allows, escalations, blocks)
        SELECT p.policy_id, c.minute, sum(c.allows), sum(c.escalations), sum(c.blocks)
        FROM (SELECT counts FROM batches WHERE xid > '0' AND xid >= state.below AND xid < coalesce(next, pg_snapshot_xmax(seen))
                UNION ALL SELECT counts FROM batches WHERE xid > '0' AND xid = ANY (state.pending)) AS fresh,
            unnest(fresh.counts) AS c, LATERAL (VALUES (c.policy_id), ('')) AS p (policy_id)
        GROUP BY p.policy_id, c.minute ORDER BY p.policy_id, c.minute
    ON CONFLICT (policy_id, minute) DO UPDATE
        SET allows = k.allows + excluded.allows, escalations = k.escalations + excluded.escalations, blocks = k.blocks + excluded.blocks;
    UPDATE check_count_state SET below = coalesce(next, pg_snapshot_xmax(seen)),
        pending = ARRAY(SELECT x FROM pg_snapshot_xip(seen) AS x WHERE x < coalesce(next, pg_snapshot_xmax(seen)));
    RETURN (next IS NULL);
END $$;

-- Counts all checks anew, by what the batches and folded_check_counts say, archived days included. What it
-- counts is what one snapshot shows that is taken under the lock.
CREATE FUNCTION recount_checks() RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    seen pg_snapshot;
BEGIN
    PERFORM pg_advisory_xact_lock('check_count_state'::regclass::oid::integer, 0);
    SELECT pg_current_snapshot() INTO seen;
    DELETE FROM check_counts;
    UPDATE check_count_state SET cluster = (SELECT system_identifier FROM pg_control_system()),
        below = pg_snapshot_xmax(seen), pending = ARRAY(SELECT pg_snapshot_xip(seen));
    INSERT INTO check_counts (policy_id, minute, allows, escalations, blocks)
        SELECT n.policy_id, n.minute, sum(n.allows), sum(n.escalations), sum(n.blocks)
        FROM (SELECT p.policy_id, c.minute, c.allows::bigint, c.escalations::bigint, c.blocks::bigint
                FROM batches AS b, unnest(b.counts) AS c, LATERAL (VALUES (c.policy_id), ('')) AS p (policy_id)
                WHERE pg_visible_in_snapshot(b.xid, seen)
            UNION ALL SELECT f.policy_id, f.minute, f.allows, f.escalations, f.blocks FROM folded_check_counts AS f) AS n
        GROUP BY n.policy_id, n.minute;
END $$;
