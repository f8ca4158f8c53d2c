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

CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON redemption_keys FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON redemption_keys EXECUTE FUNCTION refuse_change();

-- Records the lasting keys that are free, which other transactions may be about to take.
CREATE FUNCTION insert_redemption_keys(reports outcome_row[]) RETURNS void
LANGUAGE sql
AS $$
    INSERT INTO redemption_keys (key_hash, check_id)
        SELECT r.once, r.check_id FROM unnest(reports) AS r WHERE r.status = 'r' AND r.once IS NOT NULL ORDER BY r.once
    ON CONFLICT DO NOTHING
$$;

-- Whether a redemption is in time, and has its lasting key.
CREATE FUNCTION may_redeem(r outcome_row) RETURNS boolean
LANGUAGE sql
AS $$
    SELECT to_ms(clock_timestamp()) <= r.redeem_by AND (r.once IS NULL OR EXISTS (SELECT FROM redemption_keys AS k WHERE k.key_hash = r.once AND k.check_id = r.check_id))
        AND NOT EXISTS (SELECT FROM redeemable AS f WHERE r.check_id < first_id(f.from_ms))
$$;

-- Keeps redemptions_open.
CREATE FUNCTION note_redemptions(reports outcome_row[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO redemptions_open (check_id, redeemed_at) SELECT r.check_id, clock_timestamp() FROM unnest(reports) AS r WHERE r.status = 'r';
    UPDATE redemptions_open AS n SET doubted_at = clock_timestamp() FROM unnest(reports) AS r WHERE n.check_id = r.check_id AND r.status = 'd';
    DELETE FROM redemptions_open AS n USING unnest(reports) AS r WHERE n.check_id = r.check_id AND r.number = 1;
END $$;
