package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// CreatePolicy implements audit.Policies.
func (s *Store) CreatePolicy(ctx context.Context, by audit.Actor, p *audit.Policy, now time.Time) error {
	row, err := s.control(ctx, byActor("SELECT * FROM create_policy($1, $2, $3, $4, $5, $6, $7, $8, ", by,
		[]byte(p.PolicyID), []byte(p.Name), []byte(p.Description), []byte(p.Rules), []byte(p.Metadata), intText(now.UnixMilli()),
		intText(s.maxPolicyBytes), textOrNull(audit.IdentitiesText(p.Budgets))))
	if err != nil {
		return fmt.Errorf("cannot create policy %q: %w", p.PolicyID, err)
	}
	version, created, err := twoInts(row[:2])
	if err == nil {
		p.Budgets, err = audit.ParseBudgets(string(row[2]))
	}
	if err != nil {
		return fmt.Errorf("cannot read the new version of policy %q: %w", p.PolicyID, err)
	}
	p.Version, p.CreatedAt, p.UpdatedAt = int(version), fromMilli(created), fromMilli(now.UnixMilli())
	return nil
}

// textOrNull is null for an empty text.
func textOrNull(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func intText(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

func twoInts(row [][]byte) (a, b int64, err error) {
	if len(row) != 2 {
		return 0, 0, fmt.Errorf("%d columns", len(row))
	}
	if a, err = strconv.ParseInt(string(row[0]), 10, 64); err != nil {
		return 0, 0, err
	}
	b, err = strconv.ParseInt(string(row[1]), 10, 64)
	return a, b, err
}

// CreateKey implements audit.Keys.
func (s *Store) CreateKey(ctx context.Context, by audit.Actor, k *audit.Key) error {
	_, err := s.control(ctx, byActor("SELECT create_key($1, $2, $3, $4, $5, $6, $7, ", by,
		hexText(k.ID[:]), hexText(k.Hash[:]), []byte(k.Name), intText(int64(k.RateLimitRPM)), strconv.AppendBool(nil, k.Active), intText(k.CreatedAt.UnixMilli()),
		textOrNull(k.Grants.Text())))
	if err != nil {
		return fmt.Errorf("cannot create key %s: %w", k.ID.Text(spend.PrefixKey), err)
	}
	return nil
}

// UpdateKey implements audit.Keys.
func (s *Store) UpdateKey(ctx context.Context, by audit.Actor, id spend.ID, change audit.KeyChange) (*audit.Key, error) {
	var name, rpm, active []byte // null for what stays
	if change.Name != nil {
		name = append([]byte{}, *change.Name...)
	}
	if change.RateLimitRPM != nil {
		rpm = intText(int64(*change.RateLimitRPM))
	}
	if change.Active != nil {
		active = strconv.AppendBool(nil, *change.Active)
	}
	row, err := s.control(ctx, byActor(`SELECT encode(hash, 'hex'), name, active, rpm, to_ms(created_at), coalesce(to_ms(last_used), 0), grants::text
		FROM update_key($1, $2, $3, $4, $5, `, by, hexText(id[:]), name, rpm, active, textOrNull(change.Grants.MergePatch())))
	if err == nil && row == nil {
		err = audit.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("cannot update key %s: %w", id.Text(spend.PrefixKey), err)
	}
	k := &audit.Key{ID: id, Name: string(row[1]), Active: string(row[2]) == "t"}
	limit, err := strconv.Atoi(string(row[3]))
	if err != nil {
		return nil, fmt.Errorf("cannot read key %s: %w", id.Text(spend.PrefixKey), err)
	}
	created, used, err := twoInts(row[4:6])
	if err == nil {
		_, err = hex.Decode(k.Hash[:], row[0])
	}
	if err == nil {
		k.Grants, err = spend.ParseGrants(string(row[6]))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read key %s: %w", id.Text(spend.PrefixKey), err)
	}
	k.RateLimitRPM, k.CreatedAt = limit, fromMilli(created)
	if used != 0 {
		k.LastUsedAt = fromMilli(used)
	}
	return k, nil
}

// NoteKeyUses implements audit.Keys. The rows are locked in one order, so that
// nodes that note the same keys do not deadlock.
func (s *Store) NoteKeyUses(ctx context.Context, uses []audit.KeyUse) error {
	ids, times := make([][16]byte, len(uses)), make([]int64, len(uses))
	for i, u := range uses {
		ids[i], times[i] = u.ID, u.At.UnixMilli()
	}
	return s.read(ctx, "cannot note uses of keys", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, as a reading may
		_, err := db.Exec(ctx, `WITH held AS (SELECT id FROM keys WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE)
			UPDATE keys AS k SET last_used = from_ms(u.ms)
			FROM unnest($1::uuid[], $2::bigint[]) AS u (id, ms) JOIN held USING (id)
			WHERE k.id = u.id AND (k.last_used IS NULL OR k.last_used < from_ms(u.ms))`, ids, times)
		return err
	})
}

const selectKeys = "SELECT id, hash, name, rpm, active, created_at, last_used, grants::text FROM keys "

// ListKeys implements audit.Keys.
func (s *Store) ListKeys(ctx context.Context, before spend.ID, limit int) (keys []audit.Key, more bool, total int64, err error) {
	const doing = "cannot list keys"
	if before.IsZero() {
		before = newest
	}
	err = s.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error {
		return db.QueryRow(ctx, "SELECT count(*) FROM keys").Scan(&total)
	})
	if err != nil {
		return nil, false, 0, err
	}
	keys, err = collect(ctx, s, doing, scanKey, selectKeys+"WHERE id < $1 ORDER BY id DESC LIMIT $2", [16]byte(before), limit+1)
	if len(keys) > limit {
		keys, more = keys[:limit], true
	}
	return keys, more, total, err
}

