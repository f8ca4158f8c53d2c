-- A version of a policy may be made on the condition that another is in force (S54).

-- Fails with SG016 and the version in force, 0 where there is none, when that is another. No
-- version is made from here on until the transaction ends: see raise_generation.
CREATE FUNCTION require_version(policy text, in_force integer) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    latest integer;
BEGIN
    PERFORM FROM config FOR NO KEY UPDATE;
    SELECT coalesce(max(p.version), 0) INTO latest FROM policies AS p WHERE p.policy_id = policy;
    IF latest <> in_force THEN
        RAISE EXCEPTION 'version % is in force', latest USING ERRCODE = 'SG016', DETAIL = latest;
    END IF;
END $$;

DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION require_version(text, integer) SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END $$;

REVOKE EXECUTE ON FUNCTION require_version(text, integer) FROM PUBLIC;
