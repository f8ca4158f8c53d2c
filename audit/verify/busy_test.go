package verify_test

import (
	"sync"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// TestWhileNodesWrite finds nothing while commits go on in many chains, policies
// come and checkpoints are signed: a reading is of one moment, and the file is
// read as it was before.
func TestWhileNodesWrite(t *testing.T) {
	tr := newTrail(t)
	const rounds, timesARound = 8, 30
	// The number of rows written is bounded: otherwise a busy machine would verify more and more
	// rows.
	var writing sync.WaitGroup
	var begun []chan struct{}
	again := func(what func()) {
		begin := make(chan struct{}, rounds)
		begun = append(begun, begin)
		writing.Go(func() {
			for range begin {
				for range timesARound {
					what()
				}
			}
		})
	}
	epoch := must.Get(tr.store.Epoch(t.Context()))(t)
	for range 3 {
		chainID := spend.NewID(time.Now())
		again(func() {
			checks := checksOfAllSorts(spend.Fence{Node: chainID, Epoch: epoch})
			charge(checks...)
			for _, c := range checks {
				must.Check(t, tr.writer.Append(c).Final())
			}
		})
	}
	again(func() {
		must.Check(t, tr.checkpoints.Write(t.Context()))
	})
	var verified int64
	for range rounds {
		for _, begin := range begun {
			begin <- struct{}{}
		}
		found, s, err := tr.verify(func(o *verify.Options) { o.SliceSize = 50; tr.held(o) })
		if err != nil || len(found) > 0 {
			t.Errorf("%v, %v", found, err)
		}
		if s.Checks < verified {
			t.Errorf("%d checks, %d before", s.Checks, verified)
		}
		verified = s.Checks
	}
	for _, begin := range begun {
		close(begin)
	}
	writing.Wait()
	if tr.count("budget_counters") < 3 {
		t.Error("nothing was taken from budgets")
	}
	if verified <= 2*perChain*perRecord {
		t.Errorf("nothing was written meanwhile: %d checks", verified)
	}
}
