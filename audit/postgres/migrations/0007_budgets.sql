-- Budgets.

-- What was taken from the counters of budgets (G12): derived from the charges of
-- checks, changed in their own commits, and recomputed by audit verify. One row
-- per window, or per bucket of a rolling window. Commits that take from a rolling
-- window take turns by a row of start_ms -1, which counts nothing.
CREATE TABLE budget_counters (
    counter_id uuid    NOT NULL, -- of the policy, rule, since and subject
    start_ms   bigint  NOT NULL, -- of a bucket Unix milliseconds, of a calendar window its local date; 0 of a lifetime
    bucket_ms  bigint  NOT NULL, -- length of a rolling window's bucket, else 0
    end_ms     bigint,           -- not needed any more; null of a lifetime
    count      bigint  NOT NULL DEFAULT 0,
    since      integer NOT NULL, -- version of the policy
    noticed    integer[] NOT NULL DEFAULT '{}', -- the percentages of notify_at that are on record; of a rolling window those still reached, in the row of start_ms -1
    used       numeric NOT NULL DEFAULT 0,
    policy_id  text    NOT NULL,
    rule_id    text    NOT NULL,
    subject    text    NOT NULL COLLATE "C", -- JSON array of the values of per
    agent_id   text,                         -- null unless the budget is per agent
    PRIMARY KEY (counter_id, start_ms)
) WITH (fillfactor = 70);

-- For listings. A subject may be longer than an index can hold.
CREATE INDEX budget_counters_listed ON budget_counters (policy_id, rule_id, since, start_ms, left(subject, 64));
CREATE INDEX budget_counters_end ON budget_counters (end_ms);

-- Which counters reached a percentage of their limit (S90), or 100: had no room left, or refused a check. Once in each window (S51), and again after a
-- grant; a rolling one reaches a percentage again after its usage fell below.
CREATE TABLE budget_exhaustions (
    counter_id   uuid        NOT NULL,
    start_ms     bigint      NOT NULL,
    bucket_ms    bigint      NOT NULL,
    id           uuid        NOT NULL DEFAULT gen_random_uuid(),
    at           timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
    count        bigint      NOT NULL, -- what had been taken
    max_count    bigint,
    since        integer     NOT NULL,
    percent      integer     NOT NULL,
    nth          bigint      NOT NULL, -- how often a rolling window had reached it in this bucket; of 100 the last change of the counter's open grants (S91)
    used         numeric     NOT NULL,
    max_used     numeric,
    policy_id    text        NOT NULL,
    rule_id      text        NOT NULL,
    subject      text        NOT NULL,
    agent_id     text,                 -- null unless the budget is per agent
    xid          xid8        NOT NULL DEFAULT pg_current_xact_id(), -- see event_state
    PRIMARY KEY (counter_id, start_ms, percent, nth)
);

CREATE UNIQUE INDEX budget_exhaustions_id ON budget_exhaustions (id);
CREATE INDEX budget_exhaustions_xid ON budget_exhaustions (xid) WHERE xid > '0';

-- Whose checks a counter met (S30), in whatever window, as long as it has a row.
CREATE TABLE budget_principals (
    counter_id uuid NOT NULL,
    principal  text NOT NULL,
    PRIMARY KEY (counter_id, principal)
);

-- Removes those of a counter whose last row was deleted. A commit that gives it a row
-- again has them locked, and they stay, or waits and inserts them (F86). That it gave
-- one while this came to the lock shows only in a statement that begins with the lock
-- held. One transaction at a time: of two that delete a row each, both would see the
-- other's.
CREATE FUNCTION remove_principals() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    locked text[];
BEGIN
    PERFORM pg_advisory_xact_lock('budget_principals'::regclass::oid::integer, 0);
    IF NOT EXISTS (SELECT FROM budget_counters AS b WHERE b.counter_id = OLD.counter_id) THEN
        SELECT array_agg(l.principal) INTO locked FROM (
            SELECT p.principal FROM budget_principals AS p WHERE p.counter_id = OLD.counter_id FOR UPDATE SKIP LOCKED) AS l;
        DELETE FROM budget_principals AS p WHERE p.counter_id = OLD.counter_id AND p.principal = ANY (locked)
            AND NOT EXISTS (SELECT FROM budget_counters AS b WHERE b.counter_id = OLD.counter_id);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER principals AFTER DELETE ON budget_counters
    FOR EACH ROW EXECUTE FUNCTION remove_principals();

