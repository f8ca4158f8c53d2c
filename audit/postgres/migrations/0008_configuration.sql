-- Policies, keys and the record of their changes.

CREATE TABLE config (
    generation   bigint NOT NULL, -- the number of the latest change of policies or keys
    policy_bytes bigint NOT NULL, -- the texts of all versions and drafts of all policies
    draft_bytes  bigint NOT NULL  -- of these, of all drafts
);
INSERT INTO config VALUES (0, 0, 0);

CREATE TABLE policies (
    policy_id   text        NOT NULL COLLATE "C",
    version     integer     NOT NULL,
    name        text        NOT NULL,
    description text        NOT NULL,
    rules       text        NOT NULL, -- as they were sent
    metadata    text        NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    generation  bigint      NOT NULL,
    budgets     jsonb,                -- since when each counts, by rule_id; null when there is none
    redeem      text,                 -- JSON: what it says of redemptions (S74); null when nothing
    changes     text,                 -- JSON: what it asks of people before the next version (S80); null when nothing
    PRIMARY KEY (policy_id, version)
);

CREATE INDEX policies_generation ON policies (generation);

CREATE TABLE keys (
    id         uuid        PRIMARY KEY,
    hash       bytea       NOT NULL UNIQUE, -- SHA-256 of the raw key
    name       text        NOT NULL,
    rpm        integer     NOT NULL,
    active     boolean     NOT NULL,
    created_at timestamptz NOT NULL,
    last_used  timestamptz,          -- null when never; changes without generation
    grants     jsonb,                -- role, scopes, bindings and so on; null when none was given
    generation bigint      NOT NULL,
    stopped    bigint,               -- the last change that stopped what it had been allowed (S87); null without one
    granter_since bigint             -- the last change after which it may grant, and before which it might not (S91); null without one
);

CREATE INDEX keys_generation ON keys (generation);

-- Every change of policies, keys and webhooks, and who made it (G8). The changes have one
-- hash chain: their writers take turns (raise_generation).
CREATE TABLE changes (
    seq        bigint      PRIMARY KEY, -- from 1, without gaps: the generation that the change made
    kind       text        NOT NULL,    -- policy.created, key.created, key.changed, approval.approved, webhook.created and so on
    subject    text        NOT NULL,    -- the policy_id, key_id, approval_id or webhook_id
    version    integer,                 -- of the policy
    actor      text        NOT NULL,    -- key, admin or system; what is not known of it is null
    key_id     text,                    -- the API key that it was made with
    principal  text,
    credential text,                    -- the admin key that it was made with: 8 hex digits of its SHA-256
    request_id text,
    address    text,                    -- of the client
    at         timestamptz NOT NULL,    -- by this server's clock
    details    text        NOT NULL,    -- JSON: what is to be read of the policy or key, never a secret
    hash       bytea       NOT NULL,    -- of the row of the policy or key as the change left it
    head       bytea       NOT NULL,
    xid        xid8        NOT NULL DEFAULT pg_current_xact_id(), -- see event_state
    position   xid8        NOT NULL DEFAULT greatest(pg_current_xact_id(), latest_ended())
);

CREATE INDEX changes_subject ON changes (subject, seq);
CREATE INDEX changes_position ON changes (position) WHERE position > '0';
CREATE INDEX changes_freezes ON changes (seq) WHERE kind LIKE 'freeze.%';
CREATE INDEX changes_of_keys ON changes (seq) WHERE kind IN ('key.created', 'key.changed');
CREATE INDEX changes_grants ON changes (seq) WHERE kind LIKE 'grant.%';
CREATE INDEX changes_approved ON changes (key_id) WHERE kind = 'approval.approved';

-- No policy without the record of its creation.
CREATE FUNCTION require_recorded_policy() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF NOT EXISTS (SELECT FROM changes AS c WHERE c.subject = NEW.policy_id AND c.version = NEW.version
            AND c.kind = 'policy.created' AND c.hash = hash_policy(NEW)) THEN
        RAISE EXCEPTION 'policy % version % is not recorded: a policy is created by create_policy', NEW.policy_id, NEW.version;
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER recorded AFTER INSERT ON policies DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION require_recorded_policy();

