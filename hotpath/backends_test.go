package hotpath_test

import (
	"sync"
	"testing"

	"spendgate/audit/spend"
)

// eachBackend runs a test on every pair of backends, side by side: once in a
// test, for the real Redis is emptied.
func eachBackend(t *testing.T, nodes int, test func(*testing.T, *fleet)) {
	t.Helper()
	for _, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			test(t, newFleet(t, b, nodes))
		})
	}
}

// meanwhile does something again and again until it is stopped.
func meanwhile(do func()) (stop func()) {
	stopped := make(chan struct{})
	var doing sync.WaitGroup
	doing.Go(func() {
		for {
			select {
			case <-stopped:
				return
			default:
				do()
			}
		}
	})
	return func() { close(stopped); doing.Wait() }
}

// onePass fails unless exactly one outcome is a pass, and every other one a
// duplicate that names it or, if allowed, its replay.
func onePass(t *testing.T, f *fleet, outcomes []outcome) (pass *spend.Check) {
	t.Helper()
	for _, o := range outcomes {
		if o.err != nil {
			t.Errorf("an answer failed: %v", o.err)
			return nil
		}
		if o.passed() {
			if pass != nil {
				t.Errorf("two passed: %s and %s", pass.ID.Text("chk_"), o)
			}
			pass = o.answer.Check
		}
	}
	if pass == nil {
		t.Fatalf("nobody passed: %v", outcomes)
	}
	if f.recorded(pass.ID) == nil {
		t.Errorf("the pass is not recorded")
	}
	if n := f.passes(pass.Action); n != 1 {
		t.Errorf("the trail holds %d passes", n)
	}
	return pass
}
