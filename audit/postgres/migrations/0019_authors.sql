-- Who writes versions and drafts with a session is told by more than its name (S62), and whether a
-- version was forced is returned (S80).

-- As before, and with what is told of who has signed in: {"owner", "email"}, or null.
CREATE FUNCTION put_draft(policy text, new_name text, new_description text, new_rules text, new_metadata text, new_redeem text, new_changes text, now_ms bigint,
    max_bytes bigint, note text, author jsonb, who actor, OUT generation bigint, OUT base_version integer, OUT hash text)
LANGUAGE plpgsql
AS $$
DECLARE
    bytes bigint := octet_length(policy) + octet_length(new_name) + octet_length(new_description)
                  + octet_length(new_rules) + octet_length(new_metadata) + coalesce(octet_length(new_changes), 0);
    made  drafts;
BEGIN
    generation := raise_generation();
    SELECT max(p.version) INTO base_version FROM policies AS p WHERE p.policy_id = policy;
    IF base_version IS NULL THEN
        RAISE EXCEPTION 'there is no policy %', policy USING ERRCODE = 'SG015';
    END IF;
    UPDATE config SET policy_bytes = policy_bytes + bytes WHERE policy_bytes + bytes <= max_bytes;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the policies have no room for % bytes', bytes USING ERRCODE = 'SG006';
    END IF;
    made := (policy, generation, base_version, new_name, new_description, new_rules, new_metadata, from_ms(now_ms), new_redeem, new_changes);
    INSERT INTO drafts SELECT made.*;
    PERFORM record_change(generation, 'policy.draft_put', policy, NULL, who,
        jsonb_strip_nulls(jsonb_build_object('name', nullif(new_name, ''), 'note', nullif(note, ''))) || coalesce(author, '{}'), hash_draft(made));
    hash := encode(hash_draft(made), 'hex');
END $$;

CREATE OR REPLACE FUNCTION put_draft(policy text, new_name text, new_description text, new_rules text, new_metadata text, new_redeem text, new_changes text, now_ms bigint,
    max_bytes bigint, note text, who actor, OUT generation bigint, OUT base_version integer, OUT hash text)
LANGUAGE sql
AS $$ SELECT * FROM put_draft(policy, new_name, new_description, new_rules, new_metadata, new_redeem, new_changes, now_ms, max_bytes, note, NULL, who) $$;

-- As before, likewise.
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

-- As before, likewise. forced: the version in force asked people, and the admin made it.
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

CREATE OR REPLACE FUNCTION create_policy(new_id text, new_name text, new_description text, new_rules text, new_metadata text, new_redeem text, new_changes text, now_ms bigint,
    max_bytes bigint, new_budgets jsonb, dropped jsonb, note text, who actor,
    OUT new_version integer, OUT created_ms bigint, OUT counted_since text)
LANGUAGE sql
AS $$
    SELECT c.new_version, c.created_ms, c.counted_since
    FROM create_policy(new_id, new_name, new_description, new_rules, new_metadata, new_redeem, new_changes, now_ms, max_bytes, new_budgets, dropped, note, NULL, who) AS c
$$;

-- As before, likewise.
CREATE FUNCTION promote_draft(policy text, draft bigint, in_force integer, seen jsonb, now_ms bigint, max_bytes bigint,
    new_budgets jsonb, dropped jsonb, note text, author jsonb, who actor,
    OUT new_version integer, OUT created_ms bigint, OUT counted_since text, OUT forced boolean)
LANGUAGE plpgsql
AS $$
DECLARE
    new_generation bigint := raise_generation();
    latest         integer := (SELECT max(p.version) FROM policies AS p WHERE p.policy_id = policy);
    asked          text    := (SELECT p.changes FROM policies AS p WHERE p.policy_id = policy AND p.version = latest);
    missing        integer := (seen ->> 'missing')::integer;
    promoted       drafts;
    ended          drafts;
