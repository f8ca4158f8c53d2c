package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// applicationName is the name of a node's sessions, unless the URL gives one.
const applicationName = "spendgate"

// ErrNodesConnected says that nodes are connected to the database.
var ErrNodesConnected = errors.New("nodes are connected to the database: stop them first, they remember what is gone")

// BeginRestored begins a new epoch before nodes start on a restored database. Its fences are those
// of the backup, so a node that was fenced after the backup could still record what it had claimed;
// and Redis may hold claims of checks that are gone. Neither counts in a new epoch. The existing
// checks can no longer be redeemed, since they may have been redeemed after the backup. Violations
// that came from another server are counted anew. Open approvals expire, since they may have been
// used after the backup. Webhooks are disabled until an admin enables them: their receivers have
// had the events, or belong to another deployment. Nobody is signed in any more. Everything is frozen
// until people release it: payments may have been carried out after the backup. It fails with ErrNodesConnected while nodes are connected.
func BeginRestored(ctx context.Context, url string) (r audit.Restored, err error) {
	conn, err := pg.ConnectOwner(ctx, url)
	if err != nil {
		return r, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // what it did is committed
	var nodes int
	names := []string{applicationName, conn.Config().RuntimeParams["application_name"]} // the nodes' name, if they use this URL
	err = conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = ANY ($1) AND application_name <> '' AND pid <> pg_backend_pid()`, names).
		Scan(&nodes)
	switch {
	case err != nil:
		return r, fmt.Errorf("cannot look for nodes: %w", err)
	case nodes > 0:
		return r, fmt.Errorf("%w (%d sessions)", ErrNodesConnected, nodes)
	}
	err = conn.QueryRow(ctx, "SELECT check_id FROM checks ORDER BY check_id DESC LIMIT 1").Scan(pg.UUID(&r.Last))
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return r, fmt.Errorf("cannot read the newest check: %w", err)
	}
	// Violations are counted, and events numbered, by transaction numbers, which mean nothing in another server. Changes that are made
	// here have numbers of this server, so they come behind.
	if _, err := conn.Exec(ctx, "SELECT recount_violations() FROM violation_count_state, pg_control_system() "+
		"WHERE cluster <> system_identifier"); err != nil {
		return r, fmt.Errorf("cannot have the violations counted anew: %w", err)
	}
	if r.Freeze, err = freezeRestored(ctx, conn); err != nil {
		return r, err
	}
	if r.Approvals, err = expireOpen(ctx, conn); err != nil {
		return r, err
	}
	err = conn.QueryRow(ctx, `SELECT count(*) FROM webhooks AS w,
		LATERAL update_webhook(w.id, NULL, NULL, false, NULL, 0, ROW('system', NULL, $1::text, NULL, NULL, NULL)::actor) WHERE w.active`,
		audit.Restorer().Principal).Scan(&r.Webhooks)
	if err != nil {
		return r, fmt.Errorf("cannot disable the webhooks: %w", err)
	}
	r.Epoch = spend.NewID(time.Now())
	if _, err := conn.Exec(ctx, "SELECT rotate_epoch(id, $1) FROM epoch", [16]byte(r.Epoch)); err != nil {
		return r, fmt.Errorf("cannot begin an epoch: %w", err)
	}
	if _, err := conn.Exec(ctx, sqlstore.EndSessions); err != nil {
		return r, fmt.Errorf("cannot end the sessions: %w", err)
	}
	if _, err := conn.Exec(ctx, "UPDATE redeemable SET from_ms = greatest(to_ms(clock_timestamp()), $1)", r.After()); err != nil {
		return r, fmt.Errorf("cannot end the redemption of what is there: %w", err)
	}
	return r, nil
}

// freezeRestored freezes everything, unless a freeze of an earlier restore still does, of which nobody has approved the
// release: that was of another gap.
func freezeRestored(ctx context.Context, conn *pgx.Conn) (id spend.ID, err error) {
	by := audit.Restorer()
	var name string
	err = conn.QueryRow(ctx, `SELECT c.subject FROM changes AS c WHERE c.kind LIKE 'freeze.%'
			AND c.kind = 'freeze.created' AND c.actor = 'system' AND c.principal = $1
			AND NOT EXISTS (SELECT FROM changes AS e WHERE e.subject = c.subject AND e.kind <> 'freeze.created')
		ORDER BY c.seq LIMIT 1`, by.Principal).Scan(&name)
	if errors.Is(err, pgx.ErrNoRows) {
		f := audit.RestoreFreeze()
		scope := f.Scope.Hash()
		name = f.ID.Text(spend.PrefixFreeze)
		_, err = conn.Exec(ctx, `SELECT record_stop('freeze.created', $1, encode($2, 'hex'), $3, $4,
			ROW('system', NULL, $5::text, NULL, NULL, NULL)::actor)`,
			name, scope[:], f.Seen, f.Details(&by), by.Principal)
	}
	if err != nil {
		return id, fmt.Errorf("cannot freeze everything: %w", err)
	}
	return spend.ParseID(name, spend.PrefixFreeze)
}

// expireOpen records that each pending or approved and unused approval has expired
// (audit.ChangeOfExpiry), whatever the clock says: an approval that has expired only by a clock
// that is ahead would be open again once the clock is right.
func expireOpen(ctx context.Context, conn *pgx.Conn) (expired int, err error) {
	err = conn.QueryRow(ctx, `WITH ended AS (
			DELETE FROM approval_deadlines AS d USING approvals AS a, state_of_approval(a) AS s
				WHERE d.approval_id = a.id RETURNING a.id, a.action_hash, s.status, s.approved_at
		)
		SELECT count(*) FROM (SELECT * FROM ended WHERE status IN ('pending', 'approved', 'expired') AND NOT EXISTS (
				SELECT FROM changes AS c WHERE c.subject = name_approval(ended.id) AND c.kind = 'approval.expired') ORDER BY id) AS a,
			LATERAL record_change(raise_generation(), 'approval.expired', name_approval(a.id), NULL,
				ROW('system', NULL, $1::text, NULL, NULL, NULL)::actor,
				jsonb_build_object('action_hash', encode(a.action_hash, 'hex'), 'restored', true,
					'was', CASE WHEN a.approved_at IS NULL THEN 'pending' ELSE 'approved' END), a.action_hash)`,
		audit.Restorer().Principal).Scan(&expired)
	if err != nil {
		return 0, fmt.Errorf("cannot have open approvals expire: %w", err)
	}
	return expired, nil
}
