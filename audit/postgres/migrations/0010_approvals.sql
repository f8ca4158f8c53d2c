-- Approvals.

-- What an escalated check asks of people (S42), with the identifier of the check,
-- whose row says the same (column approval). Times are this server's.
CREATE TABLE approvals (
    id            uuid        PRIMARY KEY,
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL, -- no decision from then on
    use_within_ms bigint      NOT NULL, -- of the approval that decides
    required      integer     NOT NULL,
    action_hash   bytea       NOT NULL,
    policy_id     text        NOT NULL,
    agent_id      text        NOT NULL,
    principal     text        NOT NULL, -- who asked
    owner         text,
    payment       bytea,                -- of the check (S84); null when of none
    xid           xid8        NOT NULL DEFAULT pg_current_xact_id() -- see event_state
);

CREATE INDEX approvals_xid ON approvals (xid) WHERE xid > '0';
CREATE INDEX approvals_payment ON approvals (payment) WHERE payment IS NOT NULL;

-- Once, for one check (G13).
CREATE TABLE approval_uses (
    approval_id uuid PRIMARY KEY REFERENCES approvals,
    check_id    uuid NOT NULL,
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id(), -- see event_state
    position    xid8 NOT NULL DEFAULT greatest(pg_current_xact_id(), latest_ended())
);

CREATE INDEX approval_uses_position ON approval_uses (position) WHERE position > '0';

-- When each that is pending or approved expires, so that those that are due are
-- found without reading others. Derived from the rest.
CREATE TABLE approval_deadlines (
    approval_id uuid        PRIMARY KEY,
    at          timestamptz NOT NULL
);

CREATE INDEX approval_deadlines_at ON approval_deadlines (at);

-- The approval_id of an approval.
CREATE FUNCTION name_approval(id uuid) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT 'apr_' || replace(id::text, '-', '') $$;

-- Whether what is asked is complete with a decision.
CREATE FUNCTION completes_approval(details text) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$ SELECT coalesce(details::jsonb -> 'completes' = 'true', false) $$;

-- The state of an approval at this moment. Its decisions are changes, and hashed
-- like all of them, and so are its reopening (S92), its withdrawal (S84) and its expiry, which holds whatever the clock says later.
-- What is approved is denied by a later denial, until it is used; nothing turns into
-- approved by time (S45).
CREATE TYPE approval_state AS (
    status      text, -- pending, approved, denied, withdrawn, expired or used
    approved_at timestamptz,
    used_by     uuid,
    expires_at  timestamptz -- no decision from then on: since it was made, or reopened last
);

CREATE FUNCTION state_of_approval(a approvals) RETURNS approval_state
LANGUAGE sql VOLATILE
AS $$
    WITH decided AS (
        SELECT bool_or(d.kind = 'approval.denied') AS denied, bool_or(d.kind = 'approval.expired') AS expired,
            bool_or(d.kind = 'approval.withdrawn') AS withdrawn,
            (array_agg(CASE d.kind WHEN 'approval.approved' THEN d.at END ORDER BY d.seq DESC)
                FILTER (WHERE d.kind = 'approval.reopened' OR d.kind = 'approval.approved' AND completes_approval(d.details)))[1] AS at,
            a.expires_at - a.created_at + coalesce((array_agg(d.at ORDER BY d.seq DESC) FILTER (WHERE d.kind = 'approval.reopened'))[1], a.created_at) AS expires_at
        FROM changes AS d WHERE d.subject = name_approval(a.id)
    )
    SELECT CASE
            WHEN u.check_id IS NOT NULL THEN 'used'
            WHEN d.denied THEN 'denied'
            WHEN d.withdrawn THEN 'withdrawn'
            WHEN d.expired THEN 'expired'
            WHEN d.at IS NULL AND clock_timestamp() < d.expires_at THEN 'pending'
            WHEN clock_timestamp() < d.at + a.use_within_ms * interval '1 millisecond' THEN 'approved'
            ELSE 'expired' END, d.at, u.check_id, d.expires_at
    FROM decided AS d LEFT JOIN approval_uses AS u ON u.approval_id = a.id
$$;

-- Makes the approvals that escalated checks ask for, and notes when they expire. The two other arrays are of
-- the checks that are of payments.
CREATE FUNCTION insert_approvals(rows check_record[], payment_hashes bytea[], payment_checks uuid[]) RETURNS void
LANGUAGE plpgsql -- which keeps plans, unlike sql
AS $$ BEGIN
    WITH made AS (
        INSERT INTO approvals (id, created_at, expires_at, use_within_ms, required, action_hash, policy_id, agent_id, principal, owner, payment)
            SELECT r.check_id, now.at, now.at + (a.asks ->> 'expires_ms')::bigint * interval '1 millisecond', (a.asks ->> 'use_within_ms')::bigint,
                (a.asks ->> 'required')::integer, decode(a.asks ->> 'action_hash', 'hex'), r.policy_id, r.agent_id, coalesce(r.principal, r.key_id), r.owner,
                (SELECT p.hash FROM unnest(payment_hashes, payment_checks) AS p (hash, check_id) WHERE p.check_id = r.check_id)
            FROM unnest(rows) AS r, LATERAL (SELECT r.approval::jsonb AS asks) AS a,
                (SELECT date_trunc('milliseconds', clock_timestamp()) AS at) AS now
            WHERE r.approval IS NOT NULL
        RETURNING id, expires_at
    )
    INSERT INTO approval_deadlines (approval_id, at) SELECT id, expires_at FROM made;
