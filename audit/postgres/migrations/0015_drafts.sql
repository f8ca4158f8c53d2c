-- Drafts of policies (S54).

-- Every draft, and with empty rules the end of one: the latest row of a policy says
-- whether it has a draft.
CREATE TABLE drafts (
    policy_id    text        NOT NULL COLLATE "C",
    generation   bigint      NOT NULL,
    base_version integer     NOT NULL, -- in force when it was put
    name         text        NOT NULL,
    description  text        NOT NULL,
    rules        text        NOT NULL, -- as they were sent
    metadata     text        NOT NULL,
    made_at      timestamptz NOT NULL,
    redeem       text,                 -- as of policies
    changes      text,                 -- as of policies
    PRIMARY KEY (policy_id, generation)
);

CREATE FUNCTION hash_draft(d drafts) RETURNS bytea
LANGUAGE sql STABLE
AS $$
    SELECT sha256(convert_to(E'spendgate draft 1\n', 'UTF8') || int2send(10::smallint)
        || encode_field(d.policy_id) || encode_field(int8send(d.generation)) || encode_field(int4send(d.base_version))
        || encode_field(d.name) || encode_field(d.description) || encode_field(d.rules) || encode_field(d.metadata)
        || encode_field(timestamptz_send(d.made_at)) || encode_field(d.redeem) || encode_field(d.changes))
$$;

-- No draft without the record of its change.
CREATE FUNCTION require_recorded_draft() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF NOT EXISTS (SELECT FROM changes AS c WHERE c.seq = NEW.generation AND c.subject = NEW.policy_id
            AND c.kind LIKE 'policy.draft%' AND c.hash = hash_draft(NEW)) THEN
        RAISE EXCEPTION 'the draft of policy % is not recorded: drafts are changed by put_draft, delete_draft and promote_draft', NEW.policy_id;
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER recorded AFTER INSERT ON drafts DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION require_recorded_draft();

-- The draft of a policy; no row when it has none.
CREATE FUNCTION current_draft(policy text) RETURNS SETOF drafts
LANGUAGE sql STABLE
AS $$ SELECT * FROM (SELECT * FROM drafts WHERE policy_id = policy ORDER BY generation DESC LIMIT 1) AS latest WHERE rules <> '' $$;

-- Adds a row, which ends the draft when its rules are empty. Called under the lock of
-- raise_generation.
CREATE FUNCTION record_draft(kind text, d drafts, asks integer, note text, author jsonb, who actor) RETURNS void
LANGUAGE plpgsql
AS $$ BEGIN
    INSERT INTO drafts SELECT d.*;
    PERFORM record_change(d.generation, kind, d.policy_id, asks, who,
        jsonb_strip_nulls(jsonb_build_object('name', nullif(d.name, ''), 'note', nullif(note, ''))) || coalesce(author, '{}'), hash_draft(d));
END $$;

-- Fails with SG015 when there is no such policy, with SG018 unless replaces is the generation of its draft, 0 without one,
-- and with SG006 as create_policy, or when drafts would have more than half of the bytes. author is that of add_policy. The change of a draft that the version in force asks
-- people about names that version, and is an event.
CREATE FUNCTION put_draft(policy text, replaces bigint, new_name text, new_description text, new_rules text, new_metadata text, new_redeem text, new_changes text, now_ms bigint,
    max_bytes bigint, note text, author jsonb, who actor, OUT generation bigint, OUT base_version integer, OUT hash text, OUT submitted boolean)
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
    IF replaces <> coalesce((SELECT d.generation FROM current_draft(policy) AS d), 0) THEN
        RAISE EXCEPTION 'policy % has another draft', policy USING ERRCODE = 'SG018';
    END IF;
    submitted := (SELECT p.changes IS NOT NULL FROM policies AS p WHERE p.policy_id = policy AND p.version = base_version);
    UPDATE config SET policy_bytes = policy_bytes + bytes, draft_bytes = draft_bytes + bytes
        WHERE policy_bytes + bytes <= max_bytes AND draft_bytes + bytes <= max_bytes / 2; -- the rest is for versions
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the policies have no room for % bytes', bytes USING ERRCODE = 'SG006';
    END IF;
    made := (policy, generation, base_version, new_name, new_description, new_rules, new_metadata, from_ms(now_ms), new_redeem, new_changes);
    PERFORM record_draft('policy.draft_put', made, CASE WHEN submitted THEN base_version END, note, author, who);
    hash := encode(hash_draft(made), 'hex');
END $$;

-- Fails with SG015 when the policy has no such draft.
CREATE FUNCTION delete_draft(policy text, draft bigint, now_ms bigint, who actor) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    new_generation bigint := raise_generation();
    ended          drafts;
