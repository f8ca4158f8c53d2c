-- Events that leave (S51).

-- The number up to which events were removed, 0 when none were: the newest change says it.
CREATE FUNCTION events_floor() RETURNS bigint
LANGUAGE sql STABLE
AS $$
    SELECT coalesce((SELECT (c.details::jsonb ->> 'up_to')::bigint FROM changes AS c
        WHERE c.subject = '/v1/events' AND c.kind = 'events.removed' ORDER BY c.seq DESC LIMIT 1), 0)
$$;

-- When what an event is of happened; null when that is not there.
CREATE FUNCTION event_at(source uuid, type "char") RETURNS timestamptz
LANGUAGE sql STABLE
AS $$
    SELECT CASE
        WHEN type IN ('i', 'a', 'd', 'e', 'c', 'f', 'g', 'k') THEN
            (SELECT c.at FROM changes AS c WHERE c.seq = ('x' || right(replace(source::text, '-', ''), 16))::bit(64)::bigint)
        WHEN type = 'b' THEN (SELECT b.at FROM budget_exhaustions AS b WHERE b.id = source)
        ELSE from_ms(('x' || left(replace((CASE WHEN type = 'u' THEN (SELECT u.check_id FROM approval_uses AS u WHERE u.approval_id = source)
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

DROP TRIGGER immutable ON events;
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION refuse_change_of_event();

-- Records that the events of whole days are removed which ended more than keep_ms ago, by
-- the caller's clock and this server's: up to the first that is younger, about most numbers at once, and
-- none that an active webhook has before it, or is to be sent again. Returns whether there
-- may be more. From its commit on nobody reads them; delete_events deletes the rows.
CREATE FUNCTION remove_events(keep_ms bigint, now_ms bigint, most integer, who actor) RETURNS boolean
LANGUAGE plpgsql
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
LANGUAGE plpgsql
AS $$
DECLARE
    deleted integer;
BEGIN
    DELETE FROM events WHERE sequence = ANY (ARRAY(
        SELECT e.sequence FROM events AS e WHERE e.sequence <= events_floor() ORDER BY e.sequence LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;

-- Some of many rows, by the index, whatever the statistics say.
DO $$
DECLARE
    fixed text;
BEGIN
    FOREACH fixed IN ARRAY ARRAY['remove_events(bigint, bigint, integer, actor)', 'delete_events(integer)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp SET plan_cache_mode = force_custom_plan SET enable_seqscan = off',
            fixed, current_schema());
    END LOOP;
END $$;

REVOKE EXECUTE ON FUNCTION remove_events(bigint, bigint, integer, actor), delete_events(integer) FROM PUBLIC;
