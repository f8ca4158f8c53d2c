-- Counts of violations, so that total_count is exact without counting rows one
-- by one. They are derived: recount_violations makes them anew at any time.
--
-- A roll-up adds to them what became visible since the one before. It tells by
-- the transaction that wrote a row, not by the row's identifier: a node's clock
-- may be behind and a commit may be late, but what a snapshot shows is final
-- for every transaction that had ended by then. Rows from before have the 0.
ALTER TABLE violations ADD COLUMN xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE violations ALTER COLUMN xid SET DEFAULT pg_current_xact_id();

-- How far the counts go. Counted is every violation whose transaction is below
-- a bound and not one of those that were pending when the bound was drawn. All
-- of them had ended, so no violation joins them any more.
--
-- Until all violations from before the first bound are counted, upto is the
-- greatest identifier of those that are.
CREATE TABLE violations_counted (
    below   xid8    NOT NULL,
    pending xid8[]  NOT NULL,
    upto    uuid,
    piece   integer NOT NULL DEFAULT 4096 CHECK (piece >= 2), -- violations to a count, see below
    cluster bigint  NOT NULL               -- whose transactions these are
);
INSERT INTO violations_counted (below, pending, upto, cluster)
    SELECT '1', '{}', '00000000000000000000000000000000', system_identifier FROM pg_control_system();

-- A row counts the identifiers from its start to the start of the agent's next
-- row. Rows begin not with hours but after a number of violations, between one
-- and two pieces: whatever the rate, what is left to be counted one by one at
-- the ends of a range is bounded, and so is the number of rows. All agents
-- together are ''. An agent has rows of its own once it has two pieces.
CREATE TABLE violation_counts (
    agent_id             text   NOT NULL,
    start                uuid   NOT NULL,
    high                 uuid   NOT NULL, -- no identifier counted here is greater
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
    PRIMARY KEY (agent_id, start)
) WITH (fillfactor = 70);
INSERT INTO violation_counts (agent_id, start, high)
    VALUES ('', '00000000000000000000000000000000', '00000000000000000000000000000000');

-- Cuts a row into pieces by counting its violations one by one.
CREATE FUNCTION divide_count(agent text, from_id uuid) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    state   violations_counted;
    divided violation_counts;
    anew    bigint;
BEGIN
    SELECT * INTO STRICT state FROM violations_counted;
    DELETE FROM violation_counts WHERE agent_id = agent AND start = from_id RETURNING * INTO STRICT divided;
    WITH numbered AS (
        SELECT v.id, v.action_type, v.decision, (row_number() OVER (ORDER BY v.id) - 1) / state.piece AS number
        FROM violations AS v
        WHERE v.id BETWEEN from_id AND least(divided.high, state.upto)
            AND v.xid < state.below AND v.xid <> ALL (state.pending)
            AND (agent = '' OR v.agent_id = agent AND v.action_type = ANY ('{r,c,d,s}') AND v.decision = ANY ('{b,e}'))
    ), pieces AS (
        INSERT INTO violation_counts AS c (agent_id, start, high, refund_blocks, refund_escalations, credit_blocks, credit_escalations,
                discount_blocks, discount_escalations, spend_blocks, spend_escalations)
            SELECT agent, CASE number WHEN 0 THEN from_id ELSE (array_agg(id ORDER BY id))[1] END, (array_agg(id ORDER BY id DESC))[1],
                count(*) FILTER (WHERE action_type = 'r' AND decision = 'b'), count(*) FILTER (WHERE action_type = 'r' AND decision = 'e'),
                count(*) FILTER (WHERE action_type = 'c' AND decision = 'b'), count(*) FILTER (WHERE action_type = 'c' AND decision = 'e'),
                count(*) FILTER (WHERE action_type = 'd' AND decision = 'b'), count(*) FILTER (WHERE action_type = 'd' AND decision = 'e'),
                count(*) FILTER (WHERE action_type = 's' AND decision = 'b'), count(*) FILTER (WHERE action_type = 's' AND decision = 'e')
            FROM numbered GROUP BY number
        RETURNING c.total)
    SELECT coalesce(sum(total), 0) INTO anew FROM pieces;
    -- An agent's first row is made empty, to be filled here.
    IF divided.total NOT IN (0, anew) THEN
        RAISE EXCEPTION '% violations from % are counted as %: see recount_violations', anew, from_id, divided.total
            USING ERRCODE = 'data_corrupted';
    END IF;
