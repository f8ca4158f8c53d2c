package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// Snapshot is a store at one moment, while a node goes on writing. It encodes what it reads as
// PostgreSQL sends it, column by column, and shows rows that were changed past the store as they
// are.
type Snapshot struct {
	tx      *sql.Tx
	at      time.Time
	batches []placed // by their first identifiers
}

var _ verify.Evidence = (*Snapshot)(nil)

// placed is a batch's place and what it lists. All are kept in memory, some 70 bytes each.
type placed struct {
	verify.Place
	first, last spend.ID
	entries     int64
}

// Snapshot takes a snapshot.
func (s *Store) Snapshot(ctx context.Context) (_ *Snapshot, err error) {
	const doing = "cannot read the store as of one moment"
	snapshot := &Snapshot{at: time.Now()}
	if snapshot.tx, err = s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err != nil {
		return nil, unavailable(doing, err)
	}
	// The first query fixes the moment.
	snapshot.batches, err = collect(ctx, snapshot.tx, doing, func(row scanner) (p placed, err error) {
		var first, last []byte
		err = row.Scan(blob(p.Chain[:]), &p.Seq, &first, &last, &p.entries)
		copy(p.first[:], first) // a truncated one lists nothing
		copy(p.last[:], last)
		return p, err
	}, fmt.Sprintf("SELECT chain_id, seq, substr(entries, 1, 16), substr(entries, -%[1]d, 16), length(entries) / %[1]d FROM batches",
		chain.EntrySize))
	if err != nil {
		return nil, errors.Join(err, snapshot.tx.Rollback())
	}
	slices.SortFunc(snapshot.batches, func(a, b placed) int { return a.first.Compare(b.first) })
	return snapshot, nil
}

// Close releases the snapshot; no method may be in use.
func (s *Snapshot) Close() { _ = s.tx.Rollback() } // it wrote nothing

// stream scans rows one after the other.
func (s *Snapshot) stream(ctx context.Context, what string, scan func(scanner) error, query string, args ...any) error {
	return each(ctx, s.tx, "cannot read "+what, scan, query, args...)
}

// overlapping calls each with every batch that may list something of the range.
func (s *Snapshot) overlapping(r verify.Range, each func(placed) error) error {
	for _, b := range s.batches {
		if r.High.Compare(b.first) < 0 {
			return nil
		}
		if b.last.Compare(r.Low) < 0 {
			continue
		}
		if err := each(b); err != nil {
			return err
		}
	}
	return nil
}

// Batches implements verify.Evidence.
func (s *Snapshot) Batches(ctx context.Context, r verify.Range, each func(verify.Batch) error) error {
	return s.overlapping(r, func(p placed) error { return s.Chain(ctx, p.Chain, p.Seq, p.Seq, each) })
}

// Chain implements verify.Evidence.
func (s *Snapshot) Chain(ctx context.Context, chainID spend.ID, from, to int64, each func(verify.Batch) error) error {
	return s.stream(ctx, "batches", func(row scanner) error {
		b := verify.Batch{Chain: chainID}
		if err := row.Scan(&b.Seq, &b.Version, &b.Head, &b.Entries); err != nil {
			return err
		}
		if entries := b.Entries; len(entries) >= chain.EntrySize {
			copy(b.First[:], entries)
			copy(b.Last[:], entries[len(entries)-chain.EntrySize:])
		}
		return each(b)
	}, "SELECT seq, version, head, entries FROM batches WHERE chain_id = ? AND seq BETWEEN ? AND ? ORDER BY seq", chainID[:], from, to)
}

// Chains implements verify.Evidence.
func (s *Snapshot) Chains(_ context.Context, r verify.Range) (spans []verify.ChainSpan, err error) {
	sorted := slices.SortedFunc(slices.Values(s.batches), func(a, b placed) int {
		return cmp.Or(a.Chain.Compare(b.Chain), cmp.Compare(a.Seq, b.Seq))
	})
	for i := 0; i < len(sorted); {
		end := i
		for end < len(sorted) && sorted[end].Chain == sorted[i].Chain {
			end++
		}
		if span, meets := spanOf(sorted[i:end], r); meets {
			spans = append(spans, span)
		}
		i = end
	}
	return spans, nil
}

// spanOf returns the first and the last batch of a chain that may list something of the range, or
// that is next to a gap in which such a batch may have been.
func spanOf(batches []placed, r verify.Range) (span verify.ChainSpan, meets bool) {
	span.Chain = batches[0].Chain
	met := func(seq int64) {
		if !meets {
			span.From = seq
		}
		span.From, span.To, meets = min(span.From, seq), max(span.To, seq), true
	}
	before, low := int64(0), span.Chain // a chain's identifier tells when it began
	for i, b := range batches {
		if b.first.Compare(r.High) <= 0 && r.Low.Compare(b.last) <= 0 {
			met(b.Seq)
		}
		if b.Seq > before+1 && low.Compare(r.High) <= 0 && r.Low.Compare(b.last) <= 0 {
			if i > 0 {
				met(before)
			}
			met(b.Seq)
		}
		before, low = b.Seq, b.first
	}
	return span, meets
}