-- A counter that may have no row, and whose check it meets.
CREATE TYPE counter_row AS (
    counter_id uuid,
    start_ms   bigint,
    bucket_ms  bigint,
    end_ms     bigint,
    since      integer,
    policy_id  text,
    rule_id    text,
    subject    text,
    agent_id   text,
    principal  text -- null if there is none to record
);

-- What a commit takes from one counter of a budget. What was taken before must be
-- at most most_used and most_count, where these are not null; max_used and
-- max_count are the budget's limits with its grants, null where it has none; notify_at its percentages, as 50,80, or null; raised is
-- the last change of its open grants, else 0.
CREATE TYPE counter_change AS (
    counter_id uuid,
    start_ms   bigint,
    bucket_ms  bigint,
    count      bigint,
    used       numeric,
    most_count bigint,
    most_used  numeric,
    max_count  bigint,
    max_used   numeric,
    notify_at  text,
    raised     bigint
);

CREATE TYPE counter_correction AS (
    counter_id uuid,
    start_ms   bigint,
    bucket_ms  bigint,
    count      bigint,
    used       numeric
);

-- Makes counters that have no row, unused, and records whose checks they meet.
-- First it waits for the other commits that take from the same rolling windows:
-- each has a row of its own to lock. Sorted, so that two commits do not deadlock.
-- Principals that are there are locked (see remove_principals).
CREATE FUNCTION insert_counters(counters counter_row[]) RETURNS void
LANGUAGE plpgsql -- which keeps plans, unlike sql
AS $$ BEGIN
    INSERT INTO budget_counters AS b (counter_id, start_ms, bucket_ms, end_ms, since, policy_id, rule_id, subject, agent_id)
        SELECT c.counter_id, -1, c.bucket_ms, max(c.end_ms), c.since, c.policy_id, c.rule_id, c.subject, c.agent_id
        FROM unnest(counters) AS c WHERE c.bucket_ms > 0
        GROUP BY c.counter_id, c.bucket_ms, c.since, c.policy_id, c.rule_id, c.subject, c.agent_id ORDER BY c.counter_id
    ON CONFLICT (counter_id, start_ms) DO UPDATE SET end_ms = greatest(b.end_ms, excluded.end_ms);

    INSERT INTO budget_counters (counter_id, start_ms, bucket_ms, end_ms, since, policy_id, rule_id, subject, agent_id)
        SELECT c.counter_id, c.start_ms, c.bucket_ms, c.end_ms, c.since, c.policy_id, c.rule_id, c.subject, c.agent_id
        FROM unnest(counters) AS c ORDER BY c.counter_id, c.start_ms
    ON CONFLICT (counter_id, start_ms) DO NOTHING;

    INSERT INTO budget_principals (counter_id, principal)
        SELECT DISTINCT c.counter_id, c.principal FROM unnest(counters) AS c WHERE c.principal IS NOT NULL ORDER BY 1, 2
    ON CONFLICT (counter_id, principal) DO UPDATE SET principal = excluded.principal WHERE false;
END $$;