END $$;

-- Adds up to about most violations to the counts. Gives whether all are
-- counted now that were visible; null when another session is at it.
--
-- It sees one snapshot from beginning to end: what it counts, what it cuts and
-- the bound that it leaves agree. Of two that add the same, the isolation lets
-- one commit; the lock only spares the other the work.
CREATE FUNCTION count_violations(most integer) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    seen    pg_snapshot := pg_current_snapshot();
    old     violations_counted;
    state   violations_counted;
    first   xid8;
    next    xid8;
    added   bigint;
    last    uuid;
    agents  text[];
    starts  uuid[];
    sampled text[];
    agent   text;
BEGIN
    IF current_setting('transaction_isolation') <> 'repeatable read' THEN
        RAISE EXCEPTION 'violations are counted in REPEATABLE READ, not %', current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    IF NOT pg_try_advisory_xact_lock('violations_counted'::regclass::oid::integer, 0) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO STRICT old FROM violations_counted;
    IF old.cluster <> (SELECT system_identifier FROM pg_control_system()) THEN
        RAISE EXCEPTION 'the violations were written in another cluster: see recount_violations' USING ERRCODE = 'data_corrupted';
    END IF;
    state := old;
    IF old.upto IS NULL THEN
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
            WHERE old.upto IS NOT NULL AND id > old.upto AND xid < old.below AND xid <> ALL (old.pending)
            ORDER BY id LIMIT most)
        UNION ALL
        SELECT id, agent_id, action_type, decision FROM violations
            WHERE old.upto IS NULL AND xid > '0' AND xid >= old.below AND xid < state.below
        UNION ALL
        SELECT id, agent_id, action_type, decision FROM violations
            WHERE old.upto IS NULL AND xid > '0' AND xid = ANY (old.pending)
    ), owners AS MATERIALIZED ( -- with null for those that have no rows of their own
        SELECT a.agent_id, (SELECT c.start FROM violation_counts AS c WHERE c.agent_id = a.agent_id ORDER BY c.start DESC LIMIT 1) AS last
        FROM (SELECT f.agent_id FROM fresh AS f UNION SELECT '') AS a
    ), owned AS (
        SELECT '' AS agent_id, (SELECT o.last FROM owners AS o WHERE o.agent_id = '') AS last, f.id, f.action_type, f.decision
            FROM fresh AS f
        UNION ALL
        SELECT o.agent_id, o.last, f.id, f.action_type, f.decision
            FROM fresh AS f JOIN owners AS o ON o.agent_id = f.agent_id WHERE o.agent_id <> '' AND o.last IS NOT NULL
    ), placed AS (
        SELECT o.agent_id, o.start, (array_agg(o.id ORDER BY o.id DESC))[1] AS high,
            count(*) FILTER (WHERE o.action_type = 'r' AND o.decision = 'b') AS refund_blocks,
            count(*) FILTER (WHERE o.action_type = 'r' AND o.decision = 'e') AS refund_escalations,
            count(*) FILTER (WHERE o.action_type = 'c' AND o.decision = 'b') AS credit_blocks,
            count(*) FILTER (WHERE o.action_type = 'c' AND o.decision = 'e') AS credit_escalations,
            count(*) FILTER (WHERE o.action_type = 'd' AND o.decision = 'b') AS discount_blocks,
            count(*) FILTER (WHERE o.action_type = 'd' AND o.decision = 'e') AS discount_escalations,
            count(*) FILTER (WHERE o.action_type = 's' AND o.decision = 'b') AS spend_blocks,
            count(*) FILTER (WHERE o.action_type = 's' AND o.decision = 'e') AS spend_escalations
        FROM (SELECT n.agent_id, n.id, n.action_type, n.decision, CASE
                WHEN n.id >= n.last THEN n.last -- nearly all; only what is late has to look for its row
                ELSE (SELECT c.start FROM violation_counts AS c
                    WHERE c.agent_id = n.agent_id AND c.start <= n.id ORDER BY c.start DESC LIMIT 1) END AS start
            FROM owned AS n) AS o
        GROUP BY o.agent_id, o.start
    ), raised AS (
        UPDATE violation_counts AS c SET high = greatest(c.high, p.high),
            refund_blocks = c.refund_blocks + p.refund_blocks, refund_escalations = c.refund_escalations + p.refund_escalations,
            credit_blocks = c.credit_blocks + p.credit_blocks, credit_escalations = c.credit_escalations + p.credit_escalations,
            discount_blocks = c.discount_blocks + p.discount_blocks, discount_escalations = c.discount_escalations + p.discount_escalations,
            spend_blocks = c.spend_blocks + p.spend_blocks, spend_escalations = c.spend_escalations + p.spend_escalations
        FROM placed AS p WHERE c.agent_id = p.agent_id AND c.start = p.start
        RETURNING c.agent_id, c.start, c.total
    )
    SELECT (SELECT count(*) FROM fresh), (SELECT f.id FROM fresh AS f ORDER BY f.id DESC LIMIT 1),
        ARRAY(SELECT r.agent_id FROM raised AS r WHERE r.total >= 2 * old.piece ORDER BY r.agent_id, r.start),
        ARRAY(SELECT r.start FROM raised AS r WHERE r.total >= 2 * old.piece ORDER BY r.agent_id, r.start),
        -- Looking after every agent would cost more than it is worth: one
        -- violation in half a piece has its agent looked at.
        ARRAY(SELECT DISTINCT f.agent_id FROM fresh AS f WHERE uuid_hash(f.id) % (old.piece / 2) = 0
            AND NOT EXISTS (SELECT FROM violation_counts AS c WHERE c.agent_id = f.agent_id))
        INTO added, last, agents, starts, sampled;
    IF old.upto IS NOT NULL THEN
        state.upto := CASE WHEN added = most THEN last END;
    END IF;
    UPDATE violations_counted SET below = state.below, pending = state.pending, upto = state.upto;
    FOR i IN 1 .. cardinality(agents) LOOP
        PERFORM divide_count(agents[i], starts[i]);
    END LOOP;
    FOREACH agent IN ARRAY sampled LOOP
        PERFORM FROM violations AS v WHERE v.agent_id = agent AND v.action_type = ANY ('{r,c,d,s}') AND v.decision = ANY ('{b,e}')
                AND v.id <= coalesce(state.upto, 'ffffffffffffffffffffffffffffffff') OFFSET 2 * old.piece - 1 LIMIT 1;
        IF FOUND THEN
            INSERT INTO violation_counts (agent_id, start, high)
                VALUES (agent, '00000000000000000000000000000000', coalesce(state.upto, 'ffffffffffffffffffffffffffffffff'));
            PERFORM divide_count(agent, '00000000000000000000000000000000');
        END IF;
    END LOOP;
    RETURN state.upto IS NULL AND old.upto IS NULL AND next IS NULL;
