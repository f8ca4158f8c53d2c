package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// Checks implements audit.Trail.
func (s *Store) Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return collect(ctx, s, "cannot look up checks", scanCheck,
		"SELECT "+columnList(chain.CheckColumns())+" FROM checks WHERE check_id = ANY ($1::uuid[])",
		pgx.QueryResultFormats{pgx.BinaryFormatCode}, uuids(ids))
}

// scanCheck decodes the fields that are hashed, in the form in which they are:
// what is served is what is verified.
func scanCheck(row pgx.CollectableRow) (*spend.Check, error) {
	c, _, err := chain.CheckOf(row.RawValues())
	if err != nil {
		return nil, err
	}
	if text := c.Action.Metadata.JSON; text != "" {
		var faults spend.Faults
		c.Action.Metadata = spend.ParseMetadata(text, "metadata", &faults)
		if err := faults.Err(); err != nil {
			return nil, fmt.Errorf("check %s: %w", c.ID.Text(spend.PrefixCheck), err)
		}
	}
	return c, nil
}

// CheckIDsByKey implements audit.Trail.
func (s *Store) CheckIDsByKey(ctx context.Context, keyHashes []spend.Hash) (map[spend.Hash]spend.ID, error) {
	found := make(map[spend.Hash]spend.ID, len(keyHashes))
	if len(keyHashes) == 0 {
		return found, nil
	}
	_, err := collect(ctx, s, "cannot look up idempotency keys", func(row pgx.CollectableRow) (_ struct{}, err error) {
		var hash []byte
		var id spend.ID
		if err = row.Scan(&hash, uuid(&id)); err == nil {
			found[spend.Hash(hash)] = id
		}
		return struct{}{}, err
	}, "SELECT key_hash, check_id FROM idempotency_keys WHERE key_hash = ANY ($1::bytea[]) AND expires_at > clock_timestamp()",
		byteas(keyHashes))
	return found, err
}

// oldestPass is the smallest identifier that a pass in force at nowMS can
// have. A query that is given it touches the partitions of the last minutes or
// days only, whatever the trail's age. It is asked for apart: a planner that
// does not know the value prepares for every partition there is.
func (s *Store) oldestPass(ctx context.Context, nowMS int64) (oldest spend.ID, err error) {
	err = s.read(ctx, "cannot read the horizon of passes", func(ctx context.Context, db *pgx.Conn) error {
		return db.QueryRow(ctx, "SELECT first_id($1 - ms) FROM horizon", nowMS).Scan(uuid(&oldest))
	})
	return oldest, err
}

// LivePasses implements audit.Trail.
func (s *Store) LivePasses(ctx context.Context, fingerprints []spend.Hash, nowMS int64, onlyAllowed bool) (map[spend.Hash]audit.LivePass, error) {
	latest := make(map[spend.Hash]audit.LivePass, len(fingerprints))
	if len(fingerprints) == 0 {
		return latest, nil
	}
	oldest, err := s.oldestPass(ctx, nowMS)
	if err != nil {
		return nil, err
	}
	passes, err := collect(ctx, s, "cannot look up passes", scanPass,
		`SELECT p.* FROM unnest($1::bytea[]) AS f (fingerprint) CROSS JOIN LATERAL (
			SELECT c.fingerprint, check_id, claimed_ms, until_ms, decision = 'a' FROM checks AS c
			WHERE c.fingerprint = f.fingerprint AND claimed_ms IS NOT NULL AND until_ms > $2 AND check_id >= $3 AND NOT (`+released+`)
				AND (NOT $4 OR decision = 'a')
			ORDER BY check_id DESC LIMIT 1) AS p`,
		byteas(fingerprints), nowMS, [16]byte(oldest), onlyAllowed)
	for _, p := range passes {
		latest[p.Fingerprint] = p
	}
	return latest, err
}

// PagePasses implements audit.Trail.
func (s *Store) PagePasses(ctx context.Context, before spend.ID, nowMS int64, limit int) ([]audit.LivePass, error) {
	if before.IsZero() {
		before = newest
	}
	oldest, err := s.oldestPass(ctx, nowMS)
	if err != nil {
		return nil, err
	}
	return collect(ctx, s, "cannot page through passes", scanPass,
		`SELECT fingerprint, check_id, claimed_ms, until_ms, decision = 'a' FROM checks AS c
			WHERE claimed_ms IS NOT NULL AND until_ms > $1 AND check_id >= $2 AND check_id < $3 AND NOT (`+released+`)
			ORDER BY check_id DESC LIMIT $4`,
		nowMS, [16]byte(oldest), [16]byte(before), limit)
}

func scanPass(row pgx.CollectableRow) (audit.LivePass, error) {
	var p audit.LivePass
	var fingerprint []byte
	err := row.Scan(&fingerprint, uuid(&p.CheckID), &p.ClaimedMS, &p.UntilMS, &p.Allowed)
	copy(p.Fingerprint[:], fingerprint)
	return p, err
}

// newest is above every ID: a UUIDv7 has no such version bits.
var newest = spend.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, s *Store, doing string, scan pgx.RowToFunc[T], query string, args ...any) (all []T, err error) {
	err = s.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error {
		rows, err := db.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}

// What the driver knows to be a uuid, uuid[] and bytea[].

func uuid(id *spend.ID) *[16]byte { return (*[16]byte)(id) }

func uuids(ids []spend.ID) [][16]byte {
	out := make([][16]byte, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}

func byteas(hashes []spend.Hash) [][]byte {
	out := make([][]byte, len(hashes))
	for i := range hashes {
		out[i] = hashes[i][:]
	}
	return out
}
