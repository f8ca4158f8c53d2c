package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// CreatePolicy implements audit.Policies.
func (s *Store) CreatePolicy(ctx context.Context, by audit.Actor, p *audit.Policy, b audit.NewBudgets, now time.Time) error {
	var createdMS int64
	var statements []textStatement
	if p.Replaces != nil {
		statements = append(statements, textCall("SELECT require_version($1, $2)", p.PolicyID, *p.Replaces))
	}
	err := s.control(ctx, fmt.Sprintf("cannot create policy %q", p.PolicyID),
		[]any{&p.Version, &createdMS, sqlstore.Parse(&p.Budgets, audit.ParseBudgets), &p.Forced},
		append(statements, byActor("SELECT * FROM create_policy($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, ", by,
			p.PolicyID, p.Name, p.Description, p.Rules, p.Metadata, orNull(p.Redeem.Text()), orNull(p.Changes),
			now.UnixMilli(), s.maxPolicyBytes, orNull(audit.IdentitiesText(b.Identities)), orNull(audit.DropText(b.Drop)), p.Note,
			orNull(by.AuthorText())))...)
	if asks, ok := errors.AsType[*audit.ChangeNeedsApprovalError](err); ok {
		asks.PolicyID = p.PolicyID
	}
	if err == nil {
		p.CreatedAt, p.UpdatedAt = fromMilli(createdMS), fromMilli(now.UnixMilli())
	}
	return err
}

// CreateKey implements audit.Keys.
func (s *Store) CreateKey(ctx context.Context, by audit.Actor, k *audit.Key) error {
	return s.control(ctx, "cannot create key "+k.ID.Text(spend.PrefixKey), nil, byActor("SELECT create_key($1, $2, $3, $4, $5, $6, $7, ", by,
		k.ID[:], k.Hash[:], k.Name, k.RateLimitRPM, k.Active, k.CreatedAt.UnixMilli(), orNull(k.Grants.Text())))
}

// UpdateKey implements audit.Keys.
func (s *Store) UpdateKey(ctx context.Context, by audit.Actor, id spend.ID, change audit.KeyChange) (*audit.Key, error) {
	var k audit.Key
	err := s.control(ctx, "cannot update key "+id.Text(spend.PrefixKey), sqlstore.KeyTargets(&k),
		byActor("SELECT "+sqlstore.KeyColumns+" FROM update_key($1, $2, $3, $4, $5, $6, ", by,
			id[:], pointed(change.Name), pointed(change.RateLimitRPM), pointed(change.Active), orNull(change.Grants.MergePatch()), change.Stops))
	return orNil(k, err)
}

// RecordExpiring implements audit.Keys.
func (s *Store) RecordExpiring(ctx context.Context, k *audit.Key) error {
	return s.control(ctx, "cannot record that key "+k.ID.Text(spend.PrefixKey)+" expires", nil,
		byActor("SELECT record_expiring($1, $2, ", audit.Actor{}, k.ID[:], k.Grants.Text()))
}

// NoteKeyUses implements audit.Keys. The rows are locked in one order, so that
// nodes that note the same keys do not deadlock.
func (s *Store) NoteKeyUses(ctx context.Context, uses []audit.KeyUse) error {
	ids, times := make([][16]byte, len(uses)), make([]int64, len(uses))
	for i, u := range uses {
		ids[i], times[i] = u.ID, u.At.UnixMilli()
	}
	_, err := database{s}.Exec(ctx, "cannot note uses of keys",
		`WITH held AS (SELECT id FROM keys WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE)
		UPDATE keys AS k SET last_used = from_ms(u.ms)
		FROM unnest($1::uuid[], $2::bigint[]) AS u (id, ms) JOIN held USING (id)
		WHERE k.id = u.id AND (k.last_used IS NULL OR k.last_used < from_ms(u.ms))`, ids, times)
	return err
}

// selectChanges reads the generation, the policies, the keys, freezes and grants in one statement, so that they are
// of one moment, and in one round trip, which a distant database must answer before checks are
// refused. Each row begins with its kind.
const selectChanges = `SELECT 'g', generation, NULL::uuid, NULL::bytea, '', 0, false,
		NULL::timestamptz, NULL::timestamptz, NULL::text, 0::bigint, 0::bigint, '', '', ''
	FROM config
	UNION ALL SELECT 's', stops, NULL, NULL, '', 0, false, NULL, NULL, NULL, 0, 0, '', '', '' FROM epoch
	UNION ALL SELECT 'p', 0, NULL, NULL, policy_id, 0, false, NULL, NULL, NULL, 0, 0, '', '', ''
		FROM (SELECT DISTINCT policy_id FROM policies WHERE generation > $1) AS changed
	UNION ALL SELECT 'k', 0, ` + sqlstore.KeyColumns + `, '', '', '' FROM keys WHERE generation > $1
	UNION ALL ` + selectStopping + ` c.kind LIKE 'freeze.%' AND c.seq > $1 AND ($1 > 0 OR c.kind = 'freeze.created' AND NOT EXISTS (
			SELECT FROM changes AS e WHERE e.subject = c.subject AND e.kind IN ('freeze.released', 'freeze.ended')))
	UNION ALL ` + selectStopping + ` c.kind LIKE 'grant.%' AND c.seq > $1
		AND from_ms((c.details::jsonb ->> 'until_ms')::bigint) > now() - interval '1 minute'`

const selectStopping = `SELECT c.kind, c.seq, NULL, NULL, c.subject, 0, false, c.at, NULL, NULL, 0, 0, c.details, coalesce(c.principal, ''),
		coalesce(c.key_id, '')
	FROM changes AS c WHERE`

// ConfigChanges implements audit.Store.
func (s *Store) ConfigChanges(ctx context.Context, since int64) (audit.ConfigChanges, error) {
	var changes audit.ConfigChanges
	err := s.read(ctx, "cannot read the configuration's changes", func(ctx context.Context, db *pgx.Conn) error {
		changes = audit.ConfigChanges{}
		rows, _ := db.Query(ctx, selectChanges, since) // the rows return its error
		var kind, details, principal, keyID string
		var generation int64
		var k audit.Key
		targets := slices.Concat([]any{&kind, &generation}, sqlstore.KeyTargets(&k), []any{&details, &principal, &keyID})
		_, err := pgx.ForEachRow(rows, pg.Targets(targets...), func() error {
			switch kind {
			case "g":
				changes.Generation = generation
			case "s":
				changes.Stops = generation
			case "p":
				changes.PolicyIDs = append(changes.PolicyIDs, k.Name)
			case "k":
				changes.Keys = append(changes.Keys, k)
			default:
				changes.Stopping = append(changes.Stopping, audit.Change{
					Seq: generation, Kind: audit.ChangeKind(kind), Subject: k.Name, At: k.CreatedAt,
					By: audit.Actor{KeyID: keyID, Principal: principal}, Details: details,
				})
			}
			return nil
		})
		return err
	})
	return changes, err
}

func fromMilli(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
