-- Webhooks.

-- The endpoints that events are delivered to (S52). What deliveries change is in
-- webhook_states, and so are the secrets, which no verifier has to read. There times are
-- Unix milliseconds.
CREATE TABLE webhooks (
    id            uuid        PRIMARY KEY,
    url           text        NOT NULL,
    event_types   text        NOT NULL, -- JSON array
    active        boolean     NOT NULL,
    secret_sha256 bytea       NOT NULL,
    created_at    timestamptz NOT NULL,
    generation    bigint      NOT NULL
);

CREATE TABLE webhook_states (
    webhook_id      uuid    PRIMARY KEY REFERENCES webhooks ON DELETE CASCADE,
    secret          text    NOT NULL, -- as it is: HMAC needs it
    previous_secret text,             -- signs too, until then
    previous_until  bigint,
    cursor          bigint  NOT NULL, -- events up to it were tried
    failures        integer NOT NULL DEFAULT 0, -- in a row
    resume_at       bigint  NOT NULL, -- when the next new event may be tried
    holder          uuid,             -- the node that delivers
    held_until      bigint            -- any other may be the holder from then on
);

-- Events that are to be tried again.
CREATE TABLE webhook_retries (
    webhook_id uuid    NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    sequence   bigint  NOT NULL,
    attempts   integer NOT NULL,
    since      bigint  NOT NULL, -- since when it waits: the event's time, or that of its replay
    due_at     bigint  NOT NULL,
    PRIMARY KEY (webhook_id, sequence)
);

CREATE INDEX webhook_retries_due ON webhook_retries (webhook_id, due_at);
CREATE INDEX webhook_retries_since ON webhook_retries (webhook_id, since);

-- Attempts. Those of a deleted webhook age as all do.
CREATE TABLE webhook_deliveries (
    id          uuid    PRIMARY KEY, -- its millisecond is when it was made
    webhook_id  uuid    NOT NULL,
    sequence    bigint  NOT NULL,
    event_id    uuid    NOT NULL,
    event_type  text    NOT NULL,
    attempt     integer NOT NULL,
    duration_ms bigint  NOT NULL,
    status_code integer NOT NULL, -- 0 when there was no answer
    error       text    NOT NULL, -- empty when it was delivered
    next_at     bigint            -- when it is tried again; null when it is not
);

CREATE INDEX webhook_deliveries_listed ON webhook_deliveries (webhook_id, id);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (webhook_id, id) WHERE error <> '';

-- No webhook otherwise than its newest change left it, and none deleted without one.
CREATE FUNCTION require_recorded_webhook() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    w      webhooks := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    newest changes;
BEGIN
    SELECT * INTO newest FROM changes AS c WHERE c.subject = name_webhook(w.id) ORDER BY c.seq DESC LIMIT 1;
    IF (newest.kind = 'webhook.deleted') IS DISTINCT FROM (TG_OP = 'DELETE') OR TG_OP <> 'DELETE' AND newest.hash <> hash_webhook(w) THEN
        RAISE EXCEPTION 'the change of % is not recorded: webhooks are changed by create_webhook, update_webhook and delete_webhook', name_webhook(w.id);
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER recorded AFTER INSERT OR UPDATE OR DELETE ON webhooks DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION require_recorded_webhook();

CREATE FUNCTION hash_webhook(w webhooks) RETURNS bytea
LANGUAGE sql STABLE
AS $$
    SELECT sha256(convert_to(E'spendgate webhook 1\n', 'UTF8') || int2send(7::smallint)
        || encode_field(uuid_send(w.id)) || encode_field(w.url) || encode_field(w.event_types) || encode_field(boolsend(w.active))
        || encode_field(w.secret_sha256) || encode_field(timestamptz_send(w.created_at)) || encode_field(int8send(w.generation)))
$$;

-- The webhook_id of a webhook.
CREATE FUNCTION name_webhook(id uuid) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT 'whk_' || replace(id::text, '-', '') $$;

-- Records what a webhook is now, or was when it was deleted.
CREATE FUNCTION record_webhook(kind text, w webhooks, who actor) RETURNS void
LANGUAGE sql
AS $$
    SELECT record_change(w.generation, kind, name_webhook(w.id), NULL, who,
        jsonb_build_object('url', w.url, 'event_types', w.event_types::jsonb, 'status', CASE WHEN w.active THEN 'active' ELSE 'disabled' END), hash_webhook(w))
$$;

-- Fails with SG012 if there are most webhooks.
CREATE FUNCTION create_webhook(new_id uuid, new_url text, new_types text, new_active boolean, new_secret text, now_ms bigint, new_cursor bigint,
    most integer, who actor) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    new_generation bigint := raise_generation();
    created        webhooks;
