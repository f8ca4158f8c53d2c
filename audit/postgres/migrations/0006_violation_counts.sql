-- Counts of violations.

-- Counts of violations, so that total_count is exact without counting rows one
-- by one. They are derived: recount_violations makes them anew at any time. Archived
-- violations are not counted (see trim_violation_counts).
--
-- A row is a bucket: it counts the identifiers from its start_id to the start_id
-- of the agent's next bucket. Buckets begin not with hours but after a number of
-- violations, between one and two bucket sizes: whatever the rate, what is left
-- to be counted one by one at the ends of a range is bounded, and so is the
-- number of rows. All agents together are ''. An agent has buckets of its own
-- once it has two bucket sizes.
CREATE TABLE violation_counts (
    agent_id             text   NOT NULL,
    start_id             uuid   NOT NULL,
    max_id               uuid   NOT NULL, -- no identifier counted here is greater
    refund_blocks        bigint NOT NULL DEFAULT 0,
    refund_escalations   bigint NOT NULL DEFAULT 0,
    credit_blocks        bigint NOT NULL DEFAULT 0,
    credit_escalations   bigint NOT NULL DEFAULT 0,
    discount_blocks      bigint NOT NULL DEFAULT 0,
    discount_escalations bigint NOT NULL DEFAULT 0,
    spend_blocks         bigint NOT NULL DEFAULT 0,
    spend_escalations    bigint NOT NULL DEFAULT 0,
    total                bigint NOT NULL GENERATED ALWAYS AS (
        refund_blocks + refund_escalations + credit_blocks + credit_escalations +
        discount_blocks + discount_escalations + spend_blocks + spend_escalations) STORED,
    PRIMARY KEY (agent_id, start_id)
) WITH (fillfactor = 70);
INSERT INTO violation_counts (agent_id, start_id, max_id)
    VALUES ('', '00000000000000000000000000000000', '00000000000000000000000000000000');

-- What is counted: every violation whose transaction is below a bound and not
-- one of those that were pending when the bound was drawn. All of them had
-- ended, so no violation joins them any more. A transaction's number decides,
-- not the row's identifier: a node's clock may be behind and a commit may be
-- late, but what a snapshot shows is final for every transaction that had ended
-- before it.
--
-- While violations are recounted, recounted_to is the greatest identifier that
-- is; null when all are.
CREATE TABLE violation_count_state (
    below        xid8    NOT NULL,
    pending      xid8[]  NOT NULL,
    recounted_to uuid,
    bucket_size  integer NOT NULL DEFAULT 4096 CHECK (bucket_size >= 2), -- in violations
    cluster      bigint  NOT NULL -- whose transactions these are
);
INSERT INTO violation_count_state (below, pending, cluster) SELECT '1', '{}', system_identifier FROM pg_control_system();

-- Begins an agent's buckets where the violations that are not archived begin, and
-- forgets an agent that has none left. Returns whether there may be more such agents.
-- What it counts is final under the lock.
CREATE FUNCTION trim_violation_counts() RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    from_id uuid;
    agent   text;
    next    uuid;
BEGIN
    PERFORM pg_advisory_xact_lock('violation_count_state'::regclass::oid::integer, 0);
    from_id := violations_from();
    SELECT c.agent_id INTO agent FROM violation_counts AS c WHERE c.start_id < from_id ORDER BY c.agent_id LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM violation_counts AS c WHERE c.agent_id = agent AND c.start_id < from_id;
    SELECT c.start_id INTO next FROM violation_counts AS c WHERE c.agent_id = agent ORDER BY c.start_id LIMIT 1;
    INSERT INTO violation_counts (agent_id, start_id, max_id, refund_blocks, refund_escalations, credit_blocks, credit_escalations,
            discount_blocks, discount_escalations, spend_blocks, spend_escalations)
        SELECT agent, from_id, coalesce((array_agg(v.id ORDER BY v.id DESC))[1], from_id),
            count(*) FILTER (WHERE v.action_type = 'r' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'r' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 'c' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'c' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 'd' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'd' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 's' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 's' AND v.decision = 'e')
        FROM violation_count_state AS s JOIN violations AS v ON v.id >= from_id AND v.id < coalesce(next, 'ffffffffffffffffffffffffffffffff')
            AND v.id <= coalesce(s.recounted_to, 'ffffffffffffffffffffffffffffffff') AND v.xid < s.below AND v.xid <> ALL (s.pending)
            AND (agent = '' OR v.agent_id = agent AND v.action_type = ANY ('{r,c,d,s}') AND v.decision = ANY ('{b,e}'))
        HAVING count(*) > 0 OR agent = '' OR next IS NOT NULL;
    UPDATE violation_count_state SET below = below; -- roll-ups that began before this fail
    RETURN true;
