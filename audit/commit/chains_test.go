package commit_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// chains checks that the recorded chains satisfy G8: links are numbered from 1 without gaps, each
// head follows from the one before, and the entries are those of the batch. It returns the length
// of each chain.
func (s *trail) chains(t *testing.T) map[spend.ID]int64 {
	t.Helper()
	heads := make(map[spend.ID]chain.Head)
	length := make(map[spend.ID]int64)
	for _, one := range s.recorded {
		batch, link := one.checks, one.link
		chainID := batch[0].Fence.Node
		before := heads[chainID]
		if link.Seq != before.Seq+1 || link.Head != chain.HashBatch(chainID, link.Seq, before.Head, link.Entries) {
			t.Errorf("chain %x: link %d does not follow link %d", chainID[:1], link.Seq, before.Seq)
		}
		heads[chainID] = chain.Head{Chain: chainID, Seq: link.Seq, Head: link.Head}
		length[chainID] = link.Seq
		entries, err := chain.ParseEntries(link.Entries)
		if err != nil || len(entries) != len(batch) {
			t.Errorf("%d entries of %d checks, %v", len(entries), len(batch), err)
		}
		listed := make(map[spend.ID]spend.Hash)
		for _, e := range entries {
			listed[e.ID] = e.Row
		}
		for _, c := range batch {
			if listed[c.ID] != chain.HashCheck(c) {
				t.Errorf("check %x is not listed with its row", c.ID)
			}
		}
	}
	return length
}

// A commit that certainly failed leaves no trace in the chain, and batches that are committed again
// in smaller ones are linked as recorded.
func TestChainFollowsWhatWasRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: time.Millisecond}
		failing := false
		s.spoil = func(batch []*spend.Check) (bool, error) {
			if failing {
				failing = false
				return false, audit.ErrUnavailable
			}
			for _, c := range batch {
				switch c.Action.IdempotencyKey {
				case "taken":
					return false, &audit.KeysTakenError{Hashes: []spend.Hash{spend.HashKey("taken")}}
				case "poison":
					return false, &audit.RowError{Err: errors.New("bad")}
				}
			}
			return true, nil
		}
		w := s.newWriter(100)
		record(w, check(1, ""), check(1, ""))
		failing = true
		record(w, check(1, ""))
		record(w, check(1, ""), check(1, "taken"), check(1, ""), check(1, "poison"), check(1, ""))
		stale := check(1, "")
		stale.Fence.Epoch = spend.ID{9} // another epoch, the same chain
		record(w, stale)
		record(w, check(2, ""))
		w.Close()
		if len(s.rows) != 7 {
			t.Errorf("%d rows", len(s.rows))
		}
		// At least three: the poisoned check may be alone in its batch.
		if got := s.chains(t); got[spend.ID{1}] < 3 || got[spend.ID{2}] != 1 {
			t.Errorf("chains of %v", got)
		}
	})
}

// F34: once a commit's outcome is unknown, nothing more is sent of its chain,
// also what waited already and what comes with the old fence later, in batches
// that were halved as well (F38).
func TestChainEndsWithAnUnknownOutcome(t *testing.T) {
	for name, outcome := range map[string]error{"unknown": audit.ErrUnknown, "forked": audit.ErrForked} {
		for _, recorded := range []bool{true, false} {
			if recorded && errors.Is(outcome, audit.ErrForked) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &trail{takes: 10 * time.Millisecond}
					s.spoil = func(batch []*spend.Check) (bool, error) {
						if len(s.batches) == 1 {
							return true, nil
						}
						if len(batch) > 1 {
							return false, &audit.RowError{Err: errors.New("bad")} // halve
						}
						s.spoil = nil
						return recorded, outcome
					}
					w := s.newWriter(100)
					ahead, one := w.Append(check(1, "")), check(1, "")
					time.Sleep(time.Millisecond) // the batch is in the order of identifiers
					first := []*commit.Entry{w.Append(one), w.Append(check(1, ""))}
					must.Check(t, ahead.Final())
					time.Sleep(time.Millisecond)
					waiting := w.Append(check(1, ""))
					if err := first[0].Final(); recorded && err != nil || !recorded && !errors.Is(err, audit.ErrFencedNode) {
						t.Errorf("the commit that was in doubt: %v", err)
					}
					late := w.Append(check(1, ""))
					for _, e := range []*commit.Entry{first[1], waiting, late} {
						if err := e.Final(); !errors.Is(err, audit.ErrFencedNode) {
							t.Errorf("of the old chain: %v", err)
						}
					}
					if err := w.Append(check(2, "")).Final(); err != nil {
						t.Errorf("of the new chain: %v", err)
					}
					w.Close()
					if sent := len(s.batches); sent != 4 { // the one ahead, both, the first alone, the new chain's
						t.Errorf("%d batches were sent", sent)
					}
					if len(s.retired) == 0 || s.retired[0] != (spend.ID{1}) || len(s.fenced) == 0 {
						t.Errorf("retired %v, fenced %v", s.retired, s.fenced)
					}
					s.chains(t)
				})
			})
		}
	}
}

// A node that was fenced by another sends nothing more of its chain.
func TestChainEndsWithAFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: time.Millisecond}
		s.spoil = func([]*spend.Check) (bool, error) { return false, audit.ErrFencedNode }
		w := s.newWriter(100)
		for range 3 {
			if err := record(w, check(1, ""))[0]; !errors.Is(err, audit.ErrFencedNode) {
				t.Errorf("got %v", err)
			}
		}
		w.Close()
		if len(s.batches) != 1 {
			t.Errorf("%d batches were sent", len(s.batches))
		}
	})
}

// However many incarnations there were, a chain that is gone on with is known (F38).
func TestManyChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: time.Millisecond}
		w := s.newWriter(1000)
		for i := range 200 {
			for range 2 {
				if err := record(w, check(byte(i), ""))[0]; err != nil {
					t.Error(err)
				}
			}
		}
		w.Close()
		for chainID, length := range s.chains(t) {
			if length != 2 {
				t.Errorf("chain %x is %d long", chainID[:1], length)
			}
		}
	})
}
