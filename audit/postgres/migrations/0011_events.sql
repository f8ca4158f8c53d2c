-- Events.

-- The feed of what happened (S51), numbered when somebody asks for it: see
-- docs/internals/events.md. A row names its source, from which the event is read.
CREATE TABLE events (
    sequence  bigint PRIMARY KEY,
    source    uuid   NOT NULL, -- of a change its number
    type      text   NOT NULL, -- its name
    policy_id text,            -- null when it is of none, or its check was archived before it had a number
    agent_id  text,            -- null in the same cases
    UNIQUE (source, type)
);

-- What has a number: everything at positions below the bound, unless its transaction
-- was pending when the bound was drawn (see violation_count_state). The position of
-- a row is the number of its transaction. Where a transaction may have waited for
-- another after it had its number, in changes and uses of approvals, it is the number
-- of the latest that had ended when it was written, if that is greater.
CREATE TABLE event_state (
    below    xid8   NOT NULL,
    pending  xid8[] NOT NULL, -- ascending
    last     bigint NOT NULL, -- the greatest number
    timeline text   NOT NULL, -- of this server, which changes when a standby is promoted
    cluster  bigint NOT NULL  -- whose transactions these are
);
INSERT INTO event_state (below, pending, last, timeline, cluster) SELECT '1', '{}', 0, '', system_identifier FROM pg_control_system();

-- The policy and the agent of a check, null when it is archived. Planned for the check
-- alone: a plan for any check prepares for every partition there is.
CREATE FUNCTION find_action(id uuid, OUT policy_id text, OUT agent_id text)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan
AS $$ BEGIN SELECT c.policy_id, c.agent_id INTO find_action.policy_id, find_action.agent_id FROM checks AS c WHERE c.check_id = find_action.id; END $$;

-- What there is to be numbered: at positions from low up to high, or of the
-- transactions that were pending below low.
CREATE FUNCTION event_sources(low xid8, high xid8, pending xid8[]) RETURNS TABLE
    ("position" xid8, xid xid8, rank integer, source uuid, type text, policy_id text, agent_id text)
LANGUAGE sql STABLE
AS $$
    SELECT c.position, c.xid, 1, lpad(to_hex(c.seq), 32, '0')::uuid, n.type,
            CASE WHEN c.kind LIKE 'policy.%' THEN c.subject WHEN c.kind LIKE 'freeze.%' THEN c.details::jsonb -> 'scope' ->> 'policy_id'
                WHEN c.kind LIKE 'grant.%' THEN c.details::jsonb ->> 'policy_id' ELSE a.policy_id END,
            CASE WHEN c.kind LIKE 'freeze.%' THEN c.details::jsonb -> 'scope' ->> 'agent_id'
                WHEN c.kind LIKE 'grant.%' THEN c.details::jsonb ->> 'agent_id' ELSE a.agent_id END
        FROM changes AS c LEFT JOIN approvals AS a ON a.id = CASE WHEN c.kind LIKE 'approval.%' THEN substr(c.subject, 5)::uuid END,
            LATERAL (VALUES ('approval.decided', c.kind IN ('approval.approved', 'approval.denied')),
                (CASE c.kind WHEN 'policy.draft_put' THEN 'policy.draft_submitted' WHEN 'key.created' THEN 'key.changed' ELSE c.kind END, CASE c.kind
                    WHEN 'approval.approved' THEN completes_approval(c.details)
                    WHEN 'policy.draft_put' THEN c.version IS NOT NULL
                    ELSE c.kind IN ('approval.denied', 'approval.reopened', 'approval.expired', 'approval.withdrawn', 'policy.created', 'policy.forced', 'policy.draft_approved',
                        'policy.draft_rejected', 'key.created', 'key.changed', 'key.expiring') OR c.kind LIKE 'freeze.%' OR c.kind LIKE 'grant.%' END)) AS n (type, occurred)
        WHERE c.position > '0' AND c.position >= coalesce(pending[1], low) AND c.position < high AND (c.position >= low OR c.xid = ANY (pending)) AND n.occurred
    UNION ALL
    SELECT u.position, u.xid, 2, u.approval_id, 'approval.used', a.policy_id, a.agent_id
        FROM approval_uses AS u JOIN approvals AS a ON a.id = u.approval_id
        WHERE u.position > '0' AND u.position >= coalesce(pending[1], low) AND u.position < high AND (u.position >= low OR u.xid = ANY (pending))
    UNION ALL
    SELECT b.xid, b.xid, 3, b.id, CASE WHEN b.percent = 100 THEN 'budget.exhausted' ELSE 'budget.threshold' END, b.policy_id, b.agent_id
        FROM budget_exhaustions AS b WHERE b.xid > '0' AND (b.xid >= low AND b.xid < high OR b.xid = ANY (pending))
    UNION ALL
    SELECT v.xid, v.xid, 4, v.id, 'violation.recorded', v.policy_id, v.agent_id
        FROM violations AS v WHERE v.xid > '0' AND (v.xid >= low AND v.xid < high OR v.xid = ANY (pending))
    UNION ALL
    SELECT a.xid, a.xid, 5, a.id, 'approval.requested', a.policy_id, a.agent_id
        FROM approvals AS a WHERE a.xid > '0' AND (a.xid >= low AND a.xid < high OR a.xid = ANY (pending))
    UNION ALL
    SELECT o.xid, o.xid, n.rank, o.outcome_id, n.type, k.policy_id, k.agent_id
        FROM outcomes AS o, LATERAL find_action(o.check_id) AS k, LATERAL (VALUES
            (6, 'outcome.reported', o.number > 0), (7, 'outcome.release_pending', o.release = 'p'), (8, 'outcome.exceeded', o.excess IN ('e', 'p')),
            (9, 'check.redeemed', o.status = 'r'), (10, 'check.in_doubt', o.status = 'd'), (11, 'check.taken_over', o.status = 't'),
            (12, 'payment.paid_twice', o.payment LIKE '%"flags":[%"paid_twice"%')) AS n (rank, type, occurred)
        WHERE o.xid > '0' AND (o.xid >= low AND o.xid < high OR o.xid = ANY (pending)) AND n.occurred