END $$;

-- Splits a bucket by counting its violations one by one.
CREATE FUNCTION split_bucket(agent text, from_id uuid) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    state   violation_count_state;
    bucket  violation_counts;
    counted bigint;
BEGIN
    SELECT * INTO STRICT state FROM violation_count_state;
    DELETE FROM violation_counts WHERE agent_id = agent AND start_id = from_id RETURNING * INTO STRICT bucket;
    WITH numbered AS (
        SELECT v.id, v.action_type, v.decision, (row_number() OVER (ORDER BY v.id) - 1) / state.bucket_size AS number
        FROM violations AS v
        WHERE v.id BETWEEN from_id AND least(bucket.max_id, state.recounted_to)
            AND v.xid < state.below AND v.xid <> ALL (state.pending)
            AND (agent = '' OR v.agent_id = agent AND v.action_type = ANY ('{r,c,d,s}') AND v.decision = ANY ('{b,e}'))
    ), buckets AS (
        INSERT INTO violation_counts AS c (agent_id, start_id, max_id, refund_blocks, refund_escalations, credit_blocks, credit_escalations,
                discount_blocks, discount_escalations, spend_blocks, spend_escalations)
            SELECT agent, CASE number WHEN 0 THEN from_id ELSE (array_agg(id ORDER BY id))[1] END, (array_agg(id ORDER BY id DESC))[1],
                count(*) FILTER (WHERE action_type = 'r' AND decision = 'b'), count(*) FILTER (WHERE action_type = 'r' AND decision = 'e'),
                count(*) FILTER (WHERE action_type = 'c' AND decision = 'b'), count(*) FILTER (WHERE action_type = 'c' AND decision = 'e'),
                count(*) FILTER (WHERE action_type = 'd' AND decision = 'b'), count(*) FILTER (WHERE action_type = 'd' AND decision = 'e'),
                count(*) FILTER (WHERE action_type = 's' AND decision = 'b'), count(*) FILTER (WHERE action_type = 's' AND decision = 'e')
            FROM numbered GROUP BY number
        RETURNING c.total)
    SELECT coalesce(sum(total), 0) INTO counted FROM buckets;
    -- An agent's first bucket is inserted empty, to be filled here.
    IF bucket.total NOT IN (0, counted) THEN
        RAISE EXCEPTION '% violations from % are counted as %: see recount_violations', counted, from_id, bucket.total
            USING ERRCODE = 'data_corrupted';
    END IF;
END $$;

-- Adds up to about most violations to the counts. Returns whether all that were
-- visible are counted now; null when another session is counting.
--
-- It sees one snapshot from beginning to end: what it counts, what it splits and
-- the bound that it stores agree. Of two that add the same, the isolation lets
-- one commit; the lock only spares the other the work.
--
-- Each query is planned for its own values, which decide what it has to read. New rows are in
-- no statistics: a nested loop would take them for few.
CREATE FUNCTION count_violations(most integer) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan SET enable_nestloop = off
AS $$
DECLARE
    seen    pg_snapshot := pg_current_snapshot();
    old     violation_count_state;
    state   violation_count_state;
    first   xid8;
    next    xid8;
    added   bigint;
    last    uuid;
    agents  text[];
    starts  uuid[];
    sampled text[];
    agent   text;
    from_id uuid;
