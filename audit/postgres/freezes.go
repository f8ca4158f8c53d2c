package postgres

import (
	"context"
	"strings"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// CreateFreeze implements audit.Freezes.
func (s *Store) CreateFreeze(ctx context.Context, by audit.Actor, f audit.NewFreeze) (created *audit.Freeze, replayed bool, err error) {
	replayed, err = s.recordStop(ctx, by, audit.FreezeCreated, f.ID.Text(spend.PrefixFreeze), f.Scope.Hash(), f.Seen, f.Details(&by))
	if err != nil {
		return nil, false, err
	}
	created, err = s.Freeze(ctx, f.ID)
	return created, replayed, err
}

// ReleaseFreeze implements audit.Freezes.
func (s *Store) ReleaseFreeze(ctx context.Context, by audit.Actor, r audit.FreezeRelease) error {
	scope := r.Freeze.Scope.Hash()
	id := r.Freeze.ID.Text(spend.PrefixFreeze)
	var kinds []string
	for _, kind := range r.Kinds(&by) {
		kinds = append(kinds, string(kind))
	}
	return s.control(ctx, "cannot release freeze "+id, nil, byActor("SELECT release_freeze($1, $2, $3, $4, $5, $6, $7, ", by,
		id, scope[:], r.Freeze.Last, r.Keys, "{"+strings.Join(kinds, ",")+"}", r.Details(&by), r.Freeze.EndDetails()))
}

// EndFreeze implements audit.Freezes.
func (s *Store) EndFreeze(ctx context.Context, f *audit.Freeze) error {
	scope := f.Scope.Hash()
	id := f.ID.Text(spend.PrefixFreeze)
	return s.control(ctx, "cannot end freeze "+id, nil, byActor("SELECT end_freeze($1, $2, $3, $4, ", audit.Actor{},
		id, scope[:], f.Until.UnixMilli(), f.EndDetails()))
}

// RecordGrant implements audit.BudgetGrants.
func (s *Store) RecordGrant(ctx context.Context, by audit.Actor, c audit.GrantChange) (replayed bool, err error) {
	return s.recordStop(ctx, by, c.Kind, c.ID.Text(spend.PrefixGrant), c.Terms.Hash(), c.Seen, c.Details(&by))
}

// recordStop records a change that stops what was judged before, and returns whether a creation was recorded before.
func (s *Store) recordStop(
	ctx context.Context, by audit.Actor, kind audit.ChangeKind, name string, hash spend.Hash, seen int64, details string,
) (replayed bool, err error) {
	err = s.control(ctx, "cannot record "+string(kind)+" of "+name, []any{&replayed}, byActor("SELECT record_stop($1, $2, $3, $4, $5, ", by,
		string(kind), name, hash[:], seen, details))
	return replayed, err
}