$$;

-- The positions of what is at low or above: the smallest, up to most.
CREATE FUNCTION event_positions(low xid8, most integer) RETURNS SETOF xid8
LANGUAGE sql STABLE
AS $$
    SELECT p.at FROM (
        (SELECT position FROM changes WHERE position > '0' AND position >= low ORDER BY position LIMIT most)
        UNION ALL (SELECT position FROM approval_uses WHERE position > '0' AND position >= low ORDER BY position LIMIT most)
        UNION ALL (SELECT xid FROM budget_exhaustions WHERE xid > '0' AND xid >= low ORDER BY xid LIMIT most)
        UNION ALL (SELECT xid FROM violations WHERE xid > '0' AND xid >= low ORDER BY xid LIMIT most)
        UNION ALL (SELECT xid FROM approvals WHERE xid > '0' AND xid >= low ORDER BY xid LIMIT most)
        UNION ALL (SELECT xid FROM outcomes WHERE xid > '0' AND xid >= low ORDER BY xid LIMIT most)
    ) AS p (at) ORDER BY p.at LIMIT most
$$;

-- Whether anything that is visible has no number.
CREATE FUNCTION events_wait() RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT EXISTS (SELECT FROM event_state AS s, LATERAL event_positions(s.below, 1))
        OR EXISTS (SELECT FROM event_state AS s, LATERAL event_sources(s.below, s.below, s.pending) WHERE s.pending <> '{}')
$$;