// Heads implements verify.Evidence.
func (s *Snapshot) Heads(ctx context.Context, places []verify.Place) (map[verify.Place]spend.Hash, map[spend.ID]int64, error) {
	heads, latest := make(map[verify.Place]spend.Hash, len(places)), make(map[spend.ID]int64)
	for _, b := range s.batches {
		latest[b.Chain] = max(latest[b.Chain], b.Seq)
	}
	for _, p := range places {
		err := s.Chain(ctx, p.Chain, p.Seq, p.Seq, func(b verify.Batch) error {
			if len(b.Head) == len(spend.Hash{}) {
				heads[p] = spend.Hash(b.Head)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return heads, latest, nil
}

// Folds implements verify.Evidence: nothing of an embedded store is folded.
func (s *Snapshot) Folds(context.Context, func(verify.Fold) error) error { return nil }

// AllHeads returns the ends of all chains.
func (s *Snapshot) AllHeads(ctx context.Context) (heads chain.Heads, err error) {
	err = s.stream(ctx, "the heads of the chains", func(row scanner) error {
		var h chain.Head
		if err := row.Scan(blob(h.Chain[:]), &h.Seq, blob(h.Head[:])); err != nil {
			return err
		}
		heads.Chains = append(heads.Chains, h)
		return nil
	}, `SELECT chain_id, seq, head FROM batches AS b WHERE seq = (SELECT max(seq) FROM batches AS l WHERE l.chain_id = b.chain_id)`)
	if err != nil {
		return heads, err
	}
	err = s.stream(ctx, "the head of the changes", func(row scanner) error { return row.Scan(&heads.ChangeSeq, blob(heads.ChangeHead[:])) },
		"SELECT seq, head FROM changes ORDER BY seq DESC LIMIT 1")
	return heads, err
}

// Overview implements verify.Evidence. Nothing of an embedded store is archived; a day has a
// partition when a batch begins or ends in it.
func (s *Snapshot) Overview(ctx context.Context, r verify.Range) (o verify.Overview, err error) {
	o.At, o.Days = s.at, make(map[verify.Day]bool)
	include := func(low, high spend.ID) {
		if o.Range == (verify.Range{}) {
			o.Range = verify.Range{Low: low, High: high}
		}
		if low.Compare(o.Low) < 0 {
			o.Low = low
		}
		if o.High.Compare(high) < 0 {
			o.High = high
		}
	}
	_ = s.overlapping(r, func(b placed) error { // which does not fail
		include(b.first, b.last)
		o.Days[verify.DayOf(b.first)], o.Days[verify.DayOf(b.last)] = true, true
		o.Entries += b.entries
		return nil
	})
	for _, t := range [...]struct{ table, id string }{{"checks", "check_id"}, {"violations", "id"}, {"outcomes", "outcome_id"}} {
		err = s.stream(ctx, "what there is", func(row scanner) error {
			var low, high spend.ID
			err := row.Scan(blob(low[:]), blob(high[:]))
			if err == nil && !high.IsZero() {
				include(low, high)
			}
			return err
		}, "SELECT min("+t.id+"), max("+t.id+") FROM "+t.table+" WHERE "+t.id+" BETWEEN ? AND ?", r.Low[:], r.High[:])
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// Weigh implements verify.Evidence.
func (s *Snapshot) Weigh(ctx context.Context, r verify.Range) (w verify.Weight, err error) {
	_ = s.overlapping(r, func(b placed) error { // which does not fail
		w.Entries += b.entries
		w.Edges = w.Edges || r.Holds(b.first) || r.Holds(b.last)
		return nil
	})
	err = s.stream(ctx, "how much is in a range", func(row scanner) error { return row.Scan(&w.Violations, &w.Outcomes, &w.Rows) },
		`SELECT (SELECT count(*) FROM violations WHERE id BETWEEN ?1 AND ?2), (SELECT count(*) FROM outcomes WHERE outcome_id BETWEEN ?1 AND ?2),
			EXISTS (SELECT 1 FROM checks WHERE check_id BETWEEN ?1 AND ?2)`, r.Low[:], r.High[:])
	return w, err
}

// Totals implements verify.Evidence.
func (s *Snapshot) Totals(ctx context.Context) (t verify.Totals, err error) {
	err = s.stream(ctx, "how many rows there are", func(row scanner) error {
		return row.Scan(&t.Checks, &t.Violations, &t.Outcomes, &t.Batches, &t.Policies, &t.Keys, &t.Changes, &t.Events, &t.IdempotencyKeys,
			&t.OpenRedemptions, &t.Payments)
	}, `SELECT (SELECT count(*) FROM checks NOT INDEXED), (SELECT count(*) FROM violations NOT INDEXED),
		(SELECT count(*) FROM outcomes NOT INDEXED),
		(SELECT count(*) FROM batches), (SELECT count(*) FROM policies NOT INDEXED), (SELECT count(*) FROM keys NOT INDEXED),
		(SELECT count(*) FROM changes), (SELECT count(*) FROM events NOT INDEXED), (SELECT count(*) FROM idempotency_keys),
		(SELECT count(*) FROM redemptions_open),
		(SELECT count(*) FROM payments)`)
	return t, err
}