BEGIN
    IF (SELECT count(*) FROM webhooks) >= most THEN
        RAISE EXCEPTION 'there are % webhooks', most USING ERRCODE = 'SG012';
    END IF;
    INSERT INTO webhooks (id, url, event_types, active, secret_sha256, created_at, generation)
        VALUES (new_id, new_url, new_types, new_active, sha256(convert_to(new_secret, 'UTF8')), from_ms(now_ms), new_generation)
        RETURNING * INTO created;
    INSERT INTO webhook_states (webhook_id, secret, cursor, resume_at) VALUES (new_id, new_secret, new_cursor, now_ms());
    PERFORM record_webhook('webhook.created', created, who);
END $$;

-- Changes what is not null. The secret before a new one still signs for keep_ms. A
-- webhook that is active again is tried at once. Returns no row when there is no
-- such webhook.
CREATE FUNCTION update_webhook(changed uuid, new_url text, new_types text, new_active boolean, new_secret text, keep_ms bigint, who actor) RETURNS SETOF webhooks
LANGUAGE plpgsql
AS $$
DECLARE
    new_generation bigint;
    made           webhooks;
BEGIN
    PERFORM FROM webhooks AS w WHERE w.id = changed FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    new_generation := raise_generation();
    UPDATE webhooks AS w SET url = coalesce(new_url, w.url), event_types = coalesce(new_types, w.event_types), active = coalesce(new_active, w.active),
            secret_sha256 = coalesce(sha256(convert_to(new_secret, 'UTF8')), w.secret_sha256), generation = new_generation
        WHERE w.id = changed RETURNING w.* INTO made;
    UPDATE webhook_states AS s
        SET previous_secret = CASE WHEN new_secret IS NULL THEN s.previous_secret ELSE s.secret END,
            previous_until = CASE WHEN new_secret IS NULL THEN s.previous_until ELSE now_ms() + keep_ms END,
            secret = coalesce(new_secret, s.secret),
            failures = CASE WHEN new_active THEN 0 ELSE s.failures END,
            resume_at = CASE WHEN new_active THEN now_ms() ELSE s.resume_at END
        WHERE s.webhook_id = changed;
    PERFORM record_webhook('webhook.changed', made, who);
    RETURN NEXT made;
END $$;

-- Reports whether there was one.
CREATE FUNCTION delete_webhook(deleted uuid, who actor) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    was webhooks;
BEGIN
    DELETE FROM webhooks AS w WHERE w.id = deleted RETURNING w.* INTO was;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    was.generation := raise_generation();
    PERFORM record_webhook('webhook.deleted', was, who);
    RETURN true;
END $$;

-- Records an attempt and what follows from it, if the node holds the webhook, and
-- reports whether it does. retried is when the retry was due that it was, null of a
-- new event: a retry that was put anew meanwhile stays. The event is tried again
-- after retry_ms, or not if that is null. The cursor moves while the webhook has the
-- types that the feed was read with. After an outage that is over all that waits is
-- due; what is being tried stays as it is. May be repeated.
CREATE FUNCTION record_delivery(node uuid, d webhook_deliveries, since bigint, retried bigint, retry_ms bigint, pause_ms bigint,
    new_cursor bigint, seen_types text, is_over boolean)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    now bigint := now_ms();
BEGIN
    PERFORM FROM webhook_states AS s WHERE s.webhook_id = d.webhook_id AND s.holder = node AND s.held_until > now FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    d.next_at := now + retry_ms;
    INSERT INTO webhook_deliveries VALUES (d.*) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    IF retried IS NULL AND retry_ms IS NOT NULL THEN
        INSERT INTO webhook_retries (webhook_id, sequence, attempts, since, due_at) VALUES (d.webhook_id, d.sequence, d.attempt, record_delivery.since, d.next_at)
            ON CONFLICT DO NOTHING;
    ELSIF retry_ms IS NOT NULL THEN
        UPDATE webhook_retries AS r SET attempts = d.attempt, due_at = d.next_at
            WHERE r.webhook_id = d.webhook_id AND r.sequence = d.sequence AND r.due_at = retried;
    ELSE
        DELETE FROM webhook_retries AS r WHERE r.webhook_id = d.webhook_id AND r.sequence = d.sequence AND r.due_at = retried;
    END IF;
    IF is_over THEN
        UPDATE webhook_retries AS r SET due_at = now WHERE r.webhook_id = d.webhook_id AND r.due_at > now;
    END IF;
    UPDATE webhook_states AS s SET failures = CASE WHEN d.error = '' THEN 0 ELSE s.failures + 1 END, resume_at = now + pause_ms,
            cursor = CASE WHEN EXISTS (SELECT FROM webhooks AS w WHERE w.id = d.webhook_id AND w.event_types = seen_types)
                THEN greatest(s.cursor, new_cursor) ELSE s.cursor END
        WHERE s.webhook_id = d.webhook_id;
    RETURN true;
END $$;
