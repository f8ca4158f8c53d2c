-- Tamper evidence (G8). The format of what is hashed is deploy/AUDIT-FORMAT.md.

-- Each commit leaves one row: its place in the chain of the node incarnation
-- that wrote it (the lane), an entry per check, and the head over all of it and
-- the head before. A lane has one writer, and the primary key makes a fork
-- impossible. Never dropped, also when the days of its checks are archived.
-- Entries are hashes: not worth an attempt to compress them.
CREATE TABLE batches (
    lane     uuid     NOT NULL, -- node of its checks
    seq      bigint   NOT NULL, -- from 1, without gaps
    first_id uuid     NOT NULL,
    last_id  uuid     NOT NULL,
    version  smallint NOT NULL, -- of the format
    head     bytea    NOT NULL,
    entries  bytea    NOT NULL, -- 16 bytes of identifier and 32 of row hash each, by identifier
    PRIMARY KEY (lane, seq)
);
ALTER TABLE batches ALTER COLUMN entries SET STORAGE EXTERNAL;

-- The batches of a stretch of time: it costs a commit next to nothing.
CREATE INDEX batches_ids ON batches USING brin (first_id, last_id) WITH (pages_per_range = 32, autosummarize = on);

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON batches
    FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON batches
    EXECUTE FUNCTION refuse();

-- As the commit_checks before, which nodes without chains still call, with the
-- batch's place in the lane of its node.
CREATE FUNCTION commit_checks(node uuid, epoch uuid, key_hashes bytea[], key_ids uuid[], horizon_ms bigint,
    format smallint, violations boolean, rows check_row[],
    seq bigint, version smallint, first_id uuid, last_id uuid, entries bytea, head bytea) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM enter(node, epoch);
    IF cardinality(key_hashes) > 0 THEN
        PERFORM take_keys(key_hashes, key_ids);
    END IF;
    IF horizon_ms > 0 THEN
        PERFORM reach(horizon_ms);
    END IF;
    INSERT INTO batches (lane, seq, first_id, last_id, version, head, entries)
        VALUES (commit_checks.node, commit_checks.seq, commit_checks.first_id, commit_checks.last_id, commit_checks.version,
            commit_checks.head, commit_checks.entries);
    INSERT INTO checks (check_id, node, epoch, claimed_ms, until_ms, policy_version, latency_ms, format,
            requested_type, action_type, decision, confidence, amount, fingerprint, request_sha, currency,
            agent_id, policy_id, counterparty, payment_method, merchant_or_vendor, reason_text,
            idempotency_key, metadata, reason_code, rule_id, rule_description, message, next_step,
            key_id, request_id)
        SELECT r.check_id, commit_checks.node, commit_checks.epoch, r.claimed_ms, r.until_ms, r.policy_version, r.latency_ms, commit_checks.format,
            r.requested_type, r.action_type, r.decision, r.confidence, r.amount, r.fingerprint, r.request_sha, r.currency,
            r.agent_id, r.policy_id, r.counterparty, r.payment_method, r.merchant_or_vendor, r.reason_text,
            r.idempotency_key, r.metadata, r.reason_code, r.rule_id, r.rule_description, r.message, r.next_step,
            r.key_id, r.request_id
        FROM unnest(rows) AS r;
    IF violations THEN
        INSERT INTO violations (id, policy_version, latency_ms, action_type, decision, confidence, amount,
                currency, agent_id, policy_id, counterparty, rule_id, rule_description)
            SELECT r.check_id, r.policy_version, r.latency_ms, r.action_type, r.decision, r.confidence, r.amount,
                r.currency, r.agent_id, r.policy_id, r.counterparty, coalesce(r.rule_id, ''), coalesce(r.rule_description, '')
            FROM unnest(rows) AS r WHERE r.decision <> 'a';
    END IF;
END $$;

-- The policies are one chain: its writers take turns (raise_generation).
CREATE TABLE policy_chain (
    seq       bigint  PRIMARY KEY, -- from 1, without gaps
    policy_id text    NOT NULL,
    version   integer NOT NULL,
    hash      bytea   NOT NULL, -- of the policy's row
    head      bytea   NOT NULL
);

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON policy_chain
    FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON policy_chain
    EXECUTE FUNCTION refuse();

-- A field as COPY writes it in the binary format: its length, then its value.
CREATE FUNCTION chain_field(value bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE
AS $$ SELECT int4send(length(value)) || value $$;

CREATE FUNCTION hash_policy(p policies) RETURNS bytea
LANGUAGE sql STABLE
AS $$
    SELECT sha256(convert_to(E'spendgate policy 1\n', 'UTF8') || int2send(9::smallint)
        || chain_field(convert_to(p.policy_id, 'UTF8')) || chain_field(int4send(p.version))
        || chain_field(convert_to(p.name, 'UTF8')) || chain_field(convert_to(p.description, 'UTF8'))
        || chain_field(convert_to(p.rules, 'UTF8')) || chain_field(convert_to(p.metadata, 'UTF8'))
        || chain_field(timestamptz_send(p.created_at)) || chain_field(timestamptz_send(p.updated_at))
        || chain_field(int8send(p.gen)))
$$;

-- Adds a policy to the chain. Called under the lock of raise_generation.
CREATE FUNCTION chain_policy(p policies) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    last     bigint;
    previous bytea;
    hash     bytea := hash_policy(p);
BEGIN
    SELECT c.seq, c.head INTO last, previous FROM policy_chain AS c ORDER BY c.seq DESC LIMIT 1;
    last := coalesce(last, 0) + 1;
    INSERT INTO policy_chain (seq, policy_id, version, hash, head)
        VALUES (last, p.policy_id, p.version, hash, sha256(convert_to(E'spendgate policies 1\n', 'UTF8')
            || int8send(last) || coalesce(previous, decode(repeat('00', 32), 'hex')) || hash));
END $$;

CREATE OR REPLACE FUNCTION create_policy(new_id text, new_name text, new_description text, new_rules text, new_metadata text, now_ms bigint,
    OUT new_version integer, OUT created_ms bigint)
LANGUAGE plpgsql
AS $$
DECLARE
    new_gen bigint := raise_generation();
    made    policies;
BEGIN
    SELECT coalesce(max(version), 0) + 1, coalesce(to_ms(min(created_at)), now_ms) INTO new_version, created_ms
        FROM policies WHERE policy_id = new_id;
    INSERT INTO policies (policy_id, version, name, description, rules, metadata, created_at, updated_at, gen)
        VALUES (new_id, new_version, new_name, new_description, new_rules, new_metadata, from_ms(created_ms), from_ms(now_ms), new_gen)
        RETURNING * INTO made;
    PERFORM chain_policy(made);
END $$;

-- No policy without its place in the chain: also not by the create_policy of
-- before that a node may be in the midst of.
CREATE FUNCTION require_chained() RETURNS trigger
LANGUAGE plpgsql
AS $$ BEGIN
    IF NOT EXISTS (SELECT FROM policy_chain AS c WHERE c.policy_id = NEW.policy_id AND c.version = NEW.version) THEN
        RAISE EXCEPTION 'a policy is made by create_policy';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER chained AFTER INSERT ON policies DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION require_chained();

-- What was there before is chained as it is now. The lock keeps new ones out.
SELECT gen FROM config FOR UPDATE;
DO $$
DECLARE
    p policies;
BEGIN
    FOR p IN SELECT * FROM policies ORDER BY gen, policy_id, version LOOP
        PERFORM chain_policy(p);
    END LOOP;
END $$;