BEGIN
    SELECT * INTO promoted FROM current_draft(policy) AS d WHERE d.generation = draft;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'policy % has no such draft', policy USING ERRCODE = 'SG015';
    END IF;
    IF latest <> in_force THEN
        RAISE EXCEPTION 'version % is in force', latest USING ERRCODE = 'SG016', DETAIL = latest;
    END IF;
    IF asked IS NOT NULL THEN
        IF latest <> (seen ->> 'version')::integer OR review_changed(policy, draft, seen) THEN
            RAISE EXCEPTION 'the approvals of the draft changed' USING ERRCODE = 'SG018';
        END IF;
        IF missing = 0 AND asked_of(asked) > (SELECT count(DISTINCT c.key_id) FROM changes AS c
                WHERE c.subject = policy AND c.seq > draft AND c.kind = 'policy.draft_approved' AND c.version = latest
                    AND (c.details::jsonb ->> 'draft')::bigint = draft AND c.key_id IS DISTINCT FROM (SELECT p.key_id FROM changes AS p WHERE p.seq = draft)) THEN
            missing := 1;
        END IF;
        IF missing > 0 AND who.kind <> 'admin' THEN
            RAISE EXCEPTION 'version % asks people before it changes', latest USING ERRCODE = 'SG017', DETAIL = latest;
        END IF;
    END IF;
    forced := asked IS NOT NULL AND missing > 0;
    ended := (policy, new_generation, latest, '', '', '', '', from_ms(now_ms), NULL, NULL);
    PERFORM record_draft('policy.draft_promoted', ended, who, '');
    SELECT c.new_version, c.created_ms, c.counted_since INTO promote_draft.new_version, promote_draft.created_ms, promote_draft.counted_since
        FROM add_policy(policy, promoted.name, promoted.description, promoted.rules, promoted.metadata, promoted.redeem, promoted.changes, now_ms, max_bytes,
            new_budgets, dropped, note, author, who) AS c;
    IF forced THEN
        PERFORM record_forced(policy, new_version, draft, missing, who);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION promote_draft(policy text, draft bigint, in_force integer, seen jsonb, now_ms bigint, max_bytes bigint,
    new_budgets jsonb, dropped jsonb, note text, who actor,
    OUT new_version integer, OUT created_ms bigint, OUT counted_since text)
LANGUAGE sql
AS $$
    SELECT c.new_version, c.created_ms, c.counted_since
    FROM promote_draft(policy, draft, in_force, seen, now_ms, max_bytes, new_budgets, dropped, note, NULL, who) AS c
$$;

-- Which nothing calls any more: nodes never did.
DROP FUNCTION add_policy(text, text, text, text, text, text, text, bigint, bigint, jsonb, jsonb, text, actor);

DO $$
DECLARE
    fixed text;
BEGIN
    FOREACH fixed IN ARRAY ARRAY['put_draft(text, text, text, text, text, text, text, bigint, bigint, text, actor)',
            'put_draft(text, text, text, text, text, text, text, bigint, bigint, text, jsonb, actor)',
            'create_policy(text, text, text, text, text, text, text, bigint, bigint, jsonb, jsonb, text, actor)',
            'create_policy(text, text, text, text, text, text, text, bigint, bigint, jsonb, jsonb, text, jsonb, actor)',
            'promote_draft(text, bigint, integer, jsonb, bigint, bigint, jsonb, jsonb, text, actor)',
            'promote_draft(text, bigint, integer, jsonb, bigint, bigint, jsonb, jsonb, text, jsonb, actor)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', fixed, current_schema());
    END LOOP;
END $$;

REVOKE EXECUTE ON FUNCTION put_draft(text, text, text, text, text, text, text, bigint, bigint, text, jsonb, actor),
    add_policy(text, text, text, text, text, text, text, bigint, bigint, jsonb, jsonb, text, jsonb, actor),
    create_policy(text, text, text, text, text, text, text, bigint, bigint, jsonb, jsonb, text, jsonb, actor),
    promote_draft(text, bigint, integer, jsonb, bigint, bigint, jsonb, jsonb, text, jsonb, actor) FROM PUBLIC;