-- Records that counters are exhausted, unless that is recorded for their window: for
-- a rolling one, in any of the buckets that count (S51).
CREATE FUNCTION insert_exhaustions(changes counter_change[]) RETURNS void
LANGUAGE sql
AS $$
    INSERT INTO budget_exhaustions (counter_id, start_ms, bucket_ms, percent, nth, count, max_count, since, used, max_used, policy_id, rule_id, subject, agent_id)
        SELECT DISTINCT ON (c.counter_id, c.raised, CASE WHEN c.bucket_ms = 0 THEN c.start_ms END)
            c.counter_id, c.start_ms, c.bucket_ms, 100, c.raised, u.count, c.max_count, own.since, u.used, c.max_used, own.policy_id, own.rule_id, own.subject, own.agent_id
        FROM unnest(changes) AS c JOIN budget_counters AS own USING (counter_id, start_ms), LATERAL (
            SELECT coalesce(sum(b.used), 0) AS used, coalesce(sum(b.count), 0)::bigint AS count FROM budget_counters AS b
            WHERE b.counter_id = c.counter_id AND b.start_ms >= greatest(c.start_ms - 60 * c.bucket_ms, 0) AND (c.bucket_ms > 0 OR b.start_ms = c.start_ms)) AS u
        WHERE NOT EXISTS (SELECT FROM budget_exhaustions AS e
            WHERE e.counter_id = c.counter_id AND e.percent = 100 AND e.nth = c.raised AND e.start_ms >= c.start_ms - 60 * c.bucket_ms AND (c.bucket_ms > 0 OR e.start_ms = c.start_ms))
        ORDER BY c.counter_id, c.raised, CASE WHEN c.bucket_ms = 0 THEN c.start_ms END, c.start_ms
    ON CONFLICT (counter_id, start_ms, percent, nth) DO NOTHING
$$;

-- Those of some percentages that a usage reaches, by its amount or its number.
CREATE FUNCTION reached(percentages integer[], used numeric, count bigint, max_used numeric, max_count bigint) RETURNS integer[]
LANGUAGE sql IMMUTABLE
AS $$
    SELECT coalesce(array_agg(n), '{}') FROM unnest(percentages) AS n
        WHERE max_used > 0 AND used * 100 >= max_used * n OR max_count > 0 AND count * 100 >= max_count * n
$$;