-- Numbers up to about most of what was committed before the call. Returns whether
-- all of that has numbers now. It waits for a session that is at it, since what that
-- one numbers is to be in reach of the caller, too.
--
-- What counts is one snapshot, taken under the lock: what only later ones show was
-- written by transactions that it shows as running. It is little, whatever the statistics say.
CREATE FUNCTION sequence_events(most integer) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    lost_at_most constant bigint := 1000000; -- numbers, by a failover to a standby that was behind
    state    event_state;
    seen     pg_snapshot;
    first    xid8;
    next     xid8;
    here     text;
    added    bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'events are numbered in READ COMMITTED, not %', current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    IF NOT events_wait() THEN
        RETURN true; -- nothing is locked, and nothing written, while nothing happens
    END IF;
    PERFORM pg_advisory_xact_lock('event_state'::regclass::oid::integer, 0);
    IF NOT events_wait() THEN
        RETURN true;
    END IF;
    -- Numbers that were read must not be given again after a failover.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT pg_current_snapshot() INTO seen;
    SELECT * INTO STRICT state FROM event_state;
    IF state.cluster <> (SELECT system_identifier FROM pg_control_system()) THEN
        RAISE EXCEPTION 'the events were written in another cluster: see recount_violations' USING ERRCODE = 'data_corrupted';
    END IF;
    SELECT p INTO first FROM event_positions(state.below, 1) AS p;
    SELECT p INTO next FROM event_positions(state.below, most + 1) AS p ORDER BY p OFFSET most LIMIT 1;
    IF next = first THEN -- a position is numbered whole
        next := NULL;
        SELECT p INTO next FROM event_positions((first::text::bigint + 1)::text::xid8, 1) AS p;
    END IF;
    IF next >= pg_snapshot_xmax(seen) THEN
        next := NULL;
    END IF;
    SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) INTO here;
    IF here <> state.timeline AND state.last > 0 THEN
        state.last := state.last + lost_at_most;
    END IF;
    INSERT INTO events (sequence, source, type, policy_id, agent_id)
        SELECT state.last + row_number() OVER (ORDER BY s.position, s.xid < s.position, s.rank, s.source, s.type <> 'approval.decided'), s.source, s.type, s.policy_id, s.agent_id
        FROM event_sources(state.below, coalesce(next, pg_snapshot_xmax(seen)), state.pending) AS s
        WHERE pg_visible_in_snapshot(s.xid, seen);
    GET DIAGNOSTICS added = ROW_COUNT;
    UPDATE event_state SET below = coalesce(next, pg_snapshot_xmax(seen)), last = state.last + added, timeline = here,
        pending = ARRAY(SELECT x FROM pg_snapshot_xip(seen) AS x WHERE x < coalesce(next, pg_snapshot_xmax(seen)) ORDER BY x);
    RETURN (next IS NULL);
END $$;

-- Numbers what has none in a database that was restored into another cluster, and
-- makes the numbers of transactions 0, which mean nothing there.
CREATE FUNCTION sequence_restored() RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    state event_state;
    name  text;
    added bigint;
BEGIN
    SELECT * INTO STRICT state FROM event_state;
    INSERT INTO events (sequence, source, type, policy_id, agent_id)
        SELECT state.last + row_number() OVER (ORDER BY s.position, s.xid < s.position, s.rank, s.source, s.type <> 'approval.decided'), s.source, s.type, s.policy_id, s.agent_id
        FROM event_sources(state.below, '18446744073709551615', state.pending) AS s;
    GET DIAGNOSTICS added = ROW_COUNT;
    FOREACH name IN ARRAY ARRAY['violations', 'approvals', 'outcomes', 'budget_exhaustions', 'batches', 'approval_uses', 'changes'] LOOP
        EXECUTE format('ALTER TABLE %I DROP COLUMN xid', name);
        EXECUTE format('ALTER TABLE %I ADD COLUMN xid xid8 NOT NULL DEFAULT %L', name, '0');
        EXECUTE format('ALTER TABLE %I ALTER COLUMN xid SET DEFAULT pg_current_xact_id()', name);
        IF name IN ('approval_uses', 'changes') THEN
            EXECUTE format('ALTER TABLE %I DROP COLUMN position', name);
            EXECUTE format('ALTER TABLE %I ADD COLUMN position xid8 NOT NULL DEFAULT %L', name, '0');
            EXECUTE format('ALTER TABLE %I ALTER COLUMN position SET DEFAULT greatest(pg_current_xact_id(), latest_ended())', name);
            EXECUTE format('CREATE INDEX %I ON %I (position) WHERE position > %L', name || '_position', name, '0');
        ELSE
            EXECUTE format('CREATE INDEX %I ON %I (xid) WHERE xid > %L', name || '_xid', name, '0');
        END IF;
    END LOOP;
    -- Of numbers that were read and are gone none is given again: see sequence_events.
    UPDATE event_state SET cluster = (SELECT system_identifier FROM pg_control_system()), timeline = 'restored', last = state.last + added,
        below = pg_snapshot_xmax(pg_current_snapshot()), pending = ARRAY(SELECT x FROM pg_snapshot_xip(pg_current_snapshot()) AS x ORDER BY x);
END $$;

-- The number up to which events were removed, 0 when none were: the newest change says it.
CREATE FUNCTION events_floor() RETURNS bigint
LANGUAGE sql STABLE
AS $$
    SELECT coalesce((SELECT (c.details::jsonb ->> 'up_to')::bigint FROM changes AS c
        WHERE c.subject = '/v1/events' AND c.kind = 'events.removed' ORDER BY c.seq DESC LIMIT 1), 0)
$$;

