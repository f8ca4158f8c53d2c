package verify

import (
	"context"
	"encoding/json"

	"spendgate/audit/archive"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

func toBatch(b *archive.Batch) Batch {
	return Batch{b.Chain, b.Seq, b.Version, b.First, b.Last, b.Head, b.Entries, b.Texts}
}

// Batches implements Evidence.
func (u *Unfolded) Batches(ctx context.Context, r Range, each func(Batch) error) error {
	err := u.Evidence.Batches(ctx, r, func(b Batch) error {
		if 1 <= b.Seq && b.Seq <= u.top(b.Chain) {
			return nil // the walk along its chain names it
		}
		return each(b)
	})
	if err != nil {
		return err
	}
	return u.each(r, func(f *held, block archive.Block) error {
		return f.file.Block(block, func(b archive.Batch) error {
			if less(r.High, b.First) || less(b.Last, r.Low) {
				return nil
			}
			return each(toBatch(&b))
		})
	})
}

// Chain implements Evidence.
func (u *Unfolded) Chain(ctx context.Context, chainID spend.ID, from, to int64, each func(Batch) error) error {
	for _, f := range u.folds[chainID] {
		for _, block := range f.blocks {
			if f.file == nil || to < block.From || block.To < from {
				continue
			}
			err := f.file.Block(block, func(b archive.Batch) error {
				if b.Seq < from || to < b.Seq {
					return nil
				}
				return each(toBatch(&b))
			})
			if err != nil {
				return err
			}
		}
	}
	top := u.top(chainID)
	return u.Evidence.Chain(ctx, chainID, from, to, func(b Batch) error {
		switch {
		case b.Seq > top || b.Seq < 1:
			return each(b)
		case !u.leaving[chainID]:
			u.found(Inserted, batchName(chainID, b.Seq), "it was folded, and the database has it")
		}
		return nil
	})
}

// Chains implements Evidence.
func (u *Unfolded) Chains(ctx context.Context, r Range) ([]ChainSpan, error) {
	spans, err := u.Evidence.Chains(ctx, r)
	if err != nil {
		return nil, err
	}
	known := make(map[spend.ID]int, len(spans))
	for i, s := range spans {
		known[s.Chain] = i
	}
	add := func(one ChainSpan) {
		if i, is := known[one.Chain]; is {
			spans[i].From, spans[i].To = min(spans[i].From, one.From), max(spans[i].To, one.To)
			return
		}
		known[one.Chain] = len(spans)
		spans = append(spans, one)
	}
	err = u.each(r, func(f *held, b archive.Block) error {
		add(ChainSpan{f.Chain, b.From, b.To})
		return nil
	})
	for chainID, folds := range u.folds {
		if f := folds[len(folds)-1]; f.unread && DayOf(r.Low) <= Day(f.Day) {
			add(ChainSpan{chainID, f.To, f.To})
		}
	}
	return spans, err
}

// Heads implements Evidence.
func (u *Unfolded) Heads(ctx context.Context, places []Place) (heads map[Place]spend.Hash, latest map[spend.ID]int64, err error) {
	if heads, latest, err = u.Evidence.Heads(ctx, places); err != nil {
		return nil, nil, err
	}
	for _, p := range places {
		for _, f := range u.folds[p.Chain] {
			if p.Seq < f.From || f.To < p.Seq {
				continue
			}
			latest[p.Chain] = max(latest[p.Chain], f.To)
			if f.file == nil && p.Seq == f.To {
				heads[p] = f.Head
			}
			if err := f.headOf(p, heads); err != nil {
				return nil, nil, err
			}
		}
	}
	return heads, latest, nil
}

func (f *held) headOf(p Place, heads map[Place]spend.Hash) error {
	for _, block := range f.blocks {
		if f.file == nil || p.Seq < block.From || block.To < p.Seq {
			continue
		}
		err := f.file.Block(block, func(b archive.Batch) error {
			if b.Seq == p.Seq && len(b.Head) == len(spend.Hash{}) {
				heads[p] = spend.Hash(b.Head)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Overview implements Evidence.
func (u *Unfolded) Overview(ctx context.Context, r Range) (Overview, error) {
	o, err := u.Evidence.Overview(ctx, r)
	if err != nil {
		return o, err
	}
	return o, u.each(r, func(f *held, b archive.Block) error {
		o.Entries += b.Entries
		if o.Range == (Range{}) {
			o.Range = Range{b.Low, b.High}
		}
		o.Range = Range{spend.Earlier(o.Range.Low, b.Low), spend.Later(o.Range.High, b.High)}
		return nil
	})
}

// Weigh implements Evidence.
func (u *Unfolded) Weigh(ctx context.Context, r Range) (Weight, error) {
	w, err := u.Evidence.Weigh(ctx, r)
	if err != nil {
		return w, err
	}
	return w, u.each(r, func(f *held, block archive.Block) error {
		if r.Holds(block.Low) && r.Holds(block.High) {
			w.Entries, w.Edges = w.Entries+block.Entries, true
			return nil
		}
		return f.file.Block(block, func(b archive.Batch) error {
			if !less(r.High, b.First) && !less(b.Last, r.Low) {
				w.Entries += int64(len(b.Entries) / chain.EntrySize)
				w.Edges = w.Edges || r.Holds(b.First) || r.Holds(b.Last)
			}
			return nil
		})
	})
}

// Totals implements Evidence.
func (u *Unfolded) Totals(ctx context.Context) (Totals, error) {
	t, err := u.Evidence.Totals(ctx)
	for _, f := range u.files {
		t.Batches += f.rows
	}
	return t, err
}

// Texts are the reference and note of outcomes whose texts left with a batch.
type Texts map[spend.ID][2]*string

// Read adds the texts of a batch. It skips an unreadable text, and then the hash of the outcome
// differs.
func (t Texts) Read(text string) {
	var all [][3]*string
	if text == "" || json.Unmarshal([]byte(text), &all) != nil {
		return
	}
	for _, one := range all {
		if one[0] != nil {
			t[idOf(*one[0])] = [2]*string{one[1], one[2]}
		}
	}
}

// Add restores the texts of an outcome.
func (t Texts) Add(o *spend.Outcome) {
	left := t[o.ID]
	if left[0] != nil {
		o.Reference = *left[0]
	}
	if left[1] != nil {
		o.Note = *left[1]
	}
}

// Fill returns the row of an outcome with its texts.
func (t Texts) Fill(row []byte) ([]byte, error) {
	if len(t) == 0 {
		return row, nil
	}
	fields, err := chain.ParseFields(nil, row)
	if err != nil {
		return nil, err
	}
	if left, is := t[spend.ID(fields[0])]; is {
		row = chain.WithTexts(nil, fields, left[0], left[1])
	}
	return row, nil
}
