package postgres

import (
	"context"
	"strings"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// CreateFreeze implements audit.Freezes.
func (s *Store) CreateFreeze(ctx context.Context, by audit.Actor, f audit.NewFreeze) (created *audit.Freeze, replayed bool, err error) {
	replayed, err = s.recordStop(ctx, audit.ChangeOfFreeze(audit.FreezeCreated, f.ID, f.Scope, f.Details(&by), by), f.Seen)
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
	return s.recordStop(ctx, audit.ChangeOfGrant(&c, by), c.Seen)
}

// recordStop records a change that stops what was judged before, and returns whether a creation was recorded before.
func (s *Store) recordStop(ctx context.Context, c audit.Change, seen int64) (replayed bool, err error) {
	err = s.control(ctx, "cannot record "+string(c.Kind)+" of "+c.Subject, []any{&replayed},
		byActor("SELECT record_stop($1, $2, $3, $4, $5, ", c.By, string(c.Kind), c.Subject, c.Hash[:], seen, c.Details))
	return replayed, err
}