-- When what an event is of happened; null when that is not there.
CREATE FUNCTION event_at(source uuid, type text) RETURNS timestamptz
LANGUAGE sql STABLE
AS $$
    SELECT CASE
        WHEN source < '00000000-0000-0001-0000-000000000000' THEN -- the number of a change
            (SELECT c.at FROM changes AS c WHERE c.seq = ('x' || right(replace(source::text, '-', ''), 16))::bit(64)::bigint)
        WHEN type LIKE 'budget.%' THEN (SELECT b.at FROM budget_exhaustions AS b WHERE b.id = source)
        ELSE from_ms(('x' || left(replace((CASE WHEN type = 'approval.used' THEN (SELECT u.check_id FROM approval_uses AS u WHERE u.approval_id = source)
            ELSE source END)::text, '-', ''), 12))::bit(48)::bigint) END
$$;

-- Nothing but what was removed on record can be deleted.
CREATE FUNCTION refuse_change_of_event() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF TG_OP = 'DELETE' AND OLD.sequence <= events_floor() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'SG004';
END $$;

-- Records that the events of whole days are removed which ended more than keep_ms ago, by
-- the caller's clock and this server's: up to the first that is younger, about most numbers at once, and
-- none that an active webhook has before it, or is to be sent again. Returns whether there
-- may be more. From its commit on nobody reads them; delete_events deletes the rows. Both look for
-- some of many rows, by the index, whatever the statistics say.
CREATE FUNCTION remove_events(keep_ms bigint, now_ms bigint, most integer, who actor) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
AS $$
DECLARE
    floor   bigint := events_floor();
    before  timestamptz := date_trunc('day', least(from_ms(now_ms), clock_timestamp()) - keep_ms * interval '1 millisecond', 'UTC');
    bound   bigint;
    young   bigint;
    held    bigint;
    up_to   bigint;
    removed bigint;
BEGIN
    IF keep_ms < 30 * 86400000::bigint THEN
        RAISE EXCEPTION 'events are kept for 30 days at least' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- What gets a number from here on is not looked at, and so stays.
    SELECT least(e.sequence + most - 1, (SELECT max(n.sequence) FROM events AS n)) INTO bound
        FROM events AS e WHERE e.sequence > floor ORDER BY e.sequence LIMIT 1;
    SELECT e.sequence INTO young FROM events AS e WHERE e.sequence > floor AND e.sequence <= bound AND event_at(e.source, e.type) >= before
        ORDER BY e.sequence LIMIT 1;
    IF bound IS NULL OR young - 1 <= floor THEN
        RETURN false; -- nothing is locked while nothing is old
    END IF;
    -- Whoever makes a webhook active, or has an event sent to one again, waits for these.
    PERFORM FROM webhooks ORDER BY id FOR UPDATE;
    PERFORM FROM config FOR NO KEY UPDATE;
    SELECT least(min(s.cursor), (SELECT min(r.sequence) - 1 FROM webhook_retries AS r JOIN webhooks AS v ON v.id = r.webhook_id WHERE v.active))
        INTO held FROM webhook_states AS s JOIN webhooks AS w ON w.id = s.webhook_id WHERE w.active;
    SELECT e.sequence INTO up_to FROM events AS e WHERE e.sequence > floor AND e.sequence <= least(bound, young - 1, held)
        ORDER BY e.sequence DESC LIMIT 1;
    IF up_to IS NULL OR events_floor() <> floor THEN -- another node is at it
        RETURN false;
    END IF;
    -- That day never goes back, though nodes may be set to keep more, or have clocks of their own.
    before := greatest(before, (SELECT (c.details::jsonb ->> 'before')::timestamp AT TIME ZONE 'UTC' FROM changes AS c
        WHERE c.subject = '/v1/events' AND c.kind = 'events.removed' ORDER BY c.seq DESC LIMIT 1));
    SELECT count(*) INTO removed FROM events AS e WHERE e.sequence > floor AND e.sequence <= up_to;
    PERFORM record_change(raise_generation(), 'events.removed', '/v1/events', NULL, who,
        jsonb_build_object('up_to', up_to, 'removed', removed, 'before', to_char(before AT TIME ZONE 'UTC', 'YYYY-MM-DD')),
        decode(repeat('00', 32), 'hex'));
    RETURN young IS NULL;
END $$;

-- Deletes up to most events that were removed, but for those that another node is deleting, and returns how many.
CREATE FUNCTION delete_events(most integer) RETURNS integer
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
AS $$
DECLARE
    deleted integer;
BEGIN
    DELETE FROM events WHERE sequence = ANY (ARRAY(
        SELECT e.sequence FROM events AS e WHERE e.sequence <= events_floor() ORDER BY e.sequence LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;