END $$;

-- Uses approvals, each for one check (G13), or raises SG009 with the checks that
-- may not and why, after those that are refused already: absent, mismatch or the state, and which check used it. With an empty
-- hash an approval must only be approved. In the order of approvals, so that two commits do not deadlock.
CREATE FUNCTION use_approvals(check_ids uuid[], approval_ids uuid[], hashes bytea[], refused text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    wanted  record;
    a       approvals;
    state   approval_state;
BEGIN
    FOR wanted IN SELECT * FROM unnest(check_ids, approval_ids, hashes) AS w (check_id, approval_id, hash) ORDER BY w.approval_id, w.check_id LOOP
        SELECT * INTO a FROM approvals AS x WHERE x.id = wanted.approval_id FOR UPDATE;
        IF NOT FOUND THEN
            state := ('absent', NULL, NULL, NULL);
        ELSIF wanted.hash <> '' AND a.action_hash <> wanted.hash THEN
            state := ('mismatch', NULL, NULL, NULL);
        ELSE
            state := state_of_approval(a);
        END IF;
        IF state.status <> 'approved' THEN
            refused := concat_ws(',', refused, concat_ws(':', wanted.check_id, state.status, state.used_by));
        ELSIF wanted.hash <> '' THEN
            INSERT INTO approval_uses (approval_id, check_id) VALUES (wanted.approval_id, wanted.check_id);
            DELETE FROM approval_deadlines AS d WHERE d.approval_id = wanted.approval_id;
        END IF;
    END LOOP;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION 'approvals cannot be used' USING ERRCODE = 'SG009', DETAIL = refused;
    END IF;
END $$;

-- Records that what these keys approved counts no more (S92), and gives people their time anew, unless the approval is
-- neither pending nor approved. The caller has the lock of config, and keeps the approval from being used.
CREATE FUNCTION reopen_approval(a approvals, key_ids jsonb, who actor) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    was text := (state_of_approval(a)).status;
BEGIN
    IF was NOT IN ('pending', 'approved') THEN
        RETURN false;
    END IF;
    PERFORM record_change(raise_generation(), 'approval.reopened', name_approval(a.id), NULL, who,
        jsonb_build_object('action_hash', encode(a.action_hash, 'hex'), 'was', was, 'keys', key_ids), a.action_hash);
    UPDATE approval_deadlines AS d SET at = (state_of_approval(a)).expires_at WHERE d.approval_id = a.id;
    RETURN true;
END $$;

-- Reopens an approval whose use found that these keys' decisions count no more, unless a key was changed since they were
-- judged.
CREATE FUNCTION reopen_unused(wanted uuid, key_ids jsonb, judged bigint, who actor) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    a approvals;
BEGIN
    SELECT * INTO a FROM approvals AS x WHERE x.id = wanted FOR UPDATE;
    PERFORM FROM config FOR NO KEY UPDATE;
    RETURN a.id IS NOT NULL AND NOT EXISTS (SELECT FROM keys AS k WHERE k.generation > judged) AND reopen_approval(a, key_ids, who);
END $$;

-- Withdraws an approval that the caller has locked (S84), unless it is neither pending nor approved. Returns the state that it had.
CREATE FUNCTION withdraw_approval(a approvals, who actor) RETURNS approval_state
LANGUAGE plpgsql
AS $$
DECLARE
    state approval_state := state_of_approval(a);
BEGIN
    IF state.status IN ('pending', 'approved') THEN
        PERFORM record_change(raise_generation(), 'approval.withdrawn', name_approval(a.id), NULL, who,
            jsonb_strip_nulls(jsonb_build_object('action_hash', encode(a.action_hash, 'hex'), 'was', state.status, 'payment', encode(a.payment, 'hex'))),
            a.action_hash);
        DELETE FROM approval_deadlines AS d WHERE d.approval_id = a.id;
    END IF;
    RETURN state;
END $$;

-- Withdraws the approvals that checks of a commit withdraw. Returns the checks that may not, as use_approvals names them.
-- All that the commit withdraws or uses is locked first, in one order, so that two commits do not deadlock.
CREATE FUNCTION withdraw_approvals(check_ids uuid[], approval_ids uuid[], used uuid[], rows check_record[], OUT refused text)
LANGUAGE plpgsql
AS $$
DECLARE
    wanted record;
    state  approval_state;
BEGIN
    PERFORM FROM approvals AS x WHERE x.id = ANY (approval_ids || used) ORDER BY x.id FOR UPDATE;
    FOR wanted IN SELECT w.check_id, a, a.id, ROW('key', r.key_id, coalesce(r.principal, r.key_id), NULL, r.request_id, NULL)::actor AS who
            FROM unnest(check_ids, approval_ids) AS w (check_id, approval_id) JOIN unnest(rows) AS r ON r.check_id = w.check_id
            LEFT JOIN approvals AS a ON a.id = w.approval_id ORDER BY w.approval_id, w.check_id LOOP
        IF wanted.id IS NULL THEN
            state := ('absent', NULL, NULL, NULL);
        ELSE
            state := withdraw_approval(wanted.a, wanted.who);
        END IF;
        IF state.status NOT IN ('pending', 'approved') THEN
            refused := concat_ws(',', refused, concat_ws(':', wanted.check_id, state.status, state.used_by));
        END IF;
    END LOOP;
END $$;

-- Records the decision of a person about an approval: outcome is recorded, absent,
-- mismatch, or the approval's status when it takes none. Who asked, who decided
-- before and who decides now are compared by the node (audit.Approval.Takes), since names are
-- folded there alone: outcome is stale, and the node judges again, when there
-- are other decisions than it saw, or a reopening, or a key has changed since. The proof and the
-- decision are one transaction, and use_approvals waits for it. Whether the decision
-- completes what is asked is of the same decisions and keys. A denial withdraws the other approvals of
-- the payment (S84). They are locked in the order in which commits lock them, behind the payment and before the record of changes.
CREATE FUNCTION decide_approval(wanted uuid, hash bytea, new_approves boolean, who_owner text, who_groups jsonb, completes boolean, new_note text, who_name text, who_email text,
    seen bigint, seen_keys jsonb, who actor, OUT outcome text)
LANGUAGE plpgsql
AS $$
DECLARE
    a        approvals;
    status   text;
    decided  approval_state;
    decision text := CASE WHEN new_approves THEN 'approval.approved' ELSE 'approval.denied' END;
    denied   bytea := CASE WHEN NOT new_approves THEN (SELECT x.payment FROM approvals AS x WHERE x.id = wanted) END;
    others   uuid[];
BEGIN
    IF denied IS NOT NULL THEN
        PERFORM FROM payments AS p WHERE p.payment_hash = denied FOR NO KEY UPDATE; -- a commit in progress may ask people again
        SELECT array_agg(l.id) FILTER (WHERE l.id <> wanted) INTO others FROM (SELECT x.id FROM approvals AS x
            WHERE x.payment = denied AND (x.id = wanted OR EXISTS (SELECT FROM approval_deadlines AS d WHERE d.approval_id = x.id))
            ORDER BY x.id FOR UPDATE) AS l;
    END IF;
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
        WHEN seen <> coalesce((SELECT max(d.seq) FROM changes AS d WHERE d.subject = name_approval(wanted)), 0) THEN 'stale'
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
            FOR a IN SELECT * FROM approvals AS x WHERE x.id = ANY (others) ORDER BY x.id LOOP
                PERFORM withdraw_approval(a, who);
            END LOOP;
        END IF;
    END IF;
END $$;

-- Records the expiry of up to most approvals that are due. Returns whether more may
-- be, and since when the approval is pending that is longest. An approval that a decision or a use holds is left for the next time: waiting
-- for it could deadlock with a decision, which takes the generation after it.
CREATE FUNCTION expire_approvals(most integer, who actor, OUT more boolean, OUT oldest timestamptz)
LANGUAGE plpgsql
AS $$
DECLARE
    a     approvals;
    state approval_state;
    found integer := 0;
BEGIN
    FOR a IN SELECT x.* FROM approval_deadlines AS d JOIN approvals AS x ON x.id = d.approval_id
            WHERE d.at <= statement_timestamp() ORDER BY d.at LIMIT most FOR UPDATE OF x SKIP LOCKED LOOP
        found := found + 1;
        PERFORM FROM config FOR NO KEY UPDATE; -- so that no key's change reopens it from here on
        state := state_of_approval(a); -- as it is under the lock
        IF state.status = 'expired' AND NOT EXISTS (SELECT FROM changes AS c WHERE c.subject = name_approval(a.id) AND c.kind = 'approval.expired') THEN
            PERFORM record_change(raise_generation(), 'approval.expired', name_approval(a.id), NULL, who,
                jsonb_build_object('action_hash', encode(a.action_hash, 'hex'), 'was', CASE WHEN state.approved_at IS NULL THEN 'pending' ELSE 'approved' END),
                a.action_hash);
        END IF;
        IF state.status NOT IN ('pending', 'approved') THEN
            DELETE FROM approval_deadlines AS d WHERE d.approval_id = a.id;
        END IF;
    END LOOP;
    more := found = most;
    SELECT x.created_at INTO oldest FROM approval_deadlines AS d JOIN approvals AS x ON x.id = d.approval_id
        WHERE d.at > clock_timestamp() AND (d.at = x.expires_at OR (state_of_approval(x)).status = 'pending')
        ORDER BY d.approval_id LIMIT 1;
END $$;
