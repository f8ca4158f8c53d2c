package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// Policy returns a version of a policy, or audit.ErrNotFound.
func (s *Snapshot) Policy(ctx context.Context, policyID string, version int) (*audit.Policy, error) {
	p := &audit.Policy{PolicyID: policyID, Version: version}
	err := s.one(ctx, fmt.Sprintf("policy %q", policyID),
		[]any{&p.Name, &p.Description, &p.Rules, &p.Metadata, utc(&p.CreatedAt), utc(&p.UpdatedAt)},
		"SELECT name, description, rules, metadata, created_at, updated_at FROM {schema}.policies WHERE policy_id = $1 AND version = $2",
		policyID, version)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// KeyName returns the name of an API key, or audit.ErrNotFound.
func (s *Snapshot) KeyName(ctx context.Context, id spend.ID) (name string, err error) {
	err = s.one(ctx, "an API key", []any{&name}, "SELECT name FROM {schema}.keys WHERE id = $1", [16]byte(id))
	return name, err
}

// IdempotencyKeys implements verify.Evidence.
func (s *Snapshot) IdempotencyKeys(ctx context.Context, each func(verify.IdempotencyKey) error) error {
	return s.read(ctx, "the idempotency keys", func(ctx context.Context, tx pgx.Tx) error {
		var k verify.IdempotencyKey
		return stream(ctx, tx, []any{bytea(&k.Hash), uuid(&k.Check), utc(&k.Expires)}, func() error { return each(k) },
			s.in("SELECT key_hash, check_id, expires_at FROM {schema}.idempotency_keys ORDER BY key_hash"))
	})
}

// RedemptionKeys implements verify.Evidence.
func (s *Snapshot) RedemptionKeys(ctx context.Context, each func(verify.RedemptionKey) error) error {
	return s.read(ctx, "the lasting keys of redemptions", func(ctx context.Context, tx pgx.Tx) error {
		var k verify.RedemptionKey
		return stream(ctx, tx, []any{bytea(&k.Hash), uuid(&k.Check)}, func() error { return each(k) },
			s.in("SELECT key_hash, check_id FROM {schema}.redemption_keys ORDER BY key_hash"))
	})
}

// OpenRedemptions implements verify.Evidence.
func (s *Snapshot) OpenRedemptions(ctx context.Context, r verify.Range, each func(verify.OpenRedemption) error) error {
	return s.read(ctx, "the redemptions without an outcome", func(ctx context.Context, tx pgx.Tx) error {
		var o verify.OpenRedemption
		return stream(ctx, tx, []any{uuid(&o.Check), utc(&o.Redeemed), nullTime{&o.Doubted}}, func() error { return each(o) },
			s.in("SELECT check_id, redeemed_at, doubted_at FROM {schema}.redemptions_open "+within("check_id", r)))
	})
}

func (s *Snapshot) one(ctx context.Context, what string, into []any, query string, args ...any) error {
	return s.read(ctx, what, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, s.in(query), args...).Scan(into...)
		if errors.Is(err, pgx.ErrNoRows) {
			return audit.ErrNotFound
		}
		return err
	})
}
