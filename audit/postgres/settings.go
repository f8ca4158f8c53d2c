package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// commitSettings are for the sessions that commit, so that the functions they call need no settings
// of their own: a plan is made once, and counters are looked up in the order of their changes.
const commitSettings = `SELECT set_config(name, value, false) FROM (VALUES ('plan_cache_mode', 'force_generic_plan'),
	('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'), ('enable_seqscan', 'off'), ('jit', 'off')) AS wanted (name, value)`

// prepareCommits adds commitSettings to what prepares the sessions of c.
func prepareCommits(c *pgconn.Config) {
	before := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := before(ctx, conn); err != nil {
			return err
		}
		if err := conn.Exec(ctx, commitSettings).Close(); err != nil {
			return fmt.Errorf("cannot set up the session: %w", err)
		}
		return nil
	}
}
