package sqlite

import (
	"context"
	"database/sql"
	"time"

	"spendgate/audit"
)

// ChangeZones implements audit.Zones.
func (s *Store) ChangeZones(ctx context.Context, by audit.Actor, seen, release string) error {
	return s.write(ctx, "cannot change the time zones", func(tx *sql.Tx) error {
		now, err := scalar[string](tx.QueryRow(`SELECT coalesce((SELECT details ->> 'release' FROM changes
			WHERE subject = ? AND kind = ? ORDER BY seq DESC LIMIT 1), '')`, audit.ZonesSubject, string(audit.ZonesChanged)))
		if err != nil || now != seen {
			return err
		}
		return record(tx, audit.ChangeOfZones(by, seen, release, time.Now()))
	})
}
