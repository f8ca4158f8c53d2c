-- A redemption whose check the node has not read: the commit compares it with the check.

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
