package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// keyLife is how long an idempotency key answers for its check (S18).
const keyLife = 24 * time.Hour

// insertKey changes no row if the key is recorded and has not expired.
const insertKey = `INSERT INTO idempotency_keys (key_hash, check_id, expires_at) VALUES (?1, ?2, ?3)
	ON CONFLICT (key_hash) DO UPDATE SET check_id = ?2, expires_at = ?3 WHERE expires_at <= ?4`

// Commit implements audit.Trail.
func (s *Store) Commit(ctx context.Context, checks []*spend.Check, outcomes []*spend.Outcome, link chain.Link) error {
	var fence spend.Fence
	switch {
	case len(checks) > 0:
		fence = checks[0].Fence
	case len(outcomes) > 0:
		fence = outcomes[0].Fence
	default:
		return nil
	}
	rows, violations, err := rowsOf(checks)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		if err := outcomeText(o); err != nil {
			return err
		}
	}
	var read unread
	err = s.write(ctx, "cannot commit", func(tx *sql.Tx) error {
		if err := enter(tx, fence); err != nil {
			return err
		}
		if err := s.insertKeys(tx, checks, time.Now()); err != nil {
			return err
		}
		if err := movePayments(tx, checks, outcomes); err != nil {
			return err
		}
		if err := s.addLink(tx, fence.Node, link); err != nil {
			return err
		}
		if err := insert(tx, s.insertCheck, s.insertChecks, rows); err != nil {
			return err
		}
		if err := insert(tx, s.insertViolation, s.insertViolations, violations); err != nil {
			return err
		}
		if err := noteChecks(tx, checks, outcomes); err != nil {
			return err
		}
		if err := noteAllows(tx, checks); err != nil {
			return err
		}
		if err := insertOutcomes(tx, outcomes, &read); err != nil {
			return err
		}
		if err := insertApprovals(tx, checks); err != nil {
			return err
		}
		if err := useApprovals(tx, checks); err != nil {
			return err
		}
		return changeCounters(tx, audit.CounterChanges(checks, outcomes), audit.Refusals(checks))
	})
	if err == nil {
		read.give()
	}
	return err
}

// enter refuses a fence that is no longer valid. The transaction holds the write lock, which keeps
// the fence valid until the commit.
func enter(tx *sql.Tx, f spend.Fence) error {
	var current, fenced bool
	var stops int64
	err := tx.QueryRow(`SELECT id = ?, stops, EXISTS (SELECT 1 FROM fenced_nodes WHERE node = ?) FROM epoch`,
		f.Epoch[:], f.Node[:]).Scan(&current, &stops, &fenced)
	switch {
	case err != nil:
		return err
	case !current:
		return audit.ErrStaleEpoch
	case fenced:
		return audit.ErrFencedNode
	case stops != f.Stops:
		return audit.ErrStaleStops
	}
	return nil
}

// insertBatch changes no row if the chain already has a batch with that number.
const insertBatch = `INSERT INTO batches (chain_id, seq, version, head, entries) SELECT ?1, ?2, ?3, ?4, ?5
	WHERE NOT EXISTS (SELECT 1 FROM batches WHERE chain_id = ?1 AND seq = ?2)`

// addLink records the batch's place in the chain of its node.
func (s *Store) addLink(tx *sql.Tx, chainID spend.ID, link chain.Link) error {
	stmt := tx.Stmt(s.insertBatch) //nolint:sqlclosecheck // closed with the transaction
	rows, err := affected(stmt.Exec(chainID[:], link.Seq, chain.Version, link.Head[:], link.Entries))
	if err == nil && rows == 0 {
		err = audit.ErrForked
	}
	return err
}

// insertKeys records the idempotency keys, or names the keys that are taken.
func (s *Store) insertKeys(tx *sql.Tx, checks []*spend.Check, now time.Time) error {
	var losers []spend.Hash
	stmt := tx.Stmt(s.insertKey) //nolint:sqlclosecheck // closed with the transaction
	for _, c := range checks {
		if c.Action.IdempotencyKey == "" {
			continue
		}
		hash := c.KeyHash()
		taken, err := affected(stmt.Exec(hash[:], c.ID[:], now.Add(keyLife).UnixMilli(), now.UnixMilli()))
		if err != nil {
			return err
		}
		if taken == 0 {
			losers = append(losers, hash)
		}
	}
	if losers != nil {
		return &audit.KeysTakenError{Hashes: losers}
	}
	return nil
}