-- No key otherwise than its newest change left it. Uses of keys are no changes.
CREATE FUNCTION require_recorded_key() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF hash_key(OLD) = hash_key(NEW) THEN
            RETURN NULL;
        END IF;
    END IF;
    IF hash_key(NEW) IS DISTINCT FROM (SELECT c.hash FROM changes AS c
            WHERE c.subject = name_key(NEW.id) AND c.kind NOT LIKE 'policy.%' ORDER BY c.seq DESC LIMIT 1) THEN
        RAISE EXCEPTION 'the change of % is not recorded: keys are changed by create_key and update_key', name_key(NEW.id);
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER recorded AFTER INSERT OR UPDATE ON keys DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION require_recorded_key();

-- Every write of configuration begins with this, and so holds the row to its
-- end: generations commit in order, the versions of a policy are consecutive,
-- and the changes have one chain.
CREATE FUNCTION raise_generation() RETURNS bigint
LANGUAGE sql
AS $$ UPDATE config SET generation = generation + 1 RETURNING generation $$;

-- A field as COPY writes it in the binary format: its length, -1 for null, then
-- its value.
CREATE FUNCTION encode_field(value bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE
AS $$ SELECT coalesce(int4send(length(value)) || value, int4send(-1)) $$;

CREATE FUNCTION encode_field(value text) RETURNS bytea
LANGUAGE sql STABLE
AS $$ SELECT encode_field(convert_to(value, 'UTF8')) $$;

CREATE FUNCTION hash_policy(p policies) RETURNS bytea
LANGUAGE sql STABLE
AS $$
    SELECT sha256(convert_to(E'spendgate policy 1\n', 'UTF8') || int2send(12::smallint)
        || encode_field(p.policy_id) || encode_field(int4send(p.version))
        || encode_field(p.name) || encode_field(p.description)
        || encode_field(p.rules) || encode_field(p.metadata)
        || encode_field(timestamptz_send(p.created_at)) || encode_field(timestamptz_send(p.updated_at))
        || encode_field(int8send(p.generation)) || encode_field(jsonb_send(p.budgets)) || encode_field(p.redeem) || encode_field(p.changes))
$$;

CREATE FUNCTION hash_key(k keys) RETURNS bytea
LANGUAGE sql STABLE
AS $$
    SELECT sha256(convert_to(E'spendgate key 1\n', 'UTF8') || int2send(10::smallint)
        || encode_field(uuid_send(k.id)) || encode_field(k.hash) || encode_field(k.name)
        || encode_field(int4send(k.rpm)) || encode_field(boolsend(k.active))
        || encode_field(timestamptz_send(k.created_at)) || encode_field(int8send(k.generation))
        || encode_field(jsonb_send(k.grants)) || encode_field(int8send(k.stopped))
        || encode_field(int8send(k.granter_since)))
$$;

-- The key_id of a key.
CREATE FUNCTION name_key(id uuid) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT 'key_' || replace(id::text, '-', '') $$;

-- Who makes a change, and from where.
CREATE TYPE actor AS (
    kind       text,
    key_id     text,
    principal  text,
    credential text,
    request_id text,
    address    text
);

-- Adds a change to the record. Called under the lock of raise_generation, whose
-- number it has.
CREATE FUNCTION record_change(generation bigint, kind text, subject text, version integer, who actor, details jsonb, hash bytea) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    made     timestamptz := date_trunc('milliseconds', clock_timestamp());
    previous bytea       := (SELECT c.head FROM changes AS c ORDER BY c.seq DESC LIMIT 1);
BEGIN
    INSERT INTO changes (seq, kind, subject, version, actor, key_id, principal, credential, request_id, address, at, details, hash, head)
        VALUES (generation, kind, subject, version, who.kind, who.key_id, who.principal, who.credential, who.request_id, who.address,
            made, details::text, hash, sha256(convert_to(E'spendgate change 1\n', 'UTF8')
                || coalesce(previous, decode(repeat('00', 32), 'hex')) || int2send(13::smallint)
                || encode_field(int8send(generation)) || encode_field(kind) || encode_field(subject) || encode_field(int4send(version))
                || encode_field(who.kind) || encode_field(who.key_id) || encode_field(who.principal) || encode_field(who.credential)
                || encode_field(who.request_id) || encode_field(who.address) || encode_field(timestamptz_send(made))
                || encode_field(details::text) || encode_field(hash)));
END $$;

-- Records what a key is now.
CREATE FUNCTION record_key(kind text, k keys, who actor) RETURNS void
LANGUAGE sql
AS $$
    SELECT record_change(k.generation, kind, name_key(k.id), NULL, who,
        jsonb_build_object('name', k.name, 'rate_limit_rpm', k.rpm, 'active', k.active) || coalesce(k.grants, '{}')
            || CASE WHEN k.stopped = k.generation THEN '{"stopped": true}' ELSE '{}' END::jsonb
            || CASE WHEN k.granter_since = k.generation THEN '{"granter": true}' ELSE '{}' END::jsonb, hash_key(k))
$$;

-- Adds a version, whatever the one before asks of people: see create_policy, which is for callers.
-- author has what is told of who has signed in: {"owner", "email"}, or null.
-- Fails with SG006 if all policies together would have more than max_bytes.
-- new_budgets has what makes its budgets the same, by rule_id: one that has any of that
-- in the version before goes on counting (S37), the first is its own. No other may have an
-- open counter in use, unless it is dropped: SG014; DETAIL lists those, or with SG013 what
-- is dropped and does not end (S63).
CREATE FUNCTION add_policy(new_id text, new_name text, new_description text, new_rules text, new_metadata text, new_redeem text, new_changes text, now_ms bigint,
    max_bytes bigint, new_budgets jsonb, dropped jsonb, note text, author jsonb, who actor,
    OUT new_version integer, OUT created_ms bigint, OUT counted_since text)
LANGUAGE plpgsql
AS $$
DECLARE
    new_generation bigint := raise_generation();
    bytes          bigint := octet_length(new_id) + octet_length(new_name) + octet_length(new_description)
                          + octet_length(new_rules) + octet_length(new_metadata) + coalesce(octet_length(new_changes), 0);
    previous       jsonb;
    created        policies;
    ended          text[];
    refused        jsonb;
BEGIN
    UPDATE config SET policy_bytes = policy_bytes + bytes WHERE policy_bytes + bytes <= max_bytes;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the policies have no room for % bytes', bytes USING ERRCODE = 'SG006';
    END IF;
    SELECT coalesce(max(version), 0) + 1, coalesce(to_ms(min(created_at)), now_ms) INTO new_version, created_ms
        FROM policies WHERE policy_id = new_id;
    SELECT budgets INTO previous FROM policies WHERE policy_id = new_id AND version = new_version - 1;
    INSERT INTO policies (policy_id, version, name, description, rules, metadata, redeem, changes, created_at, updated_at, generation, budgets)
        SELECT new_id, new_version, new_name, new_description, new_rules, new_metadata, new_redeem, new_changes, from_ms(created_ms), from_ms(now_ms), new_generation,
            jsonb_object_agg(b.key, CASE WHEN b.value ? (previous -> b.key ->> 'identity') THEN previous -> b.key
                ELSE jsonb_build_object('identity', b.value ->> 0, 'version', new_version, 'at_ms', now_ms) END)
        FROM jsonb_each(coalesce(new_budgets, '{}')) AS b
        RETURNING * INTO created;
    counted_since := created.budgets::text;
    PERFORM record_change(new_generation, 'policy.created', new_id, new_version, who, jsonb_strip_nulls(jsonb_build_object(
        'name', new_name, 'note', nullif(note, ''), 'drop_budgets', dropped)) || coalesce(author, '{}'), hash_policy(created));

    ended := ARRAY(SELECT p.key FROM jsonb_each(previous) AS p WHERE created.budgets -> p.key IS DISTINCT FROM p.value);
    refused := (SELECT jsonb_agg(d) FROM jsonb_array_elements_text(dropped) AS d WHERE d <> ALL (ended));
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION 'budgets to drop do not end' USING ERRCODE = 'SG013', DETAIL = refused::text;
    END IF;
    -- Last, so that what others commit until then is seen.
    refused := (SELECT jsonb_agg(e ORDER BY e COLLATE "C") FROM unnest(ended) AS e WHERE (dropped ? e) IS NOT TRUE AND EXISTS (
        SELECT FROM budget_counters AS c WHERE c.policy_id = new_id AND c.rule_id = e AND c.since = (previous -> e ->> 'version')::integer
            AND (c.used > 0 OR c.count > 0) AND (c.end_ms IS NULL OR c.end_ms > now_ms)));
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION 'budgets that end are in use' USING ERRCODE = 'SG014', DETAIL = refused::text;
    END IF;
END $$;

-- Records that the admin made a version which the one before asks people about: of a draft,
-- by its generation, whom so many had not approved.
CREATE FUNCTION record_forced(policy text, forced integer, draft bigint, missing integer, who actor) RETURNS void
LANGUAGE plpgsql
AS $$ BEGIN
    PERFORM record_change(raise_generation(), 'policy.forced', policy, forced, who,
        jsonb_strip_nulls(jsonb_build_object('draft', draft, 'missing', missing)), hash_policy(p))
        FROM policies AS p WHERE p.policy_id = policy AND p.version = forced;
END $$;

-- Records that a release of the time zones is in force, in place of seen, unless another came meanwhile.
CREATE FUNCTION change_zones(seen text, release text, who actor) RETURNS void
LANGUAGE plpgsql
AS $$ BEGIN
    PERFORM FROM config FOR NO KEY UPDATE;
    IF seen = coalesce((SELECT c.details::jsonb ->> 'release' FROM changes AS c
            WHERE c.subject = '/time_zones' AND c.kind = 'zones.changed' ORDER BY c.seq DESC LIMIT 1), '') THEN
        PERFORM record_change(raise_generation(), 'zones.changed', '/time_zones', NULL, who,
            jsonb_build_object('release', release, 'replaces', seen), decode(repeat('00', 32), 'hex'));
    END IF;
END $$;

-- A version of a policy, as add_policy. Fails with SG017 and the version in force when that
-- asks people before it changes (S80), unless the admin forces it: forced says that.
CREATE FUNCTION create_policy(new_id text, new_name text, new_description text, new_rules text, new_metadata text, new_redeem text, new_changes text, now_ms bigint,
    max_bytes bigint, new_budgets jsonb, dropped jsonb, note text, author jsonb, who actor,
    OUT new_version integer, OUT created_ms bigint, OUT counted_since text, OUT forced boolean)
LANGUAGE plpgsql
AS $$
DECLARE
    in_force policies;
BEGIN
    PERFORM FROM config FOR NO KEY UPDATE; -- no version is made from here on: see raise_generation
    SELECT * INTO in_force FROM policies AS p WHERE p.policy_id = new_id ORDER BY p.version DESC LIMIT 1;
    forced := in_force.changes IS NOT NULL;
    IF forced AND who.kind <> 'admin' THEN
        RAISE EXCEPTION 'version % asks people before it changes', in_force.version USING ERRCODE = 'SG017', DETAIL = in_force.version;
    END IF;
    SELECT a.new_version, a.created_ms, a.counted_since INTO create_policy.new_version, create_policy.created_ms, create_policy.counted_since
        FROM add_policy(new_id, new_name, new_description, new_rules, new_metadata, new_redeem, new_changes, now_ms, max_bytes, new_budgets, dropped, note, author, who) AS a;
    IF forced THEN
        PERFORM record_forced(new_id, new_version, NULL, NULL, who);
    END IF;
END $$;

-- A version may be made on the condition that another is in force (S54). Fails with SG016 and the version in force, 0 where there is none, when that is another. No
-- version is made from here on until the transaction ends: see raise_generation.
CREATE FUNCTION require_version(policy text, in_force integer) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    latest integer;
BEGIN
    PERFORM FROM config FOR NO KEY UPDATE;
    SELECT coalesce(max(p.version), 0) INTO latest FROM policies AS p WHERE p.policy_id = policy;
    IF latest <> in_force THEN
        RAISE EXCEPTION 'version % is in force', latest USING ERRCODE = 'SG016', DETAIL = latest;
    END IF;
END $$;

CREATE FUNCTION create_key(new_id uuid, new_hash text, new_name text, new_rpm integer, new_active boolean, now_ms bigint,
    new_grants jsonb, who actor) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    new_generation bigint := raise_generation();
    created        keys;
BEGIN
    INSERT INTO keys (id, hash, name, rpm, active, created_at, generation, grants)
        VALUES (new_id, decode(new_hash, 'hex'), new_name, new_rpm, new_active, from_ms(now_ms), new_generation, new_grants)
        RETURNING * INTO created;
    PERFORM record_key('key.created', created, who);
END $$;

-- Stops what was judged before (S87): when the transaction ends, each commit that was judged before this change is recorded,
-- and no other will be. It takes the lock of the epoch alone, and comes before the change takes its number: commits take
-- their locks in that order, too.
CREATE FUNCTION begin_stop() RETURNS void
LANGUAGE plpgsql
AS $$ BEGIN
    PERFORM pg_advisory_xact_lock('epoch'::regclass::oid::integer, 0);
END $$;

-- Reports whether a key may raise budgets (S91).
CREATE FUNCTION may_grant(k keys) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT k.active AND coalesce(k.grants ->> 'role' = 'approver' OR k.grants -> 'scopes' ? 'budgets:grant', false)
        AND NOT k.grants ?| '{policy_ids,agent_ids}' AND coalesce((k.grants ->> 'expires_at')::timestamptz > clock_timestamp(), true)
$$;

-- Reports whether an approval counts that a key gave (S92).
CREATE FUNCTION may_decide(k keys, policy text, agent text) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT k.active AND coalesce(k.grants ->> 'role' = 'approver' OR k.grants -> 'scopes' ? 'approvals:decide', false)
        AND coalesce(k.grants -> 'policy_ids' ? policy, true) AND coalesce(k.grants -> 'agent_ids' ? agent, true)
        AND coalesce((k.grants ->> 'expires_at')::timestamptz > clock_timestamp(), true)
$$;

-- Changes what is not null; the grants by a merge patch. With stops, what the key was allowed before is stopped; of a key
-- that might not grant and may now, what it granted before counts no more. What was
-- judged before the key was deactivated, or active again, or its grants changed, is refused: it may count on decisions of the key,
-- or lack them. A deactivation reopens the unused approvals that the key approved; so does a change after which the key may
-- decide about one that it might not decide about before (S92). No commit is in progress meanwhile, and no other
-- change. Returns no row when there is no such key.
CREATE FUNCTION update_key(changed uuid, new_name text, new_rpm integer, new_active boolean, grants_patch jsonb, stops boolean, who actor) RETURNS SETOF keys
LANGUAGE plpgsql
AS $$
DECLARE
    stales         boolean := new_active IS NOT NULL OR grants_patch IS NOT NULL;
    new_generation bigint;
    before         keys;
    made           keys;
BEGIN
    IF NOT EXISTS (SELECT FROM keys AS k WHERE k.id = changed) THEN -- keys are never deleted
        RETURN;
    END IF;
    IF stales THEN
        PERFORM begin_stop();
    END IF;
    new_generation := raise_generation();
    IF stales THEN
        UPDATE epoch SET stops = new_generation;
    END IF;
    SELECT k.* INTO before FROM keys AS k WHERE k.id = changed;
    made := before;
    made.name := coalesce(new_name, before.name);
    made.rpm := coalesce(new_rpm, before.rpm);
    made.active := coalesce(new_active, before.active);
    made.generation := new_generation;
    IF grants_patch IS NOT NULL THEN
        made.grants := nullif(jsonb_strip_nulls(coalesce(before.grants, '{}') || grants_patch), '{}');
    END IF;
    IF update_key.stops THEN
        made.stopped := new_generation;
    END IF;
    IF may_grant(made) AND NOT may_grant(before) THEN
        made.granter_since := new_generation;
    END IF;
    UPDATE keys AS k SET (name, rpm, active, generation, grants, stopped, granter_since)
        = (made.name, made.rpm, made.active, made.generation, made.grants, made.stopped, made.granter_since) WHERE k.id = changed;
    PERFORM record_key('key.changed', made, who);
    IF stales THEN
        -- From the decisions of the key to the approvals that are open: others do not slow it down, while no commit goes on.
        PERFORM reopen_approval(a, jsonb_build_array(name_key(changed)), who)
            FROM (SELECT DISTINCT substr(c.subject, 5)::uuid AS id FROM changes AS c WHERE c.kind = 'approval.approved' AND c.key_id = name_key(changed)
                AND NOT EXISTS (SELECT FROM changes AS r WHERE r.subject = c.subject AND r.kind = 'approval.reopened' AND r.seq > c.seq
                    AND r.details::jsonb -> 'keys' ? c.key_id)) AS approved
                JOIN approval_deadlines AS d ON d.approval_id = approved.id JOIN approvals AS a ON a.id = approved.id
            WHERE new_active IS FALSE OR may_decide(made, a.policy_id, a.agent_id) AND NOT may_decide(before, a.policy_id, a.agent_id);
    END IF;
    RETURN NEXT made;
END $$;

-- Records that a key expires soon, once for each time of expiry; not if it was deactivated meanwhile, or expires at another time
-- than these grants say.
CREATE FUNCTION record_expiring(expiring uuid, grants text, who actor) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    expiry constant text := record_expiring.grants::jsonb ->> 'expires_at';
    k      keys;
BEGIN
    PERFORM FROM config FOR NO KEY UPDATE;
    SELECT * INTO k FROM keys AS x
        WHERE x.id = expiring AND x.active AND x.grants ->> 'expires_at' = expiry AND NOT EXISTS (SELECT FROM changes AS c
            WHERE c.subject = name_key(expiring) AND c.kind = 'key.expiring' AND c.details::jsonb ->> 'expires_at' = expiry)
        FOR NO KEY UPDATE;
    IF FOUND THEN
        -- Not within an UPDATE, which would raise it again for a row that changed meanwhile: no change would have the number before.
        k.generation := raise_generation();
        UPDATE keys AS x SET generation = k.generation WHERE x.id = expiring;
        PERFORM record_key('key.expiring', k, who);
    END IF;
END $$;

-- Records a change that stops what was judged before: a freeze, or a change of a grant. Returns whether a creation was there.
-- Fails with SG021 if another stop than seen came last, unless seen is negative.
CREATE FUNCTION record_stop(kind text, name text, hash text, seen bigint, details jsonb, who actor) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    generation bigint;
BEGIN
    PERFORM begin_stop();
    PERFORM FROM config FOR NO KEY UPDATE;
    IF record_stop.kind LIKE '%.created' AND EXISTS (SELECT FROM changes AS c WHERE c.subject = record_stop.name) THEN
        RETURN true;
    END IF;
    IF seen >= 0 AND seen <> (SELECT e.stops FROM epoch AS e) THEN
        RAISE EXCEPTION 'something was stopped meanwhile' USING ERRCODE = 'SG021';
    END IF;
    generation := raise_generation();
    UPDATE epoch SET stops = generation;
    PERFORM record_change(generation, record_stop.kind, name, NULL, who, details, decode(record_stop.hash, 'hex'));
    RETURN false;
END $$;

-- Records the changes of a release, which stop what was judged while the freeze was active. Of them the first has the details; the others have those of the creation. Fails with SG022 unless the freeze's last
-- change is seen, and no key was changed since.
CREATE FUNCTION release_freeze(name text, scope text, seen bigint, keys_seen bigint, kinds text[], details jsonb, plain jsonb, who actor) RETURNS void
LANGUAGE plpgsql
AS $$ BEGIN
    PERFORM begin_stop();
    PERFORM FROM config FOR NO KEY UPDATE;
    IF seen <> (SELECT max(c.seq) FROM changes AS c WHERE c.subject = release_freeze.name) OR EXISTS (SELECT FROM keys AS k WHERE k.generation > keys_seen) THEN
        RAISE EXCEPTION 'the freeze was changed meanwhile' USING ERRCODE = 'SG022';
    END IF;
    FOR i IN 1 .. cardinality(kinds) LOOP
        PERFORM record_change(raise_generation(), kinds[i], name, NULL, who, CASE WHEN i = 1 THEN details ELSE plain END, decode(scope, 'hex'));
    END LOOP;
    UPDATE epoch SET stops = c.generation FROM config AS c;
END $$;

-- Records that the time of a freeze is over, unless it ended before. That is a stop, as a release is.
CREATE FUNCTION end_freeze(name text, scope text, until_ms bigint, details jsonb, who actor) RETURNS void
LANGUAGE plpgsql
AS $$ BEGIN
    IF clock_timestamp() < from_ms(until_ms) THEN -- and no commit waits
        RETURN;
    END IF;
    PERFORM begin_stop();
    PERFORM FROM config FOR NO KEY UPDATE;
    IF NOT EXISTS (SELECT FROM changes AS c WHERE c.subject = end_freeze.name AND c.kind IN ('freeze.released', 'freeze.ended')) THEN
        PERFORM record_change(raise_generation(), 'freeze.ended', name, NULL, who, details, decode(scope, 'hex'));
        UPDATE epoch SET stops = c.generation FROM config AS c;
    END IF;
END $$;
