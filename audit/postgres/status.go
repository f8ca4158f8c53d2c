package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
)

// selectStatus reads the settings in force and the synchronous standbys that are
// connected. Of a role that may not see which are synchronous (it lacks
// pg_read_all_stats) all that are connected count.
const selectStatus = `SELECT clock_timestamp(), current_setting('fsync'), current_setting('full_page_writes'),
	current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
	(SELECT count(*) FROM pg_stat_replication WHERE coalesce(sync_state, 'sync') IN ('sync', 'quorum'))`

// Status implements audit.Store.
func (s *Store) Status(ctx context.Context) (audit.Status, error) {
	var clock time.Time
	var fsync, pages, commit, standbys string
	var connected int
	err := s.read(ctx, "cannot read the database's settings", func(ctx context.Context, db *pgx.Conn) error {
		return db.QueryRow(ctx, selectStatus).Scan(&clock, &fsync, &pages, &commit, &standbys, &connected)
	})
	if err != nil {
		return audit.Status{}, err
	}
	status := audit.Status{
		Clock:     clock,
		Breakable: fsync != "on" || pages != "on",
	}
	status.Safe = !status.Breakable && (commit == "on" || commit == "remote_apply")
	replica := "no synchronous standby"
	if needed := standbysNeeded(standbys); needed > 0 {
		replica = "synchronous standbys " + standbys
		if status.StandbysMissing = max(needed-connected, 0); status.StandbysMissing > 0 {
			replica += fmt.Sprintf(" (%d of %d not connected: commits wait)", status.StandbysMissing, needed)
		}
	}
	status.Durability = fmt.Sprintf("fsync %s, full_page_writes %s, synchronous_commit %s, %s", fsync, pages, commit, replica)
	return status, nil
}

// standbysNeeded returns how many standbys a commit waits for, of a value of
// synchronous_standby_names: FIRST 2 (a, b, c), ANY 2 (a, b, c), 2 (a, b), or a, b.
func standbysNeeded(names string) int {
	if names == "" {
		return 0
	}
	if counted := regexp.MustCompile(`(?i)^\s*(?:first\s+|any\s+)?(\d+)\s*\(`).FindStringSubmatch(names); counted != nil {
		if n, err := strconv.Atoi(counted[1]); err == nil {
			return n
		}
	}
	return 1
}
