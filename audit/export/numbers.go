package export

import (
	"context"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// numbers has the numbers of the batches found for a range, by chain: one bit each, 64 in a word.
type numbers map[spend.ID]map[int64]uint64

func (n numbers) add(p verify.Place) {
	if n[p.Chain] == nil {
		n[p.Chain] = make(map[int64]uint64)
	}
	n[p.Chain][p.Seq/64] |= 1 << (p.Seq % 64)
}

// has reports whether the batch was found for the range.
func (n numbers) has(p verify.Place) bool { return n[p.Chain][p.Seq/64]&(1<<(p.Seq%64)) != 0 }

// lookedUp is how many batches are looked up at a time.
const lookedUp = 1000

// beside is how far before and after a range batches of a chain are considered: their numbers show
// what was removed even if nothing of the range is left.
const beside = time.Hour

func (g *reading) edges() (edges []verify.Range) {
	if low := g.r.Low; !low.IsZero() {
		edges = append(edges, verify.Range{Low: audit.FirstID(low.Time().Add(-beside).UnixMilli()), High: low})
	}
	if high := g.r.High; high != audit.MaxID() {
		edges = append(edges, verify.Range{Low: high, High: audit.FirstID(high.Time().Add(beside).UnixMilli())})
	}
	return edges
}

// lost counts missing batches, up to the heads, whose numbers lie between or next to those of the
// range and an hour around it: a removed batch takes what it listed along, and then only its number
// is missing.
func (g *reading) lost(ctx context.Context) (lost int64, err error) {
	for _, edge := range g.edges() {
		err := g.batches(ctx, edge, func(b verify.Batch) error {
			if p := (verify.Place{Chain: b.Chain, Seq: b.Seq}); !g.beyond(p) {
				g.met.add(p)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	folded, err := tops(ctx, g.record)
	if err != nil {
		return 0, err
	}
	var places []verify.Place
	look := func() error {
		heads, _, err := g.record.Heads(ctx, places)
		lost, places = lost+int64(len(places)-len(heads)), places[:0]
		return err
	}
	for chain, words := range g.met {
		first, last := int64(-1), int64(0)
		for word := range words {
			if first < 0 || word < first {
				first = word
			}
			last = max(last, word)
		}
		low, high := first*64, last*64+63
		for low < high && !g.met.has(verify.Place{Chain: chain, Seq: low}) {
			low++
		}
		for high > low && !g.met.has(verify.Place{Chain: chain, Seq: high}) {
			high--
		}
		for seq := max(low-1, folded[chain]+1); seq <= min(high+1, g.ends[chain]); seq++ {
			if p := (verify.Place{Chain: chain, Seq: seq}); !g.met.has(p) {
				places = append(places, p)
			}
			if len(places) == lookedUp {
				if err := look(); err != nil {
					return 0, err
				}
			}
		}
	}
	if len(places) > 0 {
		err = look()
	}
	return lost, err
}

// tops returns the numbers of the last folded batches, by chain: archives have all batches up to
// these.
func tops(ctx context.Context, record Record) (map[spend.ID]int64, error) {
	folded := make(map[spend.ID]int64)
	return folded, record.Folds(ctx, func(f verify.Fold) error {
		folded[f.Chain] = max(folded[f.Chain], f.To)
		return nil
	})
}
