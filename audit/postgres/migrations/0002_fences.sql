-- Epochs and fences.

-- Names this deployment in Redis, which another one might share.
CREATE TABLE deployment (id uuid NOT NULL);
INSERT INTO deployment VALUES (gen_random_uuid());

CREATE TABLE epoch (
    id    uuid   NOT NULL,
    stops bigint NOT NULL DEFAULT 0 -- the last change that stops something (S87): commits that were judged before it are refused
);
INSERT INTO epoch VALUES (gen_random_uuid());

CREATE TABLE fenced_nodes (node uuid PRIMARY KEY, fenced_at timestamptz NOT NULL);

-- The nodes that run, and which Redis each uses: two Redis would make them take the epoch from each other.
-- It is no part of the record. A node renews its row while it runs.
CREATE TABLE nodes (
    process uuid        PRIMARY KEY,
    node    uuid        NOT NULL, -- the process's present incarnation
    host    text        NOT NULL, -- where it serves
    redis   text        NOT NULL, -- a random value that its Redis has
    started timestamptz NOT NULL,
    since   timestamptz NOT NULL, -- that it has used this Redis
    seen    timestamptz NOT NULL
);

-- Every commit holds two advisory locks, shared, to its end: of the epoch and
-- of its node. Whoever ends one of them takes that lock alone. A lock is named
-- by the table that it guards, so that schemas do not share any.
CREATE FUNCTION node_lock_key(node uuid) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT hashtext(node::text) $$;

-- Begins a commit, or refuses it. The locks come first, and the reading is a
-- statement of its own: only a snapshot taken under the locks shows a fence
-- that was committed while this waited. Hence READ COMMITTED, too: under a
-- stricter isolation a stale epoch would pass. The locks are taken in
-- assignments because PERFORM runs a query, which costs ten times as much.
CREATE FUNCTION begin_commit(node uuid, epoch uuid) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    held      boolean;
    current   uuid;
    is_fenced boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'commits must be READ COMMITTED, not %', current_setting('transaction_isolation')
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    held := pg_advisory_xact_lock_shared('epoch'::regclass::oid::integer, 0) IS NOT NULL;
    held := pg_advisory_xact_lock_shared('fenced_nodes'::regclass::oid::integer, node_lock_key(begin_commit.node)) IS NOT NULL;
    SELECT e.id, EXISTS (SELECT FROM fenced_nodes AS f WHERE f.node = begin_commit.node) INTO current, is_fenced FROM epoch AS e;
    IF current IS DISTINCT FROM begin_commit.epoch THEN
        RAISE EXCEPTION 'the epoch is over' USING ERRCODE = 'SG001';
    END IF;
    IF is_fenced THEN
        RAISE EXCEPTION 'the node is fenced' USING ERRCODE = 'SG002';
    END IF;
    -- A role or a database may have lowered it; an answered check must not depend on that (F17).
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

-- Makes next the epoch if seen still is. Returns the epoch now in force.
CREATE FUNCTION rotate_epoch(seen uuid, next uuid) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    current uuid;
BEGIN
    PERFORM pg_advisory_xact_lock('epoch'::regclass::oid::integer, 0);
    UPDATE epoch SET id = next WHERE id = seen;
    SELECT id INTO current FROM epoch;
    RETURN current;
END $$;

-- Always writes, also for a node that is fenced already: a commit that wrote
-- nothing would not wait for the standby, behind which the caller looks up.
CREATE FUNCTION fence_node(node uuid) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock('fenced_nodes'::regclass::oid::integer, node_lock_key(fence_node.node));
    INSERT INTO fenced_nodes AS f (node, fenced_at) VALUES (fence_node.node, clock_timestamp())
        ON CONFLICT ON CONSTRAINT fenced_nodes_pkey DO UPDATE SET fenced_at = excluded.fenced_at;
END $$;
