package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// Policy is a version of a policy, or audit.ErrNotFound.
func (s *Snapshot) Policy(ctx context.Context, policyID string, version int) (*audit.Policy, error) {
	p := &audit.Policy{PolicyID: policyID, Version: version}
	err := s.one(ctx, fmt.Sprintf("cannot read policy %q", policyID), []any{&p.Name, &p.Description, &p.Rules, &p.Metadata, &p.CreatedAt, &p.UpdatedAt},
		"SELECT name, description, rules, metadata, created_at, updated_at FROM {schema}.policies WHERE policy_id = $1 AND version = $2", policyID, version)
	if err != nil {
		return nil, err
	}
	p.CreatedAt, p.UpdatedAt = p.CreatedAt.UTC(), p.UpdatedAt.UTC()
	return p, nil
}

// KeyName is the name of an API key, or audit.ErrNotFound.
func (s *Snapshot) KeyName(ctx context.Context, id spend.ID) (name string, err error) {
	err = s.one(ctx, "cannot read an API key", []any{&name}, "SELECT name FROM {schema}.keys WHERE id = $1", [16]byte(id))
	return name, err
}

func (s *Snapshot) one(ctx context.Context, doing string, into []any, query string, args ...any) error {
	err := s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, s.in(query), args...).Scan(into...)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
