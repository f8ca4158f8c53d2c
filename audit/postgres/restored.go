package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/spend"
)

// applicationName is what nodes call their sessions, unless the URL has a name.
const applicationName = "spendgate"

// Restored is what a database that was restored from a backup holds.
type Restored struct {
	Last  spend.ID // of the newest check; zero when there is none
	Epoch spend.ID // the new one
	// Webhooks is how many were active, and are disabled.
	Webhooks int
}

// ErrNodesConnected says that nodes are at work.
var ErrNodesConnected = errors.New("nodes are connected to the database: stop them first, they remember what is gone")

// BeginRestored begins a new epoch, before nodes start on a database that was
// restored. Its fences are the backup's, so a node that was cut off later
// could record what it had claimed; and Redis may hold claims of checks that
// are gone. Neither counts in a new epoch. No check that is there is redeemed
// any more: it may have been, after the backup. Violations that came from another
// server are counted anew. Webhooks are disabled until an admin enables them: their
// receivers have had the events, or are another deployment's. It fails with ErrNodesConnected.
func BeginRestored(ctx context.Context, url string) (r Restored, err error) {
	conn, err := connectOwner(ctx, url)
	if err != nil {
		return r, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // what it did is committed
	var nodes int
	names := []string{applicationName, conn.Config().RuntimeParams["application_name"]} // theirs, if the URL is
	err = conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = ANY ($1) AND application_name <> '' AND pid <> pg_backend_pid()`, names).
		Scan(&nodes)
	switch {
	case err != nil:
		return r, fmt.Errorf("cannot look for nodes: %w", err)
	case nodes > 0:
		return r, fmt.Errorf("%w (%d sessions)", ErrNodesConnected, nodes)
	}
	err = conn.QueryRow(ctx, `SELECT count(*) FROM webhooks AS w,
		LATERAL update_webhook(w.id, NULL, NULL, false, NULL, 0, ROW('system', NULL, 'audit restored', NULL, NULL, NULL)::actor) WHERE w.active`).
		Scan(&r.Webhooks)
	if err != nil {
		return r, fmt.Errorf("cannot disable the webhooks: %w", err)
	}
	r.Epoch = spend.NewID(time.Now())
	if _, err := conn.Exec(ctx, "SELECT rotate_epoch(id, $1) FROM epoch", [16]byte(r.Epoch)); err != nil {
		return r, fmt.Errorf("cannot begin an epoch: %w", err)
	}
	if _, err := conn.Exec(ctx, "UPDATE redeemable SET from_ms = to_ms(clock_timestamp())"); err != nil {
		return r, fmt.Errorf("cannot end the redemption of what is there: %w", err)
	}
	// Violations are counted by numbers of transactions, which are this server's own.
	if _, err := conn.Exec(ctx, "SELECT recount_violations() FROM violation_count_state, pg_control_system() "+
		"WHERE cluster <> system_identifier"); err != nil {
		return r, fmt.Errorf("cannot have the violations counted anew: %w", err)
	}
	err = conn.QueryRow(ctx, "SELECT check_id FROM checks ORDER BY check_id DESC LIMIT 1").Scan(uuid(&r.Last))
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return r, fmt.Errorf("cannot read the newest check: %w", err)
	}
	return r, nil
}
