package sqlite

import (
	"context"
	"database/sql"

	"spendgate/audit/spend"
)

// RotateEpoch implements audit.Fences. Taking its turn on the one writing connection is the wait
// for the commits in progress.
func (s *Store) RotateEpoch(ctx context.Context, seen, next spend.ID) (current spend.ID, err error) {
	err = s.write(ctx, "cannot rotate the epoch", func(tx *sql.Tx) error {
		if _, err := tx.Exec("UPDATE epoch SET id = ? WHERE id = ?", next[:], seen[:]); err != nil {
			return err
		}
		current, err = scanID(tx.QueryRow("SELECT id FROM epoch"))
		return err
	})
	return current, err
}

// Fence implements audit.Fences; it waits as RotateEpoch does.
func (s *Store) Fence(ctx context.Context, node spend.ID) error {
	return s.write(ctx, "cannot fence a node", func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO fenced_nodes (node) VALUES (?) ON CONFLICT DO NOTHING", node[:])
		return err
	})
}
