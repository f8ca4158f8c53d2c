-- Two tables of the same violations: one with the indexes that a commit needs
-- and one of agents, one with all that violations has.
CREATE TABLE few AS SELECT id, policy_version, latency_ms, action_type, decision, confidence, amount, currency,
    agent_id, policy_id, counterparty, rule_id, rule_description, key_id FROM violations;
ALTER TABLE few ADD PRIMARY KEY (id);
CREATE INDEX ON few (agent_id, id);
CREATE TABLE every (LIKE violations INCLUDING ALL);
INSERT INTO every (id, policy_version, latency_ms, action_type, decision, confidence, amount, currency,
        agent_id, policy_id, counterparty, rule_id, rule_description, key_id)
    SELECT * FROM few;
CREATE TABLE took (few double precision, every double precision);

-- Batches into the one and the other alternate, so that whatever else the
-- machine does slows both. What is written is like some that are there, with
-- identifiers newer than all.
CREATE PROCEDURE compare(batches integer, size integer) LANGUAGE plpgsql AS $$
DECLARE
    rows   few[];
    begun  timestamptz;
    middle timestamptz;
BEGIN
    FOR n IN 1 .. batches LOOP
        rows := ARRAY(SELECT f FROM few AS f WHERE id >= first_id((1780000000 + (random() * 90000)::bigint) * 1000) ORDER BY id LIMIT size);
        FOR i IN 1 .. size LOOP
            rows[i].id := (left(first_id(1900000000000 + n)::text, 24) || substr(md5(random()::text), 1, 12))::uuid;
        END LOOP;
        begun := clock_timestamp();
        INSERT INTO few SELECT * FROM unnest(rows);
        middle := clock_timestamp();
        INSERT INTO every (id, policy_version, latency_ms, action_type, decision, confidence, amount, currency,
                agent_id, policy_id, counterparty, rule_id, rule_description, key_id)
            SELECT * FROM unnest(rows);
        INSERT INTO took VALUES (extract(epoch FROM middle - begun) * 1e6 / size, extract(epoch FROM clock_timestamp() - middle) * 1e6 / size);
        COMMIT;
    END LOOP;
END $$;
