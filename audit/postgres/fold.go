package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/archive"
	"spendgate/audit/chain"
	"spendgate/audit/checkpoint"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// folding is the batches of a day on their way out: of each chain the next ones of which all
// that they list left with that day, or before.
type folding struct {
	leaving
	day   day
	spans []foldSpan
	folds []verify.Fold
	from  time.Time // of the first that they list
}

// foldSpan is some batches of a chain.
type foldSpan struct {
	verify.ChainSpan
	low spend.ID // of what they list
}

// fold has batches of archived days leave, a day after the other, behind the last that has.
func (o DetachOptions) fold(ctx context.Context, db *days) error {
	all, err := db.before(ctx, o.Before)
	if err != nil {
		return err
	}
	last, err := db.lastFolded(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		if !one.archived || !one.date.After(last) || one.attached {
			continue
		}
		f := folding{leaving: leaving{DetachOptions: o, db: db, part: archive.BatchesOf(one.date)}, day: one}
		if err := f.run(ctx); err != nil {
			return fmt.Errorf("the batches of %s stay as they are: %w", one.name(), err)
		}
	}
	if o.DryRun {
		return nil
	}
	if err := db.vacuumFolded(ctx); err != nil {
		return err
	}
	left, err := db.unfolded(ctx, o.Before)
	if err == nil && o.Left != nil && left != (Unfolded{}) {
		o.Left(left)
	}
	return err
}

func (f *folding) run(ctx context.Context) (err error) {
	if f.spans, err = f.db.foldable(ctx, f.day); err != nil || len(f.spans) == 0 {
		return err
	}
	f.done.Part = f.part
	if f.DryRun {
		for _, s := range f.spans {
			f.done.Rows += s.To - s.From + 1
		}
		f.done.Steps = []string{"to be archived", "to be folded"}
		f.Report(f.done)
		return nil
	}
	if f.archive, err = archive.Open(f.Dir, f.part); errors.Is(err, fs.ErrNotExist) {
		f.archive, err = nil, nil
	}
	if err == nil && f.archive != nil {
		err = f.resume()
	}
	if err != nil {
		return err
	}
	f.from = f.day.date
	for _, s := range f.spans {
		if s.low.Time().Before(f.from) {
			f.from = s.low.Time()
		}
	}
	f.rows = func(ctx context.Context) iter.Seq2[[]byte, error] { return f.db.batches(ctx, f.spans) }
	if err := f.prove(ctx); err != nil {
		return err
	}
	f.step("count")
	if err := f.db.countChecks(ctx); err != nil {
		return err
	}
	f.step("fold")
	if err := f.db.foldChains(ctx, f.day, f.archive.SHA256, f.folds); err != nil {
		return err
	}
	f.done.Steps = append(f.done.Steps, "folded")
	f.Report(f.done)
	return nil
}

