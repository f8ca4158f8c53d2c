package verify

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/checkpoint"
	"spendgate/audit/spend"
)

// checkpoints compares the chains with each file of signed checkpoints: what was there must still
// be there.
func (v *verifier) checkpoints(ctx context.Context) error {
	if len(v.o.Checkpoints) == 0 {
		return nil
	}
	all := checkpointWalk{verifier: v}
	if err := all.chainHeads(ctx); err != nil {
		return err
	}
	for _, file := range v.o.Checkpoints {
		w, before := all, v.tally.checkpoints.Load()
		w.history = &history{steps: make(map[spend.ID][]step), state: make(map[spend.ID]chain.Head)}
		v.known.files = append(v.known.files, w.history)
		if file.Name != "" {
			w.file = " of " + file.Name
		}
		if err := w.walk(ctx, file.Lines); err != nil {
			return err
		}
		if v.tally.checkpoints.Load() == before {
			v.tally.find(Unchecked, "checkpoints"+w.file, "the file holds none")
		}
	}
	for _, f := range v.known.resolve() {
		v.tally.find(f.Kind, f.Subject, "%s", f.Detail)
	}
	return nil
}

// walk reads a file line by line.
func (w *checkpointWalk) walk(ctx context.Context, file io.Reader) error {
	lines := bufio.NewReaderSize(file, 1<<16)
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		if len(text) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("cannot read the checkpoints%s: %w", w.file, err)
		}
		if err := w.line(ctx, number, bytes.TrimSuffix(text, []byte("\n"))); err != nil {
			return err
		}
	}
}

type checkpointWalk struct {
	*verifier
	file     string     // as findings name it: " of NAME", or nothing
	previous spend.Hash // of the last complete line
	history  *history
	changes  map[int64]spend.Hash // heads of the changes, by number
}

func (w *checkpointWalk) chainHeads(ctx context.Context) error {
	w.changes = make(map[int64]spend.Hash)
	return Changes(ctx, w.o.Evidence, func(c Change) error {
		w.changes[c.Seq] = c.Head
		return nil
	})
}

func (w *checkpointWalk) line(ctx context.Context, number int, text []byte) error {
	name := fmt.Sprintf("checkpoint on line %d%s", number, w.file)
	l, err := checkpoint.Parse(text, w.o.PublicKey)
	if errors.Is(err, checkpoint.ErrTorn) {
		// A crash leaves such a line. A complete line cannot be passed off as torn: the hash in the
		// next line shows it.
		w.tally.torn++
		return nil
	}
	sum := sha256.Sum256(text)
	if err != nil {
		w.tally.find(Altered, name, "%v", err)
		w.previous = sum
		return nil
	}
	if spend.Hash(l.Previous) != w.previous {
		w.tally.find(Altered, name, "it does not follow the line before it: lines were taken out, or put in another order")
	}
	w.previous = sum
	w.tally.checkpoints.Add(1)
	if l.Time.After(w.tally.lastCheckpoint) {
		w.tally.lastCheckpoint = l.Time
	}
	w.advance(name, l)
	w.history.add(l)
	if l.Acknowledged != nil {
		w.known.accepts = append(w.known.accepts, accepted(l))
	}
	head, ok := w.changes[l.Changes.Seq]
	if wrong := !ok || head != spend.Hash(l.Changes.Head); l.Changes.Seq > 0 && wrong {
		kind, what := Altered, "has another head than"
		if !ok {
			kind, what = Removed, "is not there; it was at"
		}
		f := Finding{kind, changeName(l.Changes.Seq), what + " the checkpoint of " + stamp(l.Time)}
		w.known.dispute(changesName, disputed{l.Time, l.Changes.Seq, f})
	}
	return w.compare(ctx, l)
}

// advance updates the state of all chains with a line.
func (w *checkpointWalk) advance(name string, l checkpoint.Line) {
	next := make(map[spend.ID]chain.Head, l.Chains)
	if !l.Full {
		next = w.history.state
	}
	for _, h := range l.Heads {
		chainID := spend.ID(h.Chain)
		if before, ok := w.history.state[chainID]; ok && h.Seq < before.Seq && l.Acknowledged == nil {
			w.tally.find(Removed, chainName(chainID), "%s has it end at batch %d, one before it at batch %d", name, h.Seq, before.Seq)
		}
		next[chainID] = chain.Head{Chain: chainID, Seq: h.Seq, Head: spend.Hash(h.Head)}
	}
	for chainID := range w.history.state {
		if _, ok := next[chainID]; !ok && l.Acknowledged == nil {
			w.tally.find(Removed, chainName(chainID), "%s does not have it, one before it does", name)
		}
	}
	w.history.state = next
	heads := slices.Collect(maps.Values(next))
	if len(heads) != l.Chains || checkpoint.Digest(heads) != spend.Hash(l.Digest) {
		w.tally.find(Altered, name, "its digest is not that of its heads and of those on the lines before")
	}
}

// compare looks the line's heads up in the database.
func (w *checkpointWalk) compare(ctx context.Context, l checkpoint.Line) error {
	places := make([]Place, len(l.Heads))
	for i, h := range l.Heads {
		places[i] = Place{spend.ID(h.Chain), h.Seq}
	}
	heads, latest, err := w.o.Evidence.Heads(ctx, places)
	if err != nil {
		return err
	}
	for i, h := range l.Heads {
		place := places[i]
		head, ok := heads[place]
		if ok && head == spend.Hash(h.Head) || !ok && w.unfolded.absent(place) != nil {
			continue
		}
		f := Finding{Kind: Removed, Subject: chainName(place.Chain)}
		switch last, exists := latest[place.Chain]; {
		case !exists:
			f.Detail = fmt.Sprintf("all of it is gone; the checkpoint of %s has it end at batch %d", stamp(l.Time), h.Seq)
		case last < h.Seq:
			f.Detail = fmt.Sprintf("its end is cut off: it ends at batch %d, in the checkpoint of %s at batch %d", last, stamp(l.Time), h.Seq)
		case !ok:
			f = Finding{Removed, batchName(place.Chain, place.Seq), fmt.Sprintf("the checkpoint of %s has it", stamp(l.Time))}
		default:
			f = Finding{Altered, batchName(place.Chain, place.Seq), fmt.Sprintf("its head is not that of the checkpoint of %s", stamp(l.Time))}
		}
		w.known.dispute(chainName(place.Chain), disputed{l.Time, h.Seq, f})
	}
	return nil
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