// insert writes rows, rowsPerInsert at a time as long as there are that many.
func insert(tx *sql.Tx, one, many *sql.Stmt, rows [][]any) error {
	for len(rows) > 0 {
		stmt, n := one, 1
		if len(rows) >= rowsPerInsert {
			stmt, n = many, rowsPerInsert
		}
		if _, err := tx.Stmt(stmt).Exec(slices.Concat(rows[:n]...)...); err != nil { //nolint:sqlclosecheck // closed with the transaction
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// Checks implements audit.Trail.
func (s *Store) Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	return collect(ctx, s.reader, "cannot look up checks", scanCheck,
		"SELECT "+checkColumns.String()+" FROM checks WHERE check_id IN ("+marks(len(ids))+")", idArgs(ids)...)
}

// CheckIDsByKey implements audit.Trail.
func (s *Store) CheckIDsByKey(ctx context.Context, keyHashes []spend.Hash) (map[spend.Hash]spend.ID, error) {
	found := make(map[spend.Hash]spend.ID, len(keyHashes))
	query := "SELECT key_hash, check_id FROM idempotency_keys WHERE key_hash IN (" + marks(len(keyHashes)) + ") AND expires_at > ?"
	err := each(ctx, s.reader, "cannot look up idempotency keys", func(row scanner) error {
		var hash spend.Hash
		var id spend.ID
		err := row.Scan(blob(hash[:]), blob(id[:]))
		found[hash] = id
		return err
	}, query, append(hashArgs(keyHashes), time.Now().UnixMilli())...)
	return found, err
}

const passColumns = "fingerprint, check_id, claimed_ms, until_ms, decision"

// LivePasses implements audit.Passes.
func (s *Store) LivePasses(
	ctx context.Context, fingerprints []spend.Hash, before spend.ID, nowMS int64, upTo spend.Effect,
) (map[spend.Hash]audit.LivePass, error) {
	before = cmp.Or(before, audit.MaxID())
	passes, err := collect(ctx, s.reader, "cannot look up passes", scanPass,
		"SELECT "+passColumns+" FROM checks AS c WHERE fingerprint IN ("+marks(len(fingerprints))+`)
			AND claimed_ms IS NOT NULL AND until_ms > ? AND check_id < ? AND NOT `+released+
			` AND (decision = 'allow' OR ? AND decision = 'escalate' OR ?) ORDER BY check_id`,
		append(hashArgs(fingerprints), nowMS, before[:], upTo >= spend.Escalate, upTo >= spend.Block)...)
	latest := make(map[spend.Hash]audit.LivePass, len(passes))
	for _, p := range passes {
		latest[p.Fingerprint] = p
	}
	return latest, err
}

// PagePasses implements audit.Passes.
func (s *Store) PagePasses(ctx context.Context, before spend.ID, nowMS int64, limit int) ([]audit.LivePass, error) {
	before = cmp.Or(before, audit.MaxID())
	return collect(ctx, s.reader, "cannot page through passes", scanPass,
		"SELECT "+passColumns+` FROM checks AS c WHERE claimed_ms IS NOT NULL AND until_ms > ? AND check_id < ? AND NOT `+released+`
			ORDER BY check_id DESC LIMIT ?`, nowMS, before[:], limit)
}

func scanPass(row scanner) (p audit.LivePass, err error) {
	err = row.Scan(blob(p.Fingerprint[:]), blob(p.CheckID[:]), &p.ClaimedMS, &p.UntilMS, known(&p.Effect, spend.ParseEffect))
	return p, err
}

// Violations implements audit.Lists, in one snapshot.
func (s *Store) Violations(ctx context.Context, q audit.ViolationQuery) (audit.ViolationPage, error) {
	var page audit.ViolationPage
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return page, unavailable("cannot list violations", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	low, high := q.IDRange()
	var w sqlstore.Where
	w.And("id >= ", low)
	w.And("id <= ", high)
	w.Is("agent_id", q.AgentID)
	w.Is("policy_id", q.PolicyID)
	w.Is("action_type", q.ActionType.String())
	if q.Effect != spend.Allow {
		w.And("decision = ", q.Effect.String())
	}
	addAmounts(&w, q.Amounts)
	w.Within(q.Bounds)
	if page.Total, err = one(ctx, tx, "cannot count violations", scalar[int64], "SELECT count(*) FROM violations"+w.String(),
		w.Args...); err != nil {
		return page, err
	}
	if !q.Before.IsZero() {
		w.And("id < ", q.Before)
	}
	page.Violations, err = collect(ctx, tx, "cannot list violations", scanViolation,
		"SELECT "+listedViolationColumns+" FROM violations"+w.String()+" ORDER BY id DESC LIMIT "+w.Arg(q.Limit+1), w.Args...)
	page.Violations, page.More = audit.Cut(page.Violations, q.Limit)
	return page, err
}
