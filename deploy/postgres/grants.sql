-- Grants the service's role what a node needs and revokes everything else.
-- Run it as the owner after each migration, before nodes of that version start.
--
--   psql -v service=spendgate -v schema=spendgate -f grants.sql
--
-- What was recorded cannot be changed by the service: no UPDATE, DELETE or
-- TRUNCATE of checks, violations, outcomes, policies, changes and their chains, no trigger to disable, no table
-- to drop. Partitions are reached through checks alone.
\set ON_ERROR_STOP on

BEGIN;
SET LOCAL search_path = :"schema";
SET LOCAL lock_timeout = 0;
-- One at a time, and not beside a migration: two that change the same rights at once fail.
DO $$ BEGIN PERFORM pg_advisory_xact_lock(hashtext('migrations'), hashtext(current_schema())); END $$;

REVOKE ALL ON SCHEMA :"schema" FROM PUBLIC, :"service";
REVOKE ALL ON ALL TABLES IN SCHEMA :"schema" FROM PUBLIC, :"service";
GRANT USAGE ON SCHEMA :"schema" TO :"service";

-- The record.
GRANT SELECT, INSERT ON checks, violations, outcomes, batches, approvals, approval_deadlines, budget_exhaustions TO :"service";

-- The configuration changes by functions that record each change; the use of a key
-- is no change.
GRANT SELECT ON policies, drafts, keys, changes, config, approval_uses, webhooks TO :"service";
GRANT UPDATE (last_used) ON keys TO :"service";
GRANT EXECUTE ON FUNCTION require_version, create_policy, put_draft, delete_draft, promote_draft, decide_draft, decide_approval, use_approvals, reopen_unused,
    withdraw_approvals, expire_approvals, change_zones, remove_payments, record_stop, release_freeze, end_freeze, create_key, update_key, record_expiring, create_webhook, update_webhook, delete_webhook TO :"service";

-- Deliveries to webhooks: how far they are, what is tried again, and their log.
GRANT SELECT ON webhook_states TO :"service";
GRANT UPDATE (cursor, failures, resume_at, holder, held_until) ON webhook_states TO :"service";
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_retries TO :"service";
GRANT SELECT, INSERT, DELETE ON webhook_deliveries TO :"service";

-- Backtests, which are derived from the record.
GRANT SELECT, INSERT, UPDATE, DELETE ON backtests TO :"service";
GRANT SELECT, INSERT, DELETE ON backtest_flips TO :"service";

-- Who is signed in: no part of the record.
GRANT SELECT, INSERT, UPDATE, DELETE ON sessions TO :"service";
GRANT SELECT, INSERT, UPDATE, DELETE ON session_logouts TO :"service";
GRANT SELECT, INSERT ON session_askers TO :"service";

-- State of the nodes: keys expire, the rest is replaced.
GRANT SELECT, INSERT, UPDATE, DELETE ON nodes, idempotency_keys, budget_counters, budget_principals, redemptions_open, allows_open TO :"service";
GRANT SELECT, INSERT ON payment_checks TO :"service";
GRANT SELECT, INSERT, UPDATE ON fenced_nodes, payments TO :"service";
GRANT SELECT, UPDATE ON epoch, horizon TO :"service";
GRANT SELECT ON kept_checks, deployment, migrations, redeemable, archived_days, archived_violations, violation_count_state, violation_counts, check_count_state, check_counts, folded_check_counts, folded_chains, events, event_state TO :"service";

-- Counts of violations and checks are changed, and events numbered, by functions that can do
-- nothing else.
GRANT EXECUTE ON FUNCTION make_partition, count_violations, count_checks, sequence_events, remove_events, delete_events TO :"service";
REVOKE EXECUTE ON FUNCTION close_day, detach_day, empty_default_partition, detach_violations, trim_violation_counts, delete_violations,
    fold_chains FROM PUBLIC, :"service";
COMMIT;
