package detach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"spendgate/audit/archive"
	"spendgate/audit/chain"
	"spendgate/audit/checkpoint"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// folding is the batches that leave with a day: of each chain the next batches that list only that
// day and earlier days, all of which have left.
type folding struct {
	leaving
	day   day
	spans []foldSpan
	folds []verify.Fold
	from  time.Time // of the first check that the batches list
}

// foldSpan is consecutive batches of a chain.
type foldSpan struct {
	verify.ChainSpan
	low spend.ID // the lowest identifier in the batches' lists
}

// fold removes the batches of archived days, one day at a time, after the last day that was folded.
func (o Options) fold(ctx context.Context, db *days) error {
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
		f := folding{leaving: leaving{Options: o, db: db, part: archive.BatchesOf(one.date)}, day: one}
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
	left, err := db.notFolded(ctx, o.Before)
	if err == nil && o.Left != nil && left != (NotFolded{}) {
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

// resume folds the batches of an archive that was written but not noted. The chains may have grown
// since, and the last batch of a chain may no longer be its last.
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

// prove writes the archive, compares it with the database's rows, verifies all that the batches
// list, as `audit verify` will, and signs the folds.
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

// sum computes the folds of the archive.
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
