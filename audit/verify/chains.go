package verify

import (
	"bytes"
	"context"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// chainTasks hands out one task per chain.
func (v *verifier) chainTasks(ctx context.Context, hand func(task) error) error {
	spans, err := v.o.Evidence.Chains(ctx, v.all)
	if err != nil {
		return err
	}
	for _, span := range spans {
		if err := hand(func(ctx context.Context) error { return v.chain(ctx, span) }); err != nil {
			return err
		}
	}
	return nil
}

// chainWalk follows one chain. A head is right if it follows from the previous head. If the
// previous head is itself wrong, the next may build on its stored or its recomputed value, or,
// where batches were reordered, on an earlier head: the next batch is right if it follows from any
// of these.
type chainWalk struct {
	*verifier
	chainID  spend.ID
	seq      int64        // of the batch before
	previous []spend.Hash // what its head may have been; none if the batch is missing
}

// maxCandidates bounds the number of heads from which a batch may follow.
const maxCandidates = 8

func (v *verifier) chain(ctx context.Context, span ChainSpan) error {
	w := chainWalk{verifier: v, chainID: span.Chain, previous: []spend.Hash{{}}}
	if v.o.From.IsZero() {
		span.From = min(span.From, 1)
	}
	from := span.From
	if from > 1 { // the head before the first
		w.previous = nil
		w.seq = from - 2
		from--
	}
	if v.o.To.IsZero() {
		span.To = 1<<63 - 1
	}
	v.tally.chains.Add(1)
	err := v.o.Evidence.Chain(ctx, span.Chain, from, span.To, func(b Batch) error {
		if b.Seq < span.From { // not itself in the range
			w.seq, w.previous = b.Seq, []spend.Hash{toHash(b.Head)}
			return nil
		}
		v.tally.batches.Add(1)
		w.batch(b)
		return nil
	})
	w.skip(1<<63 - 1)
	if top := v.unfolded.top(span.Chain); err == nil && v.whole() && top > 0 && w.seq <= top {
		v.tally.find(Removed, batchName(span.Chain, top+1), "the last batch of a chain stays when those before it are folded")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.walked[w.chainID] = w.seq
	return err
}

// skip passes batches, up to a number, that were folded and cannot be read.
func (w *chainWalk) skip(to int64) {
	for {
		f := w.unfolded.absent(Place{w.chainID, w.seq + 1})
		if f == nil || f.To > to {
			return
		}
		w.seq, w.previous = f.To, []spend.Hash{f.Head}
	}
}

func (w *chainWalk) batch(b Batch) {
	name := batchName(w.chainID, b.Seq)
	if b.Seq < 1 {
		w.tally.find(Inserted, name, "numbers begin at 1")
		return
	}
	w.skip(b.Seq - 1)
	if b.Seq != w.seq+1 {
		w.missing(w.seq+1, b.Seq-1)
		w.previous = nil
	}
	w.seq = b.Seq
	stored := toHash(b.Head)
	entries, err := chain.ParseEntries(b.Entries)
	switch {
	case b.Version != chain.Version:
		w.tally.find(Unchecked, name, "its format %d is none that this program knows", b.Version)
		w.previous = []spend.Hash{stored}
		return
	case err != nil:
		w.tally.find(Altered, name, "its entries cannot be read: %v", err)
		w.previous = []spend.Hash{stored}
		return
	}
	w.tally.chained.Add(int64(len(entries)))
	w.tally.latest(entries[len(entries)-1].ID)
	w.late(b.Seq, entries)
	if b.First != entries[0].ID || b.Last != entries[len(entries)-1].ID {
		w.tally.find(Altered, name, "it is noted under other identifiers than those that it lists")
	}
	if w.previous == nil { // the gap before it was reported
		w.previous = []spend.Hash{stored}
		return
	}
	var computed spend.Hash
	for _, previous := range w.previous {
		computed = chain.HashBatch(w.chainID, b.Seq, previous, b.Entries)
		if bytes.Equal(computed[:], b.Head) {
			w.previous = []spend.Hash{computed}
			return
		}
	}
	w.tally.find(Altered, name, "its head does not follow from its entries and the head before")
	w.previous = append(w.previous[max(0, len(w.previous)-maxCandidates):], stored, computed)
}

// late names the checks and outcomes of a batch that are older than a checkpoint without the batch:
// the signer would have seen them.
func (w *chainWalk) late(seq int64, entries []chain.Entry) {
	lacking, kind := w.known.lackingBatch(w.chainID, seq)
	for _, e := range entries {
		if !lacking.After(e.ID.Time().Add(lateCommit)) {
			return // and so are the others
		}
		if !w.all.Holds(e.ID) {
			continue
		}
		w.tally.find(kind, entryName(e.ID),
			"it is older than the checkpoint of %s, which does not have %s that lists it: it was inserted afterwards, "+
				"its commit was held up that long, or its node's clock was behind", stamp(lacking), batchName(w.chainID, seq))
	}
}

func (w *chainWalk) missing(from, to int64) {
	const after = "the batch after it is there; its own head cannot be checked then"
	if from == to {
		w.tally.find(Removed, batchName(w.chainID, from), after)
		return
	}
	w.tally.find(Removed, batchName(w.chainID, from), "and all up to number %d: %s", to, after)
}

// toHash converts bytes; bytes that are no hash become the zero hash, which equals no hash.
func toHash(b []byte) (h spend.Hash) {
	if len(b) == len(h) {
		copy(h[:], b)
	}
	return h
}
