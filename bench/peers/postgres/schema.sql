CREATE TABLE IF NOT EXISTS decisions (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    decided_at      timestamptz NOT NULL,
    idempotency_key text,
    fingerprint     uuid NOT NULL, -- half of the SHA-256 of what makes two actions identical
    duplicate_of    bigint,        -- NULL: it passed the duplicate guard
    decision        text NOT NULL,
    rule_id         text NOT NULL, -- '': no rule fired
    request         jsonb NOT NULL
);

CREATE INDEX IF NOT EXISTS decisions_by_key ON decisions (idempotency_key, decided_at) WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS decisions_by_fingerprint ON decisions (fingerprint, decided_at) WHERE duplicate_of IS NULL;

-- decide records a decision and returns its row: that of the first request with
-- the key, a block for a duplicate, or the decision that the rules came to.
-- replayed is true when the row is not new, same is false when its request differs.
--
-- The locks make requests with the same key, and identical actions, run one
-- after the other until the commit; each statement of a VOLATILE function has a
-- snapshot of its own, so one that waited for a lock sees what its predecessor
-- committed. No two transactions wait for each other: the key comes first.
CREATE OR REPLACE FUNCTION decide(key text, print uuid, guard_window interval, verdict text, rule text, asked jsonb,
    OUT answer decisions, OUT replayed boolean, OUT same boolean) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    earlier bigint;
BEGIN
    replayed := false;
    same := true;
    IF key IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(key, 0));
        SELECT * INTO answer FROM decisions
            WHERE idempotency_key = key AND decided_at > clock_timestamp() - interval '24 hours'
            ORDER BY decided_at DESC LIMIT 1;
        IF FOUND THEN
            replayed := true;
            same := answer.request = asked;
            RETURN;
        END IF;
    END IF;
    PERFORM pg_advisory_xact_lock(uuid_hash_extended(print, 1));
    SELECT id INTO earlier FROM decisions
        WHERE fingerprint = print AND duplicate_of IS NULL AND decided_at > clock_timestamp() - guard_window
        ORDER BY decided_at DESC LIMIT 1;
    IF FOUND THEN
        verdict := 'block';
        rule := 'repeats';
    END IF;
    INSERT INTO decisions (decided_at, idempotency_key, fingerprint, duplicate_of, decision, rule_id, request)
        VALUES (clock_timestamp(), key, print, earlier, verdict, rule, asked)
        RETURNING * INTO answer;
END
$$;
