-- Who is signed in (S78).

-- A session is a person's, as a provider named them when they signed in. Times are this
-- server's. It is no part of the record: decisions say who made them.
CREATE TABLE sessions (
    id           uuid        PRIMARY KEY,
    token_hash   bytea       NOT NULL UNIQUE, -- SHA-256 of what the cookie has
    issuer       text        NOT NULL,
    subject      text        NOT NULL,
    provider_sid text        NOT NULL, -- the provider's session; empty when it names none
    principal    text        NOT NULL,
    name         text        NOT NULL,
    email        text        NOT NULL,
    grants       jsonb       NOT NULL,
    idle_ms      bigint      NOT NULL, -- without a request, and it is over
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL, -- up to a minute behind
    expires_at   timestamptz NOT NULL,
    ended_at     timestamptz
);

-- Logout tokens that came: none counts twice.
CREATE TABLE session_logouts (
    token   bytea PRIMARY KEY, -- SHA-256 of its identifier
    request uuid  NOT NULL     -- that brought it, made then
);

-- decide_approval as before, and with the name and the e-mail of who decides as of then.
CREATE FUNCTION decide_approval(wanted uuid, hash bytea, new_approves boolean, who_owner text, who_groups jsonb, completes boolean, new_note text, who_name text, who_email text,
    seen_decisions bigint, seen_keys jsonb, who actor, OUT outcome text)
LANGUAGE plpgsql
AS $$
DECLARE
    a        approvals;
    status   text;
    decided  approval_state;
    decision text := CASE WHEN new_approves THEN 'approval.approved' ELSE 'approval.denied' END;
BEGIN
    SELECT * INTO a FROM approvals AS x WHERE x.id = wanted FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 'absent';
        RETURN;
    END IF;
    -- Keys do not change from here on: update_key takes this lock first, and no approval.
    PERFORM FROM config FOR NO KEY UPDATE;
    status := (state_of_approval(a)).status;
    outcome := CASE
        WHEN a.action_hash <> hash THEN 'mismatch'
        WHEN seen_decisions <> (SELECT count(*) FROM changes AS d
            WHERE d.subject = name_approval(wanted) AND d.kind IN ('approval.approved', 'approval.denied')) THEN 'stale'
        WHEN EXISTS (SELECT FROM jsonb_each_text(seen_keys) AS s JOIN keys AS k ON k.id = s.key::uuid
            WHERE k.generation <> s.value::bigint) THEN 'stale'
        WHEN status = 'pending' OR status = 'approved' AND NOT new_approves THEN 'recorded'
        ELSE status END;
    IF outcome = 'recorded' THEN
        PERFORM record_change(raise_generation(), decision, name_approval(wanted), NULL, who,
            jsonb_strip_nulls(jsonb_build_object('action_hash', encode(hash, 'hex'), 'note', new_note, 'owner', who_owner,
                'name', who_name, 'email', who_email, 'groups', who_groups, 'completes', nullif(completes, false))), hash);
        decided := state_of_approval(a);
        IF decided.status = 'approved' THEN
            UPDATE approval_deadlines AS d SET at = decided.approved_at + a.use_within_ms * interval '1 millisecond' WHERE d.approval_id = wanted;
        ELSIF decided.status = 'denied' THEN
            DELETE FROM approval_deadlines AS d WHERE d.approval_id = wanted;
        END IF;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION decide_approval(wanted uuid, hash bytea, new_approves boolean, who_owner text, who_groups jsonb, completes boolean, new_note text,
    seen_decisions bigint, seen_keys jsonb, who actor, OUT outcome text)
LANGUAGE sql
AS $$ SELECT decide_approval(wanted, hash, new_approves, who_owner, who_groups, completes, new_note, NULL, NULL, seen_decisions, seen_keys, who) $$;

DO $$
DECLARE
    fixed text;
BEGIN
    FOREACH fixed IN ARRAY ARRAY['decide_approval(uuid, bytea, boolean, text, jsonb, boolean, text, bigint, jsonb, actor)',
            'decide_approval(uuid, bytea, boolean, text, jsonb, boolean, text, text, text, bigint, jsonb, actor)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', fixed, current_schema());
    END LOOP;
END $$;

REVOKE EXECUTE ON FUNCTION decide_approval(uuid, bytea, boolean, text, jsonb, boolean, text, text, text, bigint, jsonb, actor) FROM PUBLIC;
