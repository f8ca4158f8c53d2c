-- Nodes need not own what they write to (deploy/postgres/grants.sql). A
-- partition belongs to the owner of checks, whoever asks for it: this runs with
-- the owner's rights, and with a search_path in which a caller can put nothing.
DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION make_partition(date) SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END $$;

REVOKE EXECUTE ON FUNCTION make_partition(date) FROM PUBLIC;