-- Records which percentages counters reach that were taken from, once for each window. The caller has the rows locked, of a rolling window its turn, and
-- has changed them. What a rolling window was below before counts again.
CREATE FUNCTION notice_percentages(changes counter_change[], corrections counter_correction[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    change record;
    usage  record;
    own    budget_counters;
    notify integer[];
    told   integer[];
BEGIN
    FOR change IN SELECT DISTINCT ON (c.counter_id, CASE WHEN c.bucket_ms = 0 THEN c.start_ms END) c.*, d.used AS all_used, d.count AS all_count
        FROM unnest(changes) AS c, LATERAL (SELECT sum(d.used) AS used, sum(d.count)::bigint AS count FROM (
            SELECT a.used, a.count, a.start_ms FROM unnest(changes) AS a WHERE a.counter_id = c.counter_id
            UNION ALL SELECT a.used, a.count, a.start_ms FROM unnest(corrections) AS a WHERE a.counter_id = c.counter_id) AS d
            WHERE d.start_ms >= greatest(c.start_ms - 60 * c.bucket_ms, 0)) AS d
        WHERE c.notify_at IS NOT NULL AND c.count > 0 ORDER BY c.counter_id, CASE WHEN c.bucket_ms = 0 THEN c.start_ms END, c.start_ms DESC LOOP
        SELECT coalesce(sum(b.used), 0) AS used, coalesce(sum(b.count), 0)::bigint AS count INTO usage FROM budget_counters AS b
            WHERE b.counter_id = change.counter_id AND (b.start_ms = change.start_ms
                OR change.bucket_ms > 0 AND b.start_ms >= greatest(change.start_ms - 60 * change.bucket_ms, 0));
        SELECT * INTO STRICT own FROM budget_counters AS b
            WHERE b.counter_id = change.counter_id AND b.start_ms = CASE WHEN change.bucket_ms > 0 THEN -1 ELSE change.start_ms END;
        notify := string_to_array(change.notify_at, ',');
        told := own.noticed;
        IF change.bucket_ms > 0 THEN
            told := reached(told, usage.used - change.all_used, usage.count - change.all_count, change.max_used, change.max_count);
        END IF;
        notify := ARRAY(SELECT n FROM unnest(reached(notify, usage.used, usage.count, change.max_used, change.max_count)) AS n WHERE n <> ALL (told));
        INSERT INTO budget_exhaustions (counter_id, start_ms, bucket_ms, percent, nth, count, max_count, since, used, max_used, policy_id, rule_id, subject,
                agent_id)
            SELECT change.counter_id, change.start_ms, change.bucket_ms, n, CASE WHEN change.bucket_ms > 0 THEN (SELECT count(*) FROM budget_exhaustions AS e
                    WHERE e.counter_id = change.counter_id AND e.start_ms = change.start_ms AND e.percent = n) ELSE 0 END,
                usage.count, change.max_count, own.since, usage.used, change.max_used, own.policy_id, own.rule_id, own.subject, own.agent_id
            FROM unnest(notify) AS n
        ON CONFLICT (counter_id, start_ms, percent, nth) DO NOTHING;
        told := told || notify;
        IF change.bucket_ms > 0 THEN
            told := reached(told, usage.used, usage.count, change.max_used, change.max_count);
        END IF;
        IF told <> own.noticed THEN
            UPDATE budget_counters AS b SET noticed = told WHERE b.counter_id = own.counter_id AND b.start_ms = own.start_ms;
        END IF;
    END LOOP;
END $$;

-- Takes from rolling windows, one after the other. What counts is the bucket, the 60
-- before it (S34), and any that a node whose clock is ahead has begun. Returns the
-- places of those that have no room, each with what was taken from it, and those that
-- are exhausted then.
CREATE FUNCTION take_from_rolling(changes counter_change[], OUT refused text, OUT exhausted counter_change[])
LANGUAGE plpgsql
AS $$
DECLARE
    change record;
    before record;
BEGIN
    FOR change IN SELECT * FROM unnest(changes) WITH ORDINALITY AS c LOOP
        SELECT coalesce(sum(b.used), 0) AS used, coalesce(sum(b.count), 0)::bigint AS count INTO before FROM budget_counters AS b
            WHERE b.counter_id = change.counter_id AND b.start_ms >= greatest(change.start_ms - 60 * change.bucket_ms, 0);
        IF before.used > change.most_used OR before.count > change.most_count THEN
            refused := concat_ws(',', refused, change.ordinality || ':' || before.used || ':' || before.count);
            CONTINUE;
        END IF;
        UPDATE budget_counters AS b SET used = b.used + change.used, count = b.count + change.count
            WHERE b.counter_id = change.counter_id AND b.start_ms = change.start_ms;
        IF before.used + change.used >= change.max_used OR before.count + change.count >= change.max_count THEN
            exhausted := exhausted || changes[change.ordinality];
        END IF;
    END LOOP;
END $$;

-- Takes from counters what the checks of a commit take, those of rolling windows
-- first, or raises SG007 with the places of those that have no room and what was taken
-- from each, or SG010 if one of a calendar window has no row, or if those that had no
-- room have it now: the update does not lock a row that it leaves. Then corrects
-- counters, in the window in which the outcomes' checks counted (S40) if its row is
-- still there: what is given back makes room for the commit only as far as most_used and
-- most_count say. Counters that refused checks of the commit when these were judged are
-- exhausted, like those that it uses up. An array is null when it has no elements.
--
-- A new row has no use, so what it refuses can never be taken. Counters are locked in the order of the
-- changes, so each is looked up in turn.
CREATE FUNCTION change_counters(counters counter_row[], rolling counter_change[], calendar counter_change[],
    refused counter_change[], corrections counter_correction[]) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off
AS $$
DECLARE
    no_room   text;
    refusals  text;
    taken     integer;
    exhausted boolean;
    absent    boolean;
    used_up   counter_change[];
BEGIN
    IF counters IS NOT NULL THEN
        PERFORM insert_counters(counters);
    END IF;
    IF corrections IS NOT NULL THEN
        PERFORM FROM budget_counters AS b -- locked in the order in which they are changed
            WHERE (b.counter_id, b.start_ms) IN (SELECT c.counter_id, c.start_ms FROM unnest(rolling || calendar) AS c
                UNION ALL SELECT c.counter_id, c.start_ms FROM unnest(corrections) AS c)
            ORDER BY b.bucket_ms = 0, b.counter_id, b.start_ms FOR UPDATE;
    END IF;
    IF rolling IS NOT NULL THEN
        SELECT t.refused, t.exhausted INTO no_room, used_up FROM take_from_rolling(rolling) AS t;
    END IF;
    IF calendar IS NOT NULL THEN
        WITH counters AS (
            UPDATE budget_counters AS b SET used = b.used + c.used, count = b.count + c.count FROM unnest(calendar) AS c
                WHERE b.counter_id = c.counter_id AND b.start_ms = c.start_ms
                    AND (b.used <= c.most_used) IS NOT FALSE AND (b.count <= c.most_count) IS NOT FALSE
            RETURNING b.used >= c.max_used OR b.count >= c.max_count AS exhausted
        )
        SELECT count(*), bool_or(c.exhausted) INTO taken, exhausted FROM counters AS c;
        IF taken < cardinality(calendar) THEN
            SELECT string_agg(coalesce(cardinality(rolling), 0) + c.ordinality || ':' || b.used || ':' || b.count, ',')
                    FILTER (WHERE b.used > c.most_used OR b.count > c.most_count), bool_or(b.counter_id IS NULL) INTO refusals, absent
                FROM unnest(calendar) WITH ORDINALITY AS c LEFT JOIN budget_counters AS b USING (counter_id, start_ms)
                WHERE b.xmin IS DISTINCT FROM pg_current_xact_id()::xid OR c.most_count < 0;
            IF absent OR refusals IS NULL THEN
                RAISE EXCEPTION 'counters of budgets changed' USING ERRCODE = 'SG010';
            END IF;
            no_room := concat_ws(',', no_room, refusals);
        ELSIF exhausted THEN
            SELECT used_up || array_agg(c) INTO used_up FROM unnest(calendar) AS c JOIN budget_counters AS b USING (counter_id, start_ms)
                WHERE b.used >= c.max_used OR b.count >= c.max_count;
        END IF;
    END IF;
    IF no_room <> '' THEN
        RAISE EXCEPTION 'budgets have no room' USING ERRCODE = 'SG007', DETAIL = no_room;
    END IF;
    IF corrections IS NOT NULL THEN
        UPDATE budget_counters AS b SET used = greatest(b.used + c.used, 0), count = greatest(b.count + c.count, 0)
            FROM unnest(corrections) AS c WHERE b.counter_id = c.counter_id AND b.start_ms = c.start_ms;
        IF used_up IS NOT NULL THEN
            SELECT array_agg(c) INTO used_up FROM unnest(used_up) AS c, LATERAL (
                    SELECT sum(b.used) AS used, sum(b.count) AS count FROM budget_counters AS b WHERE b.counter_id = c.counter_id
                    AND b.start_ms >= greatest(c.start_ms - 60 * c.bucket_ms, 0) AND (c.bucket_ms > 0 OR b.start_ms = c.start_ms)) AS u
                WHERE u.used >= c.max_used OR u.count >= c.max_count;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM unnest(rolling || calendar) AS c WHERE c.notify_at IS NOT NULL) THEN
        PERFORM notice_percentages(rolling || calendar, corrections);
    END IF;
    IF refused IS NOT NULL OR used_up IS NOT NULL THEN
        PERFORM insert_exhaustions(refused || used_up);
    END IF;
END $$;
