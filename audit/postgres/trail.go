package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// Checks implements audit.Trail.
func (s *Store) Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := s.checksIn(ctx, "checks", ids)
	if err != nil || len(found) == len(ids) {
		return found, err
	}
	has := make(map[spend.ID]bool, len(found))
	for _, c := range found {
		has[c.ID] = true
	}
	absent := slices.DeleteFunc(slices.Clone(ids), func(id spend.ID) bool { return has[id] })
	kept, err := s.checksIn(ctx, "kept_checks", absent)
	return append(found, kept...), err
}

func (s *Store) checksIn(ctx context.Context, table string, ids []spend.ID) ([]*spend.Check, error) {
	return collect(ctx, s, "cannot look up checks", scanCheck,
		"SELECT "+pg.ColumnList(chain.Checks())+" FROM "+table+" WHERE check_id = ANY ($1::uuid[])",
		pgx.QueryResultFormats{pgx.BinaryFormatCode}, pg.UUIDs(ids))
}

// scanCheck decodes the raw fields that are hashed, so that the served check is the verified one.
func scanCheck(row pgx.CollectableRow) (*spend.Check, error) { return checkOf(row.RawValues()) }

// checkOf decodes a check from the values of CheckColumns.
func checkOf(values [][]byte) (*spend.Check, error) {
	c, err := chain.CheckOf(values)
	if err != nil {
		return nil, err
	}
	if err := c.ParseMetadata(); err != nil {
		return nil, fmt.Errorf("check %s: %w", c.ID.Text(spend.PrefixCheck), err)
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
		var hash spend.Hash
		var id spend.ID
		err = row.Scan(pg.Bytea(&hash), pg.UUID(&id))
		found[hash] = id
		return struct{}{}, err
	}, "SELECT key_hash, check_id FROM idempotency_keys WHERE key_hash = ANY ($1::bytea[]) AND expires_at > clock_timestamp()",
		pg.Byteas(keyHashes))
	return found, err
}

// selectOldestPass selects the smallest identifier that a pass in force at a time can have. A query
// with that bound touches only the partitions of the last minutes or days, however old the trail
// is. It is a query of its own, because a planner that does not know the value prepares for every
// partition.
const selectOldestPass = "SELECT first_id($1 - ms) FROM horizon"

// LivePasses implements audit.Passes.
func (s *Store) LivePasses(
	ctx context.Context, fingerprints []spend.Hash, before spend.ID, nowMS int64, upTo spend.Effect,
) (map[spend.Hash]audit.LivePass, error) {
	latest := make(map[spend.Hash]audit.LivePass, len(fingerprints))
	if len(fingerprints) == 0 {
		return latest, nil
	}
	oldest, err := one(ctx, s, "cannot read the horizon of passes", scanID, selectOldestPass, nowMS)
	if err != nil {
		return nil, err
	}
	passes, err := collect(ctx, s, "cannot look up passes", scanPass,
		`SELECT p.* FROM unnest($1::bytea[]) AS f (fingerprint) CROSS JOIN LATERAL (
			SELECT c.fingerprint, check_id, claimed_ms, until_ms, decision FROM checks AS c
			WHERE c.fingerprint = f.fingerprint AND claimed_ms IS NOT NULL AND until_ms > $2 AND check_id >= $3 AND check_id < $4
				AND NOT (`+released+`) AND strpos($5, decision::text) > 0
			ORDER BY check_id DESC LIMIT 1) AS p`,
		pg.Byteas(fingerprints), nowMS, [16]byte(oldest), [16]byte(cmp.Or(before, audit.MaxID())), chain.EffectLetters[:upTo+1])
	for _, p := range passes {
		latest[p.Fingerprint] = p
	}
	return latest, err
}

// PagePasses implements audit.Passes.
func (s *Store) PagePasses(ctx context.Context, before spend.ID, nowMS int64, limit int) (page []audit.LivePass, err error) {
	err = s.read(ctx, "cannot page through passes", func(ctx context.Context, db *pgx.Conn) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			query, args, err := passesQuery(ctx, tx, before, nowMS, limit)
			if err != nil {
				return err
			}
			page, err = collectIn(ctx, tx, scanPass, query, args...)
			return err
		})
	})
	return page, err
}

// passesQuery prepares a transaction for a page of passes, newest first, and returns its query.
// Without the settings, the planner sorts a whole partition for each page while it has no
// statistics on it. OFFSET 0 keeps conditions out of the partitions: with them, each partition is
// read up to its newest live pass before the first row is returned.
func passesQuery(ctx context.Context, tx pgx.Tx, before spend.ID, nowMS int64, limit int) (query string, args []any, err error) {
	before = cmp.Or(before, audit.MaxID())
	var oldest spend.ID
	if _, err := tx.Exec(ctx, onlyPrimaryKey); err != nil {
		return "", nil, err
	}
	if err := tx.QueryRow(ctx, selectOldestPass, nowMS).Scan(pg.UUID(&oldest)); err != nil {
		return "", nil, err
	}
	return `SELECT fingerprint, check_id, claimed_ms, until_ms, decision FROM (
			SELECT fingerprint, check_id, claimed_ms, until_ms, decision, approval FROM checks
			WHERE check_id >= $2 AND check_id < $3 ORDER BY check_id DESC OFFSET 0) AS c
		WHERE claimed_ms IS NOT NULL AND until_ms > $1 AND NOT (` + released + `)
		ORDER BY check_id DESC LIMIT $4`, []any{nowMS, [16]byte(oldest), [16]byte(before), limit}, nil
}

func scanPass(row pgx.CollectableRow) (p audit.LivePass, err error) {
	var letter byte
	err = row.Scan(pg.Bytea(&p.Fingerprint), pg.UUID(&p.CheckID), &p.ClaimedMS, &p.UntilMS, &letter)
	p.Effect = effectOf(letter)
	return p, err
}
