-- Batches that leave with the days that they list (G8).

-- Which batches left, chain by chain from its first on, each time the next ones: they are in the
-- archive of that day, the last of which they list anything. The signature is of the key of
-- checkpoints: docs/audit/format.md. The last batch of a chain stays.
CREATE TABLE folded_chains (
    chain_id        uuid        NOT NULL,
    from_seq        bigint      NOT NULL,
    to_seq          bigint      NOT NULL,
    previous        bytea       NOT NULL, -- the head before them, zeros when there is none
    head            bytea       NOT NULL, -- of the last of them
    entries         bigint      NOT NULL,
    day             date        NOT NULL, -- UTC
    manifest_sha256 bytea       NOT NULL,
    signature       bytea       NOT NULL,
    folded_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, to_seq)
);

-- How many checks those batches have, as check_counts has those of all.
CREATE TABLE folded_check_counts (
    policy_id   text   NOT NULL,
    minute      bigint NOT NULL,
    allows      bigint NOT NULL,
    escalations bigint NOT NULL,
    blocks      bigint NOT NULL,
    PRIMARY KEY (policy_id, minute)
) WITH (fillfactor = 70);

-- Nothing but what was folded can be deleted.
CREATE FUNCTION refuse_change_of_batch() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF TG_OP = 'DELETE' AND (SELECT f.from_seq <= OLD.seq FROM folded_chains AS f
            WHERE f.chain_id = OLD.chain_id AND f.to_seq >= OLD.seq ORDER BY f.to_seq LIMIT 1) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'SG004';
END $$;

-- Nothing changes but that the texts of an outcome leave with the batch that lists it, without the reference that
-- a payment shows: a fold of its chain is of this transaction.
CREATE FUNCTION refuse_change_of_outcome() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    emptied outcomes := OLD;
BEGIN
    IF TG_OP = 'UPDATE' AND EXISTS (SELECT FROM folded_chains AS f WHERE f.chain_id = OLD.node AND f.day >= day_of(OLD.outcome_id)
            AND f.xmin = pg_current_xact_id()::xid) THEN
        emptied.reference := CASE WHEN OLD.payment IS NOT NULL THEN OLD.reference END;
        emptied.note := NULL;
        IF NEW IS NOT DISTINCT FROM emptied THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'SG004';
END $$;

-- The batches of each chain that can be folded up to the end of a day: the next ones, up to the
-- first that lists something later, but for the chain's last. Some of many rows, by the index, whatever the statistics say.
CREATE FUNCTION foldable_batches(day date, OUT chain_id uuid, OUT from_seq bigint, OUT to_seq bigint, OUT low uuid) RETURNS SETOF record
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan SET enable_bitmapscan = off SET enable_seqscan = off
AS $$
DECLARE
    next_id uuid := first_id((extract(epoch FROM day::timestamp + interval '1 day') * 1000)::bigint);
    final   bigint;
BEGIN
    SELECT b.chain_id INTO chain_id FROM batches AS b ORDER BY b.chain_id LIMIT 1;
    WHILE chain_id IS NOT NULL LOOP
        from_seq := 1 + coalesce((SELECT max(f.to_seq) FROM folded_chains AS f WHERE f.chain_id = foldable_batches.chain_id), 0);
        SELECT b.seq - 1 INTO final FROM batches AS b WHERE b.chain_id = foldable_batches.chain_id ORDER BY b.seq DESC LIMIT 1;
        to_seq := least(final, (SELECT b.seq - 1 FROM batches AS b
            WHERE b.chain_id = foldable_batches.chain_id AND b.seq >= from_seq AND b.last_id >= next_id ORDER BY b.seq LIMIT 1));
        IF to_seq >= from_seq THEN
            SELECT min(b.first_id::text)::uuid INTO low FROM batches AS b
                WHERE b.chain_id = foldable_batches.chain_id AND b.seq BETWEEN from_seq AND to_seq;
            RETURN NEXT;
        END IF;
        SELECT min(b.chain_id::text)::uuid INTO chain_id FROM (
            SELECT n.chain_id FROM batches AS n WHERE n.chain_id > foldable_batches.chain_id ORDER BY n.chain_id LIMIT 1) AS b;
    END LOOP;
END $$;

-- Notes that batches are in the archive of a day, and deletes them with the texts of the outcomes
-- that they list. All that they list must have left, and be counted.
CREATE FUNCTION fold_chains(day date, manifest_sha256 bytea, folds folded_chains[]) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    next_id uuid := first_id((extract(epoch FROM day::timestamp + interval '1 day') * 1000)::bigint);
    fold    folded_chains;
    state   check_count_state;
    before  folded_chains;
    found   record;
    deleted bigint;
    total   bigint := 0;