BEGIN
    SELECT * INTO ended FROM current_draft(policy) AS d WHERE d.generation = draft;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'policy % has no such draft', policy USING ERRCODE = 'SG015';
    END IF;
    ended := (policy, new_generation, ended.base_version, '', '', '', '', from_ms(now_ms), NULL, NULL);
    PERFORM record_draft('policy.draft_deleted', ended, NULL, NULL, NULL, who);
END $$;

-- Whether the decisions about a draft, or the keys behind it and them, are others than a node
-- saw: {"decisions": how many, "keys": {"<uuid>": generation}}. Called under the lock of
-- raise_generation, which whoever decides or changes a key takes.
CREATE FUNCTION review_changed(policy text, draft bigint, seen jsonb) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT (seen ->> 'decisions')::bigint <> (SELECT count(*) FROM changes AS c WHERE c.subject = policy AND c.seq > draft
            AND c.kind IN ('policy.draft_approved', 'policy.draft_rejected') AND (c.details::jsonb ->> 'draft')::bigint = draft)
        OR EXISTS (SELECT FROM jsonb_each_text(seen -> 'keys') AS s JOIN keys AS k ON k.id = s.key::uuid WHERE k.generation <> s.value::bigint)
$$;

-- How many people a version asks before it changes, at least (S80).
CREATE FUNCTION asked_of(changes text) RETURNS bigint
LANGUAGE sql IMMUTABLE
AS $$
    SELECT greatest(coalesce((changes::jsonb ->> 'required')::bigint, 1),
        (SELECT sum((f ->> 'required')::bigint) FROM jsonb_array_elements(changes::jsonb -> 'from') AS f))
$$;

-- Records that a person approves or rejects a draft, beside a version in force: outcome is recorded, or stale
-- when there is another draft, version, decision or key than the node saw that judged it
-- (audit.Review.Takes), since names are folded there alone.
CREATE FUNCTION decide_draft(decision text, policy text, draft bigint, in_force integer, seen jsonb, said text, who actor, OUT outcome text)
LANGUAGE plpgsql
AS $$
DECLARE
    decided drafts;
BEGIN
    PERFORM FROM config FOR NO KEY UPDATE;
    SELECT * INTO decided FROM current_draft(policy) AS d WHERE d.generation = draft;
    IF NOT FOUND OR in_force <> (SELECT max(p.version) FROM policies AS p WHERE p.policy_id = policy) OR review_changed(policy, draft, seen) THEN
        outcome := 'stale';
        RETURN;
    END IF;
    PERFORM record_change(raise_generation(), decision, policy, in_force, who, said::jsonb, hash_draft(decided));
    outcome := 'recorded';
END $$;

-- Makes the draft of that generation the next version, and ends it.
-- Fails with SG015 when the policy has no such draft, and with SG016 and the version
-- in force when that is another. What that asks of people is judged by the node, since names are
-- folded there alone: seen has how many are missing, and by what (review_changed). When that is so no longer it
-- fails with SG018, and with SG017 as create_policy when any is missing; nobody is taken for
-- more than one by keys alone, whatever the node says.
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
        IF missing = 0 AND (EXISTS (SELECT FROM changes AS c WHERE c.subject = policy AND c.seq > draft AND c.kind = 'policy.draft_rejected'
                AND (c.details::jsonb ->> 'draft')::bigint = draft) OR asked_of(asked) > (SELECT count(DISTINCT c.key_id) FROM changes AS c
                WHERE c.subject = policy AND c.seq > draft AND c.kind = 'policy.draft_approved' AND c.version = latest
                    AND (c.details::jsonb ->> 'draft')::bigint = draft AND c.key_id IS DISTINCT FROM (SELECT p.key_id FROM changes AS p WHERE p.seq = draft))) THEN
            missing := 1;
        END IF;
        IF missing > 0 AND who.kind <> 'admin' THEN
            RAISE EXCEPTION 'version % asks people before it changes', latest USING ERRCODE = 'SG017', DETAIL = latest;
        END IF;
    END IF;
    forced := asked IS NOT NULL AND missing > 0;
    ended := (policy, new_generation, latest, '', '', '', '', from_ms(now_ms), NULL, NULL);
    PERFORM record_draft('policy.draft_promoted', ended, NULL, NULL, NULL, who);
    SELECT c.new_version, c.created_ms, c.counted_since INTO promote_draft.new_version, promote_draft.created_ms, promote_draft.counted_since
        FROM add_policy(policy, promoted.name, promoted.description, promoted.rules, promoted.metadata, promoted.redeem, promoted.changes, now_ms, max_bytes,
            new_budgets, dropped, note, author, who) AS c;
    IF forced THEN
        PERFORM record_forced(policy, new_version, draft, missing, who);
    END IF;
END $$;
