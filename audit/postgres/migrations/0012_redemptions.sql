-- Redemptions: steps of outcomes, and what finds them.

-- The lasting keys of redemptions (S74): none is ever free again.
CREATE TABLE redemption_keys (
    key_hash bytea PRIMARY KEY,
    check_id uuid  NOT NULL
);

-- The redeemed checks of which nothing was reported, so that those in doubt are found:
-- derived from outcomes.
CREATE TABLE redemptions_open (
    check_id    uuid        PRIMARY KEY,
    redeemed_at timestamptz NOT NULL, -- by this server's clock
    doubted_at  timestamptz           -- null until it is in doubt
);

CREATE INDEX redemptions_open_at ON redemptions_open (redeemed_at) WHERE doubted_at IS NULL;
CREATE INDEX redemptions_open_doubted ON redemptions_open (doubted_at) WHERE doubted_at IS NOT NULL;

-- Checks from before a database was restored are not redeemed: they may have been, after
-- the backup. Set by `spendgate audit restored`.
CREATE TABLE redeemable (from_ms bigint NOT NULL);
INSERT INTO redeemable VALUES (0);

-- Records the lasting keys that are free, which other transactions may be about to take, of redemptions in time.
CREATE FUNCTION insert_redemption_keys(reports outcome_row[]) RETURNS void
LANGUAGE plpgsql
AS $$ BEGIN
    INSERT INTO redemption_keys (key_hash, check_id)
        SELECT r.once, r.check_id FROM unnest(reports) AS r WHERE r.status = 'r' AND r.once IS NOT NULL
            AND (extract(epoch FROM clock_timestamp()) * 1000)::bigint <= r.redeem_by
            AND (r.check_id < (SELECT first_id(f.from_ms) FROM redeemable AS f)) IS NOT TRUE
        ORDER BY r.once
    ON CONFLICT DO NOTHING;
END $$;

-- A redemption whose check the node has not read is compared with the check by the commit.
-- What a request says of a check that it redeems.
CREATE TYPE unread_row AS (
    check_id           uuid,
    policy_version     integer,
    action_type        "char",
    amount             numeric,
    currency           text,
    agent_id           text,
    policy_id          text,
    counterparty       text,
    payment_method     text,
    merchant_or_vendor text,
    metadata           text
);

-- Refuses a commit because of a check that is not what a request says of it. It returns a value
-- only so that a condition can call it.
CREATE FUNCTION refuse_unread(check_id uuid) RETURNS boolean
LANGUAGE plpgsql
AS $$ BEGIN
    RAISE EXCEPTION 'the check is not what the redemption says' USING ERRCODE = 'SG008', DETAIL = check_id;
END $$;