// KeyByHash implements audit.Keys.
func (s *Store) KeyByHash(ctx context.Context, hash spend.Hash) (*audit.Key, error) {
	keys, err := collect(ctx, s, "cannot read a key", scanKey, selectKeys+"WHERE hash = $1", hash[:])
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("cannot read a key: %w", audit.ErrNotFound)
	}
	return &keys[0], nil
}

func scanKey(row pgx.CollectableRow) (audit.Key, error) {
	var k audit.Key
	var rest keyRest
	if err := row.Scan(uuid(&k.ID), &rest.hash, &k.Name, &k.RateLimitRPM, &k.Active, &k.CreatedAt, &rest.used, &rest.grants); err != nil {
		return k, err
	}
	return rest.complete(k)
}

// keyRest is what a column of a key cannot be scanned into its field.
type keyRest struct {
	hash   []byte
	used   *time.Time
	grants *string
}

func (r *keyRest) complete(k audit.Key) (_ audit.Key, err error) {
	copy(k.Hash[:], r.hash)
	k.CreatedAt = k.CreatedAt.UTC()
	if r.used != nil {
		k.LastUsedAt = r.used.UTC()
	}
	if k.Grants = (spend.Grants{}); r.grants != nil {
		k.Grants, err = spend.ParseGrants(*r.grants)
	}
	return k, err
}

// selectChanges reads the generation, the policies and the keys: one statement,
// so that they are of one moment, and one round trip, which a distant database
// must answer before checks are refused. Rows are told apart by their kind.
const selectChanges = `SELECT 'g', generation, '', $2::uuid, ''::bytea, 0, false, timestamptz 'epoch', NULL::timestamptz, NULL::text FROM config
	UNION ALL SELECT DISTINCT 'p', 0, policy_id, $2::uuid, ''::bytea, 0, false, timestamptz 'epoch', NULL::timestamptz, NULL::text FROM policies WHERE generation > $1
	UNION ALL SELECT 'k', 0, name, id, hash, rpm, active, created_at, last_used, grants::text FROM keys WHERE generation > $1`

// ConfigChanges implements audit.Store.
func (s *Store) ConfigChanges(ctx context.Context, since int64) (audit.ConfigChanges, error) {
	var changes audit.ConfigChanges
	err := s.read(ctx, "cannot read the configuration's changes", func(ctx context.Context, db *pgx.Conn) error {
		changes = audit.ConfigChanges{}
		rows, err := db.Query(ctx, selectChanges, since, [16]byte{})
		if err != nil {
			return err
		}
		var kind string
		var generation int64
		var k audit.Key
		var rest keyRest
		_, err = pgx.ForEachRow(rows, []any{&kind, &generation, &k.Name, uuid(&k.ID), &rest.hash, &k.RateLimitRPM, &k.Active, &k.CreatedAt, &rest.used, &rest.grants}, func() (err error) {
			switch kind {
			case "g":
				changes.Generation = generation
			case "p":
				changes.PolicyIDs = append(changes.PolicyIDs, k.Name)
			case "k":
				var whole audit.Key
				whole, err = rest.complete(k)
				changes.Keys = append(changes.Keys, whole)
			}
			return err
		})
		return err
	})
	return changes, err
}

func fromMilli(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
