-- Redemptions: steps of outcomes, and what finds them. Payments.

-- The redeemed checks of which nothing was reported, so that those in doubt are found:
-- derived from outcomes.
CREATE TABLE redemptions_open (
    check_id    uuid        PRIMARY KEY,
    redeemed_at timestamptz NOT NULL, -- by this server's clock
    doubted_at  timestamptz           -- null until it is in doubt
);

CREATE INDEX redemptions_open_at ON redemptions_open (doubted_at, redeemed_at);

-- Checks from before a database was restored are not redeemed: they may have been, after
-- the backup. Set by `spendgate audit restored`.
CREATE TABLE redeemable (from_ms bigint NOT NULL);
INSERT INTO redeemable VALUES (0);

-- A redemption whose check the node has not read is compared with the check by the commit.
-- What a request says of a check that it redeems.
CREATE TYPE unread_row AS (
    check_id           uuid,
    policy_version     integer,
    action_type        "char",
    amount             numeric,
    currency           text,
    agent_id           text,
    policy_id          text,
    counterparty       text,
    payment_method     text,
    merchant_or_vendor text,
    metadata           text
);

-- Refuses a commit because of a check that is not what a request says of it. It returns a value
-- only so that a condition can call it.
CREATE FUNCTION refuse_unread(check_id uuid) RETURNS boolean
LANGUAGE plpgsql
AS $$ BEGIN
    RAISE EXCEPTION 'the check is not what the redemption says' USING ERRCODE = 'SG008', DETAIL = check_id;
END $$;

-- The allowed checks that only a redemption carries out (S84), so that those that nobody redeemed in time are found.
-- A row stays until lapses removes it, unless a step of a payment does: nothing else asks whether its check was redeemed.
CREATE TABLE allows_open (
    check_id  uuid        PRIMARY KEY,
    redeem_by timestamptz NOT NULL -- by this server's clock
);

CREATE INDEX allows_open_by ON allows_open (redeem_by);

-- What became of payments (S84): the fold of their checks and of the steps of these, derived from the record. Commits
-- compare and set the version.
CREATE TABLE payments (
    payment_hash bytea       PRIMARY KEY, -- of the namespace and the key
    version      bigint      NOT NULL,    -- counts what was recorded of it
    seen         bigint      NOT NULL,    -- the version on which the last commit was decided
    changed_at   timestamptz NOT NULL,
    first_check  uuid        NOT NULL,
    namespace    text        NOT NULL,
    payment_key  text        NOT NULL,
    state        text        NOT NULL     -- JSON
) WITH (fillfactor = 70);

-- The checks of payments behind the first ones: their own, and those that were redeemed under them. Derived from the record.
CREATE TABLE payment_checks (
    payment_hash bytea NOT NULL,
    check_id     uuid  NOT NULL,
    PRIMARY KEY (payment_hash, check_id)
);

-- Checks of archived days that payments still show.
CREATE TABLE kept_checks (LIKE checks, PRIMARY KEY (check_id));

-- A payment as a commit makes it, from the version that was seen; 0: it is not recorded yet.
CREATE TYPE payment_change AS (
    payment_hash bytea,
    version      bigint,
    seen         bigint,
    check_id     uuid,   -- the current one
    first_check  uuid,   -- which a payment that was removed and began anew has not
    namespace    text,
    payment_key  text,
    state        text
);

-- Changes payments, which are sorted, or raises SG020 with those that have another version than was seen. New ones come first, so
-- that two commits do not deadlock.
CREATE FUNCTION change_payments(recorded boolean, changes payment_change[], OUT done boolean)
LANGUAGE plpgsql
AS $$
DECLARE
    made    integer;
    changed integer;
    moved   text;
BEGIN
    INSERT INTO payments (payment_hash, version, seen, changed_at, first_check, namespace, payment_key, state)
        SELECT c.payment_hash, c.version, c.seen, clock_timestamp(), c.first_check, c.namespace, c.payment_key, c.state FROM unnest(changes) AS c
        WHERE c.seen = 0
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    IF (made < cardinality(changes)) IS NOT TRUE THEN
        RETURN;
    END IF;
    INSERT INTO payments AS p (payment_hash, version, seen, changed_at, first_check, namespace, payment_key, state)
        SELECT c.payment_hash, c.version, c.seen, clock_timestamp(), c.first_check, c.namespace, c.payment_key, c.state FROM unnest(changes) AS c
        WHERE CASE WHEN c.seen > 0 THEN EXISTS (SELECT FROM payments AS o WHERE o.payment_hash = c.payment_hash) ELSE false END
    ON CONFLICT (payment_hash) DO UPDATE
        SET version = excluded.version, seen = excluded.seen, changed_at = excluded.changed_at, state = excluded.state
        WHERE p.version = excluded.seen AND p.first_check = excluded.first_check;
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF made + changed < cardinality(changes) THEN
        SELECT string_agg(encode(c.payment_hash, 'hex'), ',') INTO moved FROM unnest(changes) AS c
            WHERE NOT EXISTS (SELECT FROM payments AS p WHERE p.payment_hash = c.payment_hash AND p.xmin = pg_current_xact_id()::xid);
        RAISE EXCEPTION 'payments were changed meanwhile' USING ERRCODE = 'SG020', DETAIL = moved;
    END IF;
