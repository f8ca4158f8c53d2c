-- Rows of these, like those of checks and violations, never change (G8): of those with a function of
-- their own, but for what it lets leave on record.
DO $$
DECLARE
    name    text;
    refuses text;
BEGIN
    FOR name, refuses IN VALUES ('outcomes', 'refuse_change_of_outcome'), ('batches', 'refuse_change_of_batch'), ('events', 'refuse_change_of_event'),
            ('budget_exhaustions', 'refuse_change'), ('approvals', 'refuse_change'), ('approval_uses', 'refuse_change'), ('policies', 'refuse_change'),
            ('drafts', 'refuse_change'), ('changes', 'refuse_change'), ('archived_days', 'refuse_change'),
            ('archived_violations', 'refuse_change'), ('kept_checks', 'refuse_change_of_kept'), ('folded_chains', 'refuse_change') LOOP
        EXECUTE format('CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION %I()', name, refuses);
        EXECUTE format('CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON %I EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;

-- Rights. Nodes need not own what they write to (deploy/postgres/grants.sql).
-- What they may only do as a whole runs with the owner's rights, and with a
-- search_path in which a caller can put nothing; a partition belongs to the owner
-- of checks, whoever asks for it, and policies and keys change with their record
-- alone. Nobody else may call these, but for what triggers call.
DO $$
DECLARE
    fixed text;
    of    regprocedure;
BEGIN
    FOREACH fixed IN ARRAY ARRAY['make_partition', 'count_violations', 'count_checks', 'sequence_events', 'remove_events', 'delete_events',
            'refuse_archived_day', 'default_partition_occupied', 'require_recorded_policy', 'require_recorded_key', 'require_recorded_webhook',
            'require_recorded_draft', 'require_version', 'create_policy', 'create_key', 'update_key', 'create_webhook', 'update_webhook', 'delete_webhook',
            'put_draft', 'delete_draft', 'promote_draft', 'decide_draft', 'decide_approval', 'use_approvals', 'reopen_unused', 'withdraw_approvals', 'expire_approvals', 'state_of_approval',
            'change_zones', 'remove_payments', 'record_stop', 'release_freeze', 'end_freeze', 'record_expiring'] LOOP
        of := fixed::regproc::oid::regprocedure;
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp', of, current_schema());
    END LOOP;
    EXECUTE format('ALTER FUNCTION recount_violations() SET search_path = %I, pg_temp', current_schema());
    FOREACH fixed IN ARRAY ARRAY['make_partition', 'detach_day', 'close_day', 'empty_default_partition', 'detach_violations', 'trim_violation_counts',
            'delete_violations', 'count_violations', 'split_bucket', 'recount_violations', 'count_checks', 'recount_checks', 'find_action', 'event_sources',
            'event_positions', 'events_wait', 'sequence_events', 'sequence_restored', 'remove_events', 'delete_events', 'create_policy', 'add_policy',
            'record_forced', 'require_version', 'create_key', 'update_key', 'create_webhook', 'update_webhook', 'delete_webhook', 'put_draft', 'delete_draft',
            'promote_draft', 'record_draft', 'decide_draft', 'decide_approval', 'use_approvals', 'reopen_approval', 'reopen_unused', 'withdraw_approvals', 'withdraw_approval', 'expire_approvals', 'foldable_batches', 'fold_chains',
            'listed_outcomes', 'change_zones', 'remove_payments', 'record_stop', 'release_freeze', 'end_freeze', 'record_expiring'] LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', fixed::regproc::oid::regprocedure);
    END LOOP;
END $$;