END $$;

-- Has all violations counted anew, by the next roll-ups; until then a listing
-- counts one by one. The numbers of transactions mean nothing in another
-- cluster: violations that came from one are like those from before.
CREATE FUNCTION recount_violations() RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    here bigint := (SELECT system_identifier FROM pg_control_system());
BEGIN
    PERFORM pg_advisory_xact_lock('violations_counted'::regclass::oid::integer, 0);
    IF here <> (SELECT cluster FROM violations_counted) THEN
        ALTER TABLE violations DROP COLUMN xid;
        ALTER TABLE violations ADD COLUMN xid xid8 NOT NULL DEFAULT '0';
        ALTER TABLE violations ALTER COLUMN xid SET DEFAULT pg_current_xact_id();
        CREATE INDEX violations_xid ON violations (xid) WHERE xid > '0';
    END IF;
    DELETE FROM violation_counts;
    INSERT INTO violation_counts (agent_id, start, high)
        VALUES ('', '00000000000000000000000000000000', '00000000000000000000000000000000');
    UPDATE violations_counted SET cluster = here, upto = '00000000000000000000000000000000',
        below = pg_snapshot_xmax(pg_current_snapshot()), pending = ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot()));
END $$;

-- As make_partition: nodes call it with the owner's rights. Each query is
-- planned for its own values, which decide what it has to read.
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION count_violations(integer) SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION recount_violations() SET search_path = %I, pg_temp', current_schema());
END $$;
ALTER FUNCTION count_violations(integer) SET plan_cache_mode = force_custom_plan;
-- New rows are in no statistics: it would take them for few.
ALTER FUNCTION count_violations(integer) SET enable_nestloop = off;

REVOKE EXECUTE ON FUNCTION count_violations(integer), divide_count(text, uuid), recount_violations() FROM PUBLIC;
