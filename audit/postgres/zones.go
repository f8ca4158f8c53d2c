package postgres

import (
	"context"

	"spendgate/audit"
)

// ChangeZones implements audit.Zones.
func (s *Store) ChangeZones(ctx context.Context, by audit.Actor, seen, release string) error {
	return s.control(ctx, "cannot change the time zones", nil, byActor("SELECT change_zones($1, $2, ", by, seen, release))
}
