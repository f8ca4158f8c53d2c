package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"spendgate/hotpath/spend"
)

// Deployment implements audit.Fences.
func (s *Store) Deployment(ctx context.Context) (spend.ID, error) {
	id, err := readID(s.reader.QueryRowContext(ctx, "SELECT id FROM deployment"))
	if err != nil {
		return id, unavailable("cannot read the deployment's ID", err)
	}
	return id, nil
}

// Epoch implements audit.Fences.
func (s *Store) Epoch(ctx context.Context) (spend.ID, error) {
	epoch, err := readID(s.reader.QueryRowContext(ctx, "SELECT id FROM epoch"))
	if err != nil {
		return epoch, unavailable("cannot read the epoch", err)
	}
	return epoch, nil
}

func readID(row *sql.Row) (spend.ID, error) {
	var id []byte
	if err := row.Scan(&id); err != nil {
		return spend.ID{}, err
	}
	return spend.ID(id), nil
}

// RotateEpoch implements audit.Fences. Its turn at the one writing connection
// is the wait for the commits in progress.
func (s *Store) RotateEpoch(ctx context.Context, seen, next spend.ID) (current spend.ID, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.Exec("UPDATE epoch SET id = ? WHERE id = ?", next[:], seen[:]); err != nil {
			return err
		}
		current, err = readID(tx.QueryRow("SELECT id FROM epoch"))
		return err
	})
	if err != nil {
		return spend.ID{}, fmt.Errorf("cannot rotate the epoch: %w", err)
	}
	return current, nil
}

// Fence implements audit.Fences; it waits as RotateEpoch does.
func (s *Store) Fence(ctx context.Context, node spend.ID) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO fenced_nodes (node) VALUES (?) ON CONFLICT DO NOTHING", node[:])
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot fence a node: %w", err)
	}
	return nil
}