BEGIN
    PERFORM pg_advisory_xact_lock('folded_chains'::regclass::oid::integer, 0);
    PERFORM pg_advisory_xact_lock('checks'::regclass::oid::integer, 0); -- no partition of such a day is made meanwhile
    PERFORM pg_advisory_xact_lock('check_count_state'::regclass::oid::integer, 0);
    SELECT * INTO STRICT state FROM check_count_state;
    IF NOT EXISTS (SELECT FROM archived_days AS a WHERE a.day = fold_chains.day) OR EXISTS (
            SELECT FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
            WHERE inhparent = 'checks'::regclass AND relname <= 'checks_' || to_char(fold_chains.day, 'YYYYMMDD') AND relname ~ '^checks_[0-9]{8}$')
            OR EXISTS (SELECT FROM checks_default WHERE check_id < next_id) THEN
        RAISE EXCEPTION 'checks of % or before are still here', day USING ERRCODE = 'SG005';
    END IF;
    FOREACH fold IN ARRAY folds LOOP
        SELECT * INTO before FROM folded_chains AS f WHERE f.chain_id = fold.chain_id ORDER BY f.to_seq DESC LIMIT 1;
        SELECT count(*) AS rows, sum(octet_length(b.entries)) / 48 AS entries, max(b.last_id::text)::uuid AS last,
                bool_or(b.xid >= state.below OR b.xid = ANY (state.pending)) FILTER (WHERE b.xid > '0') AS uncounted,
                (array_agg(b.head) FILTER (WHERE b.seq = fold.to_seq))[1] AS head
            INTO found FROM batches AS b WHERE b.chain_id = fold.chain_id AND b.seq BETWEEN fold.from_seq AND fold.to_seq;
        IF fold.from_seq <> coalesce(before.to_seq, 0) + 1 OR fold.previous <> coalesce(before.head, decode(repeat('00', 32), 'hex'))
                OR found.rows <> fold.to_seq - fold.from_seq + 1 OR found.entries <> fold.entries OR found.head <> fold.head OR found.last >= next_id
                OR NOT EXISTS (SELECT FROM batches AS b WHERE b.chain_id = fold.chain_id AND b.seq = fold.to_seq + 1) THEN
            RAISE EXCEPTION 'batches % to % of chain % are not those that are here', fold.from_seq, fold.to_seq, fold.chain_id USING ERRCODE = 'SG005';
        END IF;
        IF found.uncounted OR state.cluster <> (SELECT system_identifier FROM pg_control_system()) THEN
            RAISE EXCEPTION 'batches % to % of chain % are not counted yet', fold.from_seq, fold.to_seq, fold.chain_id USING ERRCODE = 'SG005';
        END IF;
        INSERT INTO folded_chains (chain_id, from_seq, to_seq, previous, head, entries, day, manifest_sha256, signature)
            VALUES (fold.chain_id, fold.from_seq, fold.to_seq, fold.previous, fold.head, fold.entries, fold_chains.day, fold_chains.manifest_sha256, fold.signature);
        INSERT INTO folded_check_counts AS k (policy_id, minute, allows, escalations, blocks)
            SELECT p.policy_id, c.minute, sum(c.allows), sum(c.escalations), sum(c.blocks)
            FROM batches AS b, unnest(b.counts) AS c, LATERAL (VALUES (c.policy_id), ('')) AS p (policy_id)
            WHERE b.chain_id = fold.chain_id AND b.seq BETWEEN fold.from_seq AND fold.to_seq
            GROUP BY p.policy_id, c.minute ORDER BY p.policy_id, c.minute
        ON CONFLICT (policy_id, minute) DO UPDATE
            SET allows = k.allows + excluded.allows, escalations = k.escalations + excluded.escalations, blocks = k.blocks + excluded.blocks;
        IF EXISTS (SELECT FROM listed_outcomes(fold.chain_id, fold.from_seq, fold.to_seq) AS l
                JOIN outcomes AS o ON o.outcome_id = l.outcome_id
                WHERE o.check_id >= next_id AND (NOT EXISTS (SELECT FROM archived_days AS a WHERE a.day = day_of(o.check_id))
                    OR EXISTS (SELECT FROM checks AS c WHERE c.check_id = o.check_id))) THEN
            RAISE EXCEPTION 'chain % has outcomes of checks that are still here', fold.chain_id USING ERRCODE = 'SG005';
        END IF;
        UPDATE outcomes AS o SET reference = CASE WHEN o.payment IS NOT NULL THEN o.reference END, note = NULL
            FROM listed_outcomes(fold.chain_id, fold.from_seq, fold.to_seq) AS l
            WHERE o.outcome_id = l.outcome_id AND (o.reference IS NOT NULL AND o.payment IS NULL OR o.note IS NOT NULL);
        DELETE FROM batches AS b WHERE b.chain_id = fold.chain_id AND b.seq BETWEEN fold.from_seq AND fold.to_seq;
        GET DIAGNOSTICS deleted = ROW_COUNT;
        total := total + deleted;
    END LOOP;
    RETURN total;
END $$;

-- The outcomes that batches list: identifiers of version 8.
CREATE FUNCTION listed_outcomes(chain uuid, from_seq bigint, to_seq bigint) RETURNS TABLE (seq bigint, outcome_id uuid)
LANGUAGE sql STABLE
AS $$
    SELECT b.seq, encode(substring(b.entries FROM at FOR 16), 'hex')::uuid
    FROM batches AS b, generate_series(1, octet_length(b.entries) - 15, 48) AS at
    WHERE b.chain_id = chain AND b.seq BETWEEN listed_outcomes.from_seq AND listed_outcomes.to_seq AND get_byte(b.entries, at + 5) >> 4 = 8
$$;