// resume has those batches leave that an archive has which nobody noted: chains go on meanwhile,
// and what was the last batch of one may be so no more.
func (f *folding) resume() error {
	able := make(map[spend.ID]*foldSpan)
	for i := range f.spans {
		able[f.spans[i].Chain] = &f.spans[i]
	}
	var spans []foldSpan
	_, err := f.archive.Blocks(func(b archive.Batch) error {
		if n := len(spans); n == 0 || spans[n-1].Chain != b.Chain {
			spans = append(spans, foldSpan{verify.ChainSpan{Chain: b.Chain, From: b.Seq}, b.First})
		}
		at := &spans[len(spans)-1]
		at.To = b.Seq
		if b.First.Compare(at.low) < 0 {
			at.low = b.First
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range spans {
		if a := able[s.Chain]; a == nil || a.From != s.From || a.To < s.To {
			return fmt.Errorf("%s: %w: it is not what the database holds; move it away and run this again", f.archive.Path(), archive.ErrAltered)
		}
	}
	f.spans = spans
	return nil
}

// prove writes the archive and holds it to the database's rows; it holds all that it lists to
// that, as `audit verify` will; and it signs what left.
func (f *folding) prove(ctx context.Context) error {
	f.step("archive batches")
	if f.archive == nil {
		var err error
		if f.archive, err = f.write(ctx); err != nil {
			return err
		}
	}
	f.done.Steps, f.done.Rows = append(f.done.Steps, "archived"), f.archive.Rows
	f.step("compare batches")
	if err := compare(f.archive, f.rows(ctx)); err != nil {
		return err
	}
	if err := f.sum(ctx); err != nil {
		return err
	}
	f.step("verify batches")
	v := verify.Options{From: f.from, To: f.day.date.AddDate(0, 0, 1).Add(-time.Millisecond), Archives: f.Dir, Folding: f.folds}
	if err := f.verify(ctx, v); err != nil {
		return err
	}
	for i := range f.folds {
		f.folds[i].Signature = f.Key.SignFold(&f.folds[i].Fold)
	}
	return nil
}

// sum makes the folds of the archive.
func (f *folding) sum(ctx context.Context) error {
	before, err := f.db.foldedHeads(ctx)
	if err != nil {
		return err
	}
	f.folds = nil
	_, err = f.archive.Blocks(func(b archive.Batch) error {
		if n := len(f.folds); n == 0 || f.folds[n-1].Chain != b.Chain {
			f.folds = append(f.folds, verify.Fold{Fold: checkpoint.Fold{
				Chain: b.Chain, From: b.Seq, Previous: before[b.Chain], Day: f.day.date.Unix() / 86400, Manifest: f.archive.SHA256,
			}, At: f.Now})
		}
		at := &f.folds[len(f.folds)-1]
		at.To, at.Entries = b.Seq, at.Entries+int64(len(b.Entries)/chain.EntrySize)
		copy(at.Head[:], b.Head)
		return nil
	})
	return err
}

// lastFolded is the last day whose batches were folded; zero when none were.
func (d *days) lastFolded(ctx context.Context) (day time.Time, err error) {
	var last *time.Time
	if err = d.conn.QueryRow(ctx, "SELECT max(day) FROM folded_chains").Scan(&last); err != nil {
		return day, fmt.Errorf("cannot tell which batches were folded: %w", err)
	}
	if last != nil {
		day = *last
	}
	return day, nil
}

// foldedHeads are the heads of the last batches that were folded, by chain.
func (d *days) foldedHeads(ctx context.Context) (map[spend.ID]spend.Hash, error) {
	heads := make(map[spend.ID]spend.Hash)
	var chainID spend.ID
	var head spend.Hash
	rows, _ := d.conn.Query(ctx, "SELECT DISTINCT ON (chain_id) chain_id, head FROM folded_chains ORDER BY chain_id, to_seq DESC")
	// the rows return the error of Query
	_, err := pgx.ForEachRow(rows, []any{uuid(&chainID), bytea(&head)}, func() error {
		heads[chainID] = head
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the folded heads: %w", err)
	}
	return heads, nil
}

// foldable are the batches that can leave with a day.
func (d *days) foldable(ctx context.Context, one day) (spans []foldSpan, err error) {
	var s foldSpan
	rows, _ := d.conn.Query(ctx, "SELECT chain_id, from_seq, to_seq, low FROM foldable_batches($1) ORDER BY chain_id", one.date)
	// the rows return the error of Query
	_, err = pgx.ForEachRow(rows, []any{uuid(&s.Chain), &s.From, &s.To, uuid(&s.low)}, func() error {
		spans = append(spans, s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot tell which batches can leave: %w", err)
	}
	return spans, nil
}

// batchesAtOnce bounds a reading of batches.
const batchesAtOnce = 10_000

// selectFolded are batches as an archive has them, with the texts of the outcomes that they list.
const selectFolded = `SELECT b.chain_id, b.seq, b.version, b.first_id, b.last_id, b.head, b.entries, (
		SELECT json_agg(json_build_array(replace(o.outcome_id::text, '-', ''), o.reference, o.note) ORDER BY o.outcome_id)::text
		FROM generate_series(1, octet_length(b.entries) - 15, 48) AS at
		JOIN outcomes AS o ON o.outcome_id = encode(substring(b.entries FROM at FOR 16), 'hex')::uuid
		WHERE get_byte(b.entries, at + 5) >> 4 = 8 AND (o.reference IS NOT NULL OR o.note IS NOT NULL))
	FROM batches AS b WHERE b.chain_id = '%s' AND b.seq BETWEEN %d AND %d ORDER BY b.seq`

// batches reads some of each chain, piece by piece.
func (d *days) batches(ctx context.Context, spans []foldSpan) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, s := range spans {
			for at := s.From; at <= s.To; at += batchesAtOnce {
				query := fmt.Sprintf(selectFolded, s.Chain.Text(""), at, min(s.To, at+batchesAtOnce-1))
				if !d.copyRows(ctx, "batches", query, yield) {
					return
				}
			}
		}
	}
}

// countChecks has all batches counted that are there.
func (d *days) countChecks(ctx context.Context) error {
	for complete := false; !complete; {
		begun := time.Now()
		_, all, err := countSome(ctx, d.conn, "SELECT count_checks($1)")
		if err != nil {
			return fmt.Errorf("cannot count checks: %w", err)
		}
		if complete = all; complete {
			return nil
		}
		if err := rest(ctx, begun); err != nil {
			return err
		}
	}
	return nil
}

// foldChains notes the folds, and deletes their batches, in one transaction.
func (d *days) foldChains(ctx context.Context, one day, manifest spend.Hash, folds []verify.Fold) error {
	chains, from, to, entries := make([][16]byte, len(folds)), make([]int64, len(folds)), make([]int64, len(folds)), make([]int64, len(folds))
	previous, heads, signatures := make([][]byte, len(folds)), make([][]byte, len(folds)), make([][]byte, len(folds))
	var batches, deleted int64
	for i, f := range folds {
		chains[i], from[i], to[i], entries[i] = f.Chain, f.From, f.To, f.Entries
		previous[i], heads[i], signatures[i] = f.Previous[:], f.Head[:], f.Signature
		batches += f.To - f.From + 1
	}
	err := pgx.BeginFunc(ctx, d.conn, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT fold_chains($1, $2, ARRAY(
				SELECT ROW(f.chain_id, f.from_seq, f.to_seq, f.previous, f.head, f.entries, $1::date, $2::bytea, f.signature, now())::folded_chains
				FROM unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[], $8::bigint[], $9::bytea[])
					AS f (chain_id, from_seq, to_seq, previous, head, entries, signature)))`,
			one.date, manifest[:], chains, from, to, previous, heads, entries, signatures).Scan(&deleted)
		if err == nil && deleted != batches {
			err = fmt.Errorf("%d batches were deleted, and the archive has %d", deleted, batches)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot fold: %w", err)
	}
	return nil
}

// vacuumFolded takes deleted rows, and the texts of outcomes that were emptied, out of pages and
// indexes. TRUNCATE would stop commits.
func (d *days) vacuumFolded(ctx context.Context) error {
	if _, err := d.conn.Exec(ctx, "VACUUM (TRUNCATE false) batches, outcomes"); err != nil {
		return fmt.Errorf("cannot vacuum batches and outcomes: %w", err)
	}
	return nil
}

// Unfolded are batches that list nothing of a day or later, and are here still.
type Unfolded struct {
	Last   int64 // the last of their chains
	Behind int64 // that follow one which lists something later
}

// unfolded counts those before a date.
func (d *days) unfolded(ctx context.Context, before time.Time) (u Unfolded, err error) {
	err = d.conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE last), count(*) FILTER (WHERE NOT last) FROM (
			SELECT NOT EXISTS (SELECT FROM batches AS n WHERE n.chain_id = b.chain_id AND n.seq > b.seq) AS last
			FROM batches AS b WHERE b.last_id < $1) AS old`, [16]byte(audit.FirstID(before.UnixMilli()))).Scan(&u.Last, &u.Behind)
	if err != nil {
		err = fmt.Errorf("cannot count the batches that are left: %w", err)
	}
	return u, err
}
