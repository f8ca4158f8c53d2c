-- Violations.

-- A violation has the identifier of its check. Column xid is the transaction
-- that wrote it; 0 if that was in another cluster (see recount_violations).
CREATE TABLE violations (
    id               uuid    PRIMARY KEY,
    policy_version   integer NOT NULL,
    latency_ms       integer NOT NULL,
    action_type      "char"  NOT NULL,
    decision         "char"  NOT NULL,
    confidence       "char"  NOT NULL,
    amount           numeric NOT NULL,
    currency         text    NOT NULL,
    agent_id         text    NOT NULL,
    policy_id        text    NOT NULL,
    counterparty     text    NOT NULL,
    rule_id          text    NOT NULL,
    rule_description text    NOT NULL,
    key_id           text    NOT NULL,
    principal        text,
    owner            text,
    xid              xid8    NOT NULL DEFAULT pg_current_xact_id()
);

-- They begin with what filters compare, so that each combination reads what it
-- returns and little else. That of transactions is for what is too new for the
-- counts.
CREATE INDEX violations_kind ON violations (action_type, decision, id);
CREATE INDEX violations_agent_kind ON violations (agent_id, action_type, decision, id);
CREATE INDEX violations_xid ON violations (xid) WHERE xid > '0';

-- The months whose violations were archived, oldest first, with how many of each
-- kind there were. What is older than the end of the latest is neither listed nor
-- counted from then on, and its rows may be deleted; nothing comes into it any more.
CREATE TABLE archived_violations (
    month                date        PRIMARY KEY, -- its first day, UTC
    rows                 bigint      NOT NULL,
    manifest_sha256      bytea       NOT NULL,
    refund_blocks        bigint      NOT NULL,
    refund_escalations   bigint      NOT NULL,
    credit_blocks        bigint      NOT NULL,
    credit_escalations   bigint      NOT NULL,
    discount_blocks      bigint      NOT NULL,
    discount_escalations bigint      NOT NULL,
    spend_blocks         bigint      NOT NULL,
    spend_escalations    bigint      NOT NULL,
    archived_at          timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The smallest identifier of a month, and of the month after it.
CREATE FUNCTION month_ids(month date, OUT low uuid, OUT high uuid)
LANGUAGE sql IMMUTABLE
AS $$
    SELECT first_id((extract(epoch FROM month::timestamp) * 1000)::bigint),
        first_id((extract(epoch FROM month::timestamp + interval '1 month') * 1000)::bigint)
$$;

-- The smallest identifier that a violation may have which is not archived.
CREATE FUNCTION violations_from() RETURNS uuid
LANGUAGE sql STABLE
AS $$
    SELECT coalesce((SELECT (month_ids(max(month))).high FROM archived_violations), '00000000000000000000000000000000')
$$;

-- Nothing but what is archived can be deleted.
CREATE FUNCTION refuse_change_of_violation() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM archived_violations WHERE month >= date_trunc('month', day_of(OLD.id)::timestamp)) THEN
        RETURN OLD; -- what is older than violations_from()
    END IF;
    RAISE EXCEPTION '% is immutable', TG_TABLE_NAME USING ERRCODE = 'SG004';
END $$;

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON violations
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_violation();
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON violations
    EXECUTE FUNCTION refuse_change();

-- Notes that the violations of a month are archived. All checks of that time, and
-- before it, must have been detached, and all older violations archived. It keeps
-- new ones away meanwhile: their checks would be in the default partition, or in a
-- partition that is made now. Roll-ups that began before it fail.
CREATE FUNCTION detach_violations(month date, rows bigint, manifest_sha256 bytea) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    ids  record := month_ids(month);
    kept archived_violations;
BEGIN
    IF month <> date_trunc('month', month::timestamp)::date THEN
        RAISE EXCEPTION '% is not the first day of a month', month USING ERRCODE = 'SG005';
    END IF;
    IF (month + interval '1 month')::date > detachable_before() THEN
        RAISE EXCEPTION 'checks of % are still needed', to_char(month, 'YYYY-MM') USING ERRCODE = 'SG005';
    END IF;
    PERFORM pg_advisory_xact_lock('checks'::regclass::oid::integer, 0);
    LOCK TABLE checks_default IN SHARE MODE;
    PERFORM pg_advisory_xact_lock('violation_count_state'::regclass::oid::integer, 0);
    IF EXISTS (SELECT FROM checks_default WHERE check_id < ids.high) OR EXISTS (
            SELECT FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
            WHERE inhparent = 'checks'::regclass AND relname < 'checks_' || to_char(month + interval '1 month', 'YYYYMMDD')) THEN
        RAISE EXCEPTION 'days before the end of % are not detached', to_char(month, 'YYYY-MM') USING ERRCODE = 'SG005';
    END IF;
    IF EXISTS (SELECT FROM violations AS v WHERE v.id >= violations_from() AND v.id < ids.low) THEN
        RAISE EXCEPTION 'there are violations from before %', month USING ERRCODE = 'SG005';
    END IF;
    IF EXISTS (SELECT FROM violations AS v, event_state AS s
            WHERE v.xid > '0' AND (v.xid >= s.below OR v.xid = ANY (s.pending)) AND v.id < ids.high) THEN
        RAISE EXCEPTION 'violations of % have no events yet', to_char(month, 'YYYY-MM') USING ERRCODE = 'SG005';
    END IF;
    SELECT detach_violations.month, count(*), detach_violations.manifest_sha256,
            count(*) FILTER (WHERE v.action_type = 'r' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'r' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 'c' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'c' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 'd' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 'd' AND v.decision = 'e'),
            count(*) FILTER (WHERE v.action_type = 's' AND v.decision = 'b'), count(*) FILTER (WHERE v.action_type = 's' AND v.decision = 'e'),
            clock_timestamp()
        INTO STRICT kept FROM violations AS v WHERE v.id >= ids.low AND v.id < ids.high;
    IF kept.rows <> detach_violations.rows THEN
        RAISE EXCEPTION '% has % violations, and the archive %', to_char(month, 'YYYY-MM'), kept.rows, detach_violations.rows USING ERRCODE = 'SG005';
    END IF;
    INSERT INTO archived_violations VALUES (kept.*);
    UPDATE violation_count_state SET below = below;
END $$;

-- Deletes up to most rows of an archived month, the first with identifiers above
-- after, and returns the last; null when there are none. Who goes on from there does
-- not read again what was deleted. Some of many rows, by the index, whatever the statistics say.
CREATE FUNCTION delete_violations(month date, after uuid, most integer) RETURNS uuid
LANGUAGE plpgsql SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    ids  record := month_ids(month);
    last uuid;
BEGIN
    IF NOT EXISTS (SELECT FROM archived_violations AS a WHERE a.month = delete_violations.month) THEN
        RAISE EXCEPTION 'the violations of % are not archived', to_char(month, 'YYYY-MM') USING ERRCODE = 'SG005';
    END IF;
    IF EXISTS (SELECT FROM violation_counts WHERE start_id < violations_from()) THEN
        RAISE EXCEPTION 'violations of % are still counted', to_char(month, 'YYYY-MM') USING ERRCODE = 'SG005';
    END IF;
    WITH deleted AS (
        DELETE FROM violations WHERE id = ANY (ARRAY(
            SELECT v.id FROM violations AS v WHERE v.id > after AND v.id >= ids.low AND v.id < ids.high ORDER BY v.id LIMIT most))
        RETURNING id)
    SELECT d.id INTO last FROM deleted AS d ORDER BY d.id DESC LIMIT 1;
    RETURN last;
END $$;