BEGIN
    IF current_setting('transaction_isolation') <> 'repeatable read' THEN
        RAISE EXCEPTION 'violations are counted in REPEATABLE READ, not %', current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    IF NOT pg_try_advisory_xact_lock('violation_count_state'::regclass::oid::integer, 0) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO STRICT old FROM violation_count_state;
    IF old.cluster <> (SELECT system_identifier FROM pg_control_system()) THEN
        RAISE EXCEPTION 'the violations were written in another cluster: see recount_violations' USING ERRCODE = 'data_corrupted';
    END IF;
    state := old;
    IF old.recounted_to IS NULL THEN
        SELECT xid INTO first FROM violations WHERE xid > '0' AND xid >= old.below ORDER BY xid LIMIT 1;
        IF first IS NULL AND NOT EXISTS (SELECT FROM violations WHERE xid > '0' AND xid = ANY (old.pending)) THEN
            RETURN true; -- nothing is written while nothing happens
        END IF;
        SELECT xid INTO next FROM violations WHERE xid > '0' AND xid >= old.below ORDER BY xid OFFSET most LIMIT 1;
        IF next = first THEN -- a transaction is counted whole
            SELECT xid INTO next FROM violations WHERE xid > '0' AND xid > first ORDER BY xid LIMIT 1;
        END IF;
        state.below := coalesce(next, pg_snapshot_xmax(seen));
        state.pending := ARRAY(SELECT x FROM pg_snapshot_xip(seen) AS x WHERE x < state.below);
    END IF;

    WITH fresh AS MATERIALIZED (
        (SELECT id, agent_id, action_type, decision FROM violations
            WHERE old.recounted_to IS NOT NULL AND id > old.recounted_to AND xid < old.below AND xid <> ALL (old.pending)
            ORDER BY id LIMIT most)
        UNION ALL
        SELECT id, agent_id, action_type, decision FROM violations
            WHERE old.recounted_to IS NULL AND xid > '0' AND xid >= old.below AND xid < state.below
        UNION ALL
        SELECT id, agent_id, action_type, decision FROM violations
            WHERE old.recounted_to IS NULL AND xid > '0' AND xid = ANY (old.pending)
    ), owners AS MATERIALIZED ( -- with null for those that have no buckets of their own
        SELECT a.agent_id, (SELECT c.start_id FROM violation_counts AS c WHERE c.agent_id = a.agent_id ORDER BY c.start_id DESC LIMIT 1) AS last
        FROM (SELECT f.agent_id FROM fresh AS f UNION SELECT '') AS a
    ), owned AS (
        SELECT '' AS agent_id, (SELECT o.last FROM owners AS o WHERE o.agent_id = '') AS last, f.id, f.action_type, f.decision
            FROM fresh AS f
        UNION ALL
        SELECT o.agent_id, o.last, f.id, f.action_type, f.decision
            FROM fresh AS f JOIN owners AS o ON o.agent_id = f.agent_id WHERE o.agent_id <> '' AND o.last IS NOT NULL
    ), placed AS (
        SELECT o.agent_id, o.start_id, (array_agg(o.id ORDER BY o.id DESC))[1] AS max_id,
            count(*) FILTER (WHERE o.action_type = 'r' AND o.decision = 'b') AS refund_blocks,
            count(*) FILTER (WHERE o.action_type = 'r' AND o.decision = 'e') AS refund_escalations,
            count(*) FILTER (WHERE o.action_type = 'c' AND o.decision = 'b') AS credit_blocks,
            count(*) FILTER (WHERE o.action_type = 'c' AND o.decision = 'e') AS credit_escalations,
            count(*) FILTER (WHERE o.action_type = 'd' AND o.decision = 'b') AS discount_blocks,
            count(*) FILTER (WHERE o.action_type = 'd' AND o.decision = 'e') AS discount_escalations,
            count(*) FILTER (WHERE o.action_type = 's' AND o.decision = 'b') AS spend_blocks,
            count(*) FILTER (WHERE o.action_type = 's' AND o.decision = 'e') AS spend_escalations
        FROM (SELECT n.agent_id, n.id, n.action_type, n.decision, CASE
                WHEN n.id >= n.last THEN n.last -- nearly all; only what is late has to look for its bucket
                ELSE (SELECT c.start_id FROM violation_counts AS c
                    WHERE c.agent_id = n.agent_id AND c.start_id <= n.id ORDER BY c.start_id DESC LIMIT 1) END AS start_id
            FROM owned AS n) AS o
        GROUP BY o.agent_id, o.start_id
    ), raised AS (
        UPDATE violation_counts AS c SET max_id = greatest(c.max_id, p.max_id),
            refund_blocks = c.refund_blocks + p.refund_blocks, refund_escalations = c.refund_escalations + p.refund_escalations,
            credit_blocks = c.credit_blocks + p.credit_blocks, credit_escalations = c.credit_escalations + p.credit_escalations,
            discount_blocks = c.discount_blocks + p.discount_blocks, discount_escalations = c.discount_escalations + p.discount_escalations,
            spend_blocks = c.spend_blocks + p.spend_blocks, spend_escalations = c.spend_escalations + p.spend_escalations
        FROM placed AS p WHERE c.agent_id = p.agent_id AND c.start_id = p.start_id
        RETURNING c.agent_id, c.start_id, c.total
    )
    SELECT (SELECT count(*) FROM fresh), (SELECT f.id FROM fresh AS f ORDER BY f.id DESC LIMIT 1),
        ARRAY(SELECT r.agent_id FROM raised AS r WHERE r.total >= 2 * old.bucket_size ORDER BY r.agent_id, r.start_id),
        ARRAY(SELECT r.start_id FROM raised AS r WHERE r.total >= 2 * old.bucket_size ORDER BY r.agent_id, r.start_id),
        -- Counting for every agent would cost more than it is worth: one
        -- violation in half a bucket size has its agent counted.
        ARRAY(SELECT DISTINCT f.agent_id FROM fresh AS f WHERE uuid_hash(f.id) % (old.bucket_size / 2) = 0
            AND NOT EXISTS (SELECT FROM violation_counts AS c WHERE c.agent_id = f.agent_id))
        INTO added, last, agents, starts, sampled;
    IF old.recounted_to IS NOT NULL THEN
        state.recounted_to := CASE WHEN added = most THEN last END;
    END IF;
    UPDATE violation_count_state SET below = state.below, pending = state.pending, recounted_to = state.recounted_to;
    FOR i IN 1 .. cardinality(agents) LOOP
        PERFORM split_bucket(agents[i], starts[i]);
    END LOOP;
    IF cardinality(sampled) > 0 THEN
        from_id := violations_from();
    END IF;
    FOREACH agent IN ARRAY sampled LOOP
        PERFORM FROM violations AS v WHERE v.agent_id = agent AND v.action_type = ANY ('{r,c,d,s}') AND v.decision = ANY ('{b,e}')
                AND v.id >= from_id AND v.id <= coalesce(state.recounted_to, 'ffffffffffffffffffffffffffffffff') OFFSET 2 * old.bucket_size - 1 LIMIT 1;
        IF FOUND THEN
            INSERT INTO violation_counts (agent_id, start_id, max_id)
                VALUES (agent, from_id, coalesce(state.recounted_to, 'ffffffffffffffffffffffffffffffff'));
            PERFORM split_bucket(agent, from_id);
        END IF;
    END LOOP;
    RETURN state.recounted_to IS NULL AND old.recounted_to IS NULL AND next IS NULL;
END $$;

-- Has all violations counted again, by the next calls of count_violations; until
-- then a listing counts one by one. The numbers of transactions mean nothing in
-- another cluster: those that came from one become 0, once events are numbered by
-- them. The counts of checks are made anew at once.
CREATE FUNCTION recount_violations() RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    here    bigint := (SELECT system_identifier FROM pg_control_system());
    from_id uuid;
BEGIN
    PERFORM pg_advisory_xact_lock('violation_count_state'::regclass::oid::integer, 0);
    from_id := violations_from();
    IF here <> (SELECT cluster FROM violation_count_state) THEN
        PERFORM sequence_restored();
    END IF;
    DELETE FROM violation_counts;
    INSERT INTO violation_counts (agent_id, start_id, max_id)
        VALUES ('', from_id, from_id);
    UPDATE violation_count_state SET cluster = here, recounted_to = from_id,
        below = pg_snapshot_xmax(pg_current_snapshot()), pending = ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot()));
    PERFORM recount_checks();
END $$;