END $$;

-- The payments that a check belongs to: the asker's, and that under which it was redeemed.
CREATE FUNCTION payments_of(id uuid, namespace text, payment text) RETURNS SETOF bytea
LANGUAGE sql STABLE
AS $$
    SELECT sha256(convert_to(E'spendgate payment 1\n', 'UTF8') || int4send(octet_length(n.name)) || convert_to(n.name || n.key, 'UTF8')) FROM (
        SELECT coalesce(namespace, '') AS name, payment::jsonb ->> 'key' AS key WHERE payment IS NOT NULL
        UNION SELECT p.one ->> 'namespace', p.one ->> 'key' FROM outcomes AS o, jsonb_array_elements(o.payment::jsonb -> 'of') AS p (one)
            WHERE o.check_id = id AND o.status = 'r') AS n
$$;

-- A kept check leaves with its payments.
CREATE FUNCTION refuse_change_of_kept() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF TG_OP = 'DELETE' AND NOT EXISTS (SELECT FROM payments_of(OLD.check_id, OLD.namespace, OLD.payment) AS hash
            JOIN payments AS p ON p.payment_hash = hash) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'SG004';
END $$;

-- Removes those of the payments in wanted that still have that version and that nothing changed since then, on record, and returns
-- how many. Commits wait meanwhile, and those that have read one are refused: beside them, one that changes a payment might
-- make it again (change_payments).
CREATE FUNCTION remove_payments(wanted jsonb, who actor) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '50ms'
AS $$
DECLARE
    before  timestamptz := from_ms((wanted ->> 'before_ms')::bigint);
    gone    bytea[];
    checks  uuid[];
    removed jsonb;
BEGIN
    IF before > clock_timestamp() - interval '35 days' THEN
        RAISE EXCEPTION 'payments are kept for 35 days at least' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock('checks'::regclass::oid::integer, 0); -- not beside close_day, which keeps the checks of payments
    PERFORM pg_advisory_xact_lock('epoch'::regclass::oid::integer, 0);
    WITH deleted AS (
        DELETE FROM payments AS p USING jsonb_each_text(wanted -> 'removed') AS w (hash, version)
            WHERE p.payment_hash = decode(w.hash, 'hex') AND p.version = w.version::bigint AND p.changed_at < before
                -- Executed by a report on one check, another may still be redeemed without an outcome.
                AND NOT EXISTS (SELECT FROM redemptions_open AS r WHERE r.check_id = p.first_check)
                AND NOT EXISTS (SELECT FROM payment_checks AS c JOIN redemptions_open AS r USING (check_id) WHERE c.payment_hash = p.payment_hash)
            RETURNING p.payment_hash, p.version, p.first_check
    )
    SELECT array_agg(d.payment_hash), array_agg(d.first_check), jsonb_object_agg(encode(d.payment_hash, 'hex'), d.version)
        INTO gone, checks, removed FROM deleted AS d;
    IF gone IS NULL THEN
        RETURN 0;
    END IF;
    WITH deleted AS (
        DELETE FROM payment_checks AS c WHERE c.payment_hash = ANY (gone) RETURNING c.check_id
    )
    SELECT checks || array_agg(d.check_id) INTO checks FROM deleted AS d;
    DELETE FROM kept_checks AS k WHERE k.check_id = ANY (checks) AND NOT EXISTS (
        SELECT FROM payments_of(k.check_id, k.namespace, k.payment) AS hash JOIN payments AS p ON p.payment_hash = hash);
    PERFORM record_change(raise_generation(), 'payments.removed', '/payments', NULL, who,
        jsonb_build_object('before_ms', wanted -> 'before_ms', 'removed', removed), decode(repeat('00', 32), 'hex'));
    RETURN cardinality(gone);
END $$;

-- Up to most allowed checks whose time is over and that nobody redeemed or reported, the oldest first, of up to
-- examined. Forgets the others of these. More says that there may be more. Of two nodes each gets others.
CREATE FUNCTION lapses(most integer, examined integer, OUT ids uuid[], OUT more boolean)
LANGUAGE sql
AS $$
    WITH due AS MATERIALIZED (
        SELECT a.check_id, a.redeem_by FROM allows_open AS a WHERE a.redeem_by < statement_timestamp()
            ORDER BY a.redeem_by LIMIT examined FOR UPDATE SKIP LOCKED
    ), told AS MATERIALIZED (
        SELECT d.*, EXISTS (SELECT FROM outcomes AS o WHERE o.check_id = d.check_id AND o.step = 1) AS over FROM due AS d
    ), forgotten AS (
        DELETE FROM allows_open AS a USING told AS t WHERE a.check_id = t.check_id AND t.over
    )
    SELECT (array_agg(t.check_id ORDER BY t.redeem_by) FILTER (WHERE NOT t.over))[:most], count(*) = examined FROM told AS t
$$;
