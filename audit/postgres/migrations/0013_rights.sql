-- Rows of these, like those of checks and violations, never change (G8).
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['outcomes', 'batches', 'events', 'budget_exhaustions', 'approvals', 'approval_uses', 'policies', 'changes', 'archived_days', 'archived_violations'] LOOP
        EXECUTE format('CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON %I EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;

-- Rights. Nodes need not own what they write to (deploy/postgres/grants.sql).
-- What they may only do as a whole runs with the owner's rights, and with a
-- search_path in which a caller can put nothing; a partition belongs to the owner
-- of checks, whoever asks for it, and policies and keys change with their record
-- alone.
DO $$
DECLARE
    fixed text;
BEGIN
    FOREACH fixed IN ARRAY ARRAY['make_partition(date)', 'count_violations(integer)', 'sequence_events(integer)', 'refuse_archived_day()', 'default_partition_occupied()',
            'require_recorded_policy()', 'require_recorded_key()', 'create_policy(text, text, text, text, text, text, text, bigint, bigint, jsonb, jsonb, text, actor)',
            'create_key(uuid, text, text, integer, boolean, bigint, jsonb, actor)', 'update_key(uuid, text, integer, boolean, jsonb, actor)',
            'create_webhook(uuid, text, text, boolean, text, bigint, bigint, integer, actor)', 'require_recorded_webhook()',
            'update_webhook(uuid, text, text, boolean, text, bigint, actor)', 'delete_webhook(uuid, actor)',
            'decide_approval(uuid, bytea, boolean, text, jsonb, boolean, text, bigint, jsonb, actor)', 'use_approvals(uuid[], uuid[], bytea[])', 'expire_approvals(integer, actor)',
            'state_of_approval(approvals)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', fixed, current_schema());
    END LOOP;
    EXECUTE format('ALTER FUNCTION recount_violations() SET search_path = %I, pg_temp', current_schema());
END $$;

REVOKE EXECUTE ON FUNCTION make_partition(date), detach_day(date, bigint, bytea), close_day(date), empty_default_partition(),
    detach_violations(date, bigint, bytea), trim_violation_counts(), delete_violations(date, uuid, integer),
    count_violations(integer), split_bucket(text, uuid), recount_violations(),
    find_action(uuid), event_sources(xid8, xid8, xid8[]), event_positions(xid8, integer), events_wait(), sequence_events(integer), sequence_restored(),
    create_policy(text, text, text, text, text, text, text, bigint, bigint, jsonb, jsonb, text, actor), add_policy(text, text, text, text, text, text, text, bigint, bigint, jsonb, jsonb, text, actor),
    record_forced(text, integer, bigint, integer, actor), create_key(uuid, text, text, integer, boolean, bigint, jsonb, actor),
    create_webhook(uuid, text, text, boolean, text, bigint, bigint, integer, actor),
    update_webhook(uuid, text, text, boolean, text, bigint, actor), delete_webhook(uuid, actor),
    update_key(uuid, text, integer, boolean, jsonb, actor), decide_approval(uuid, bytea, boolean, text, jsonb, boolean, text, bigint, jsonb, actor),
    use_approvals(uuid[], uuid[], bytea[]), expire_approvals(integer, actor) FROM PUBLIC;
