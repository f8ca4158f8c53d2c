package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// mustRefuse demands that a check is refused as unavailable within 2 s (G7).
func (f *fleet) mustRefuse(node int, action spend.Action) {
	f.t.Helper()
	started := time.Now()
	o := f.check(node, action)
	if took := time.Since(started); took > 2*time.Second || !errors.Is(o.err, hotpath.ErrUnavailable) {
		f.t.Errorf("%s after %s: %s", action.Counterparty, took, o)
	}
}

// hangCommits has each commit take until its time is over. It returns a channel of their beginnings.
func (s *faultyStore) hangCommits(over func()) (begun chan struct{}) {
	begun = make(chan struct{}, 64)
	s.onCommit(func(ctx context.Context, _ []*spend.Check, _ realCommit) error {
		begun <- struct{}{}
		<-ctx.Done()
		over()
		return fmt.Errorf("%w: %w", audit.ErrUnknown, errTest)
	})
	return begun
}

// G7: windows are lost, or the configuration changed, and the store hangs. No
// check waits for another one's turn to find that out.
func TestBlindChecksDoNotQueue(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return audit.ErrUnavailable }
	blind := func(t *testing.T, f *fleet, node int) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() { f.mustRefuse(node, refundOf(t, "10", fmt.Sprint("c", i))) })
		}
		wg.Wait()
	}
	t.Run("windows lost", inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 1)
		f.check(0, refundOf(t, "1", "warm"))
		f.nodes[0].faults.epoch = hang
		f.flush()
		blind(t, f, 0)
	}))
	t.Run("configuration changed", inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 2)
		f.check(1, refundOf(t, "1", "warm"))
		f.post(0, "p", plainRules)
		f.nodes[1].faults.config = hang
		blind(t, f, 1)
	}))
}

// G7: identical checks wait for one whose store hangs, or fails slowly, or only
// does not commit, as without its synchronous standby. None is answered later
// than 2 s.
func TestWaitersAreRefusedInTime(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", audit.ErrUnavailable, errTest)
	}
	hangs := func(ctx context.Context, _ []*spend.Check, _ realCommit) error {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", audit.ErrUnknown, errTest)
	}
	for name, commit := range map[string]commitFault{
		"the store hangs":                hangs,
		"commits hang":                   hangs,
		"commits hang, then look-ups do": hangs,
		"commits fail slowly": func(context.Context, []*spend.Check, realCommit) error {
			time.Sleep(900 * time.Millisecond)
			return fmt.Errorf("%w: %w", audit.ErrUnavailable, errTest)
		},
	} {
		t.Run(name, inVirtualTime(func(t *testing.T) {
			f := newFleet(t, embeddedBackend(), 1)
			f.check(0, refundOf(t, "1", "warm"))
			s := f.nodes[0].faults
			s.onCommit(commit)
			switch name {
			case "the store hangs":
				s.epoch, s.config, s.reads, s.fence = hang, hang, hang, hang
			case "commits hang":
				s.fence = hang // it waits for the commit
			case "commits hang, then look-ups do":
				s.fence = hang
				stopped := time.Now().Add(1350 * time.Millisecond)
				s.reads = func(ctx context.Context) error {
					if time.Now().Before(stopped) {
						return nil // nothing is found
					}
					return hang(ctx)
				}
			}
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					started := time.Now()
					o := f.check(0, refundOf(t, "10", "c"))
					if took := time.Since(started); took > 2*time.Second || o.err == nil {
						t.Errorf("check %d after %s: %s", i, took, o)
					}
				})
			}
			wg.Wait()
			s.onCommit(nil)
		}))
	}
}

// Checks that waited long for a stopped node's claim are late already. They
// still wait for the one among them that takes it over.
func TestLateWaitersMeetTheTakeover(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 2)
		action := refundOf(t, "10", "c")
		held, release := f.nodes[0].holdCommit(nil)
		var stopped, waiting sync.WaitGroup
		stopped.Go(func() { f.check(0, action) })
		<-held
		f.nodes[1].faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
			time.Sleep(100 * time.Millisecond) // the others meet its flight
			return commit(ctx, checks)
		})
		outcomes := make([]outcome, 4)
		for i := range outcomes {
			waiting.Go(func() { outcomes[i] = f.check(1, action) })
		}
		waiting.Wait()
		release()
		stopped.Wait()
		onePass(t, f, outcomes)
	})(t)
}

// G7: checks are in the queue behind a commit that hangs. Its outcome is given
// up, and with it the node's chain: they are claimed again, and are not
// answered later for that. Either the whole store hangs, or commits alone, as
// behind a lock of one of their tables.
func TestQueuedChecksAreRefusedInTime(t *testing.T) {
	t.Run("all hangs", inVirtualTime(func(t *testing.T) { queuedChecksAreRefusedInTime(t, true) }))
	t.Run("commits hang", inVirtualTime(func(t *testing.T) { queuedChecksAreRefusedInTime(t, false) }))
}

func queuedChecksAreRefusedInTime(t *testing.T, all bool) {
	f := newFleet(t, embeddedBackend(), 1)
	f.check(0, refundOf(t, "1", "warm"))
	s := f.nodes[0].faults
	if all {
		hang := func(ctx context.Context) error { <-ctx.Done(); return audit.ErrUnavailable }
		s.epoch, s.config, s.reads, s.fence = hang, hang, hang, hang
	}
	begun := s.hangCommits(func() {})
	var wg sync.WaitGroup
	wg.Go(func() { f.mustRefuse(0, refundOf(t, "10", "first")) })
	<-begun
	for i := range 6 {
		wg.Go(func() { f.mustRefuse(0, refundOf(t, "10", fmt.Sprint("c", i))) })
	}
	wg.Wait()
	s.onCommit(nil)
}

// G7: checks are claimed again behind a commit that hangs, while windows are not loaded and the store
// is busy with another look-up: their own look-up would end too late.
func TestReclaimedChecksAreRefusedInTime(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 1)
		f.check(0, refundOf(t, "1", "warm"))
		s := f.nodes[0].faults
		gate := make(chan struct{})
		defer close(gate)
		s.pages = func() { <-gate }
		f.flush()
		var stopped atomic.Bool
		s.reads = func(ctx context.Context) error {
			if !stopped.Load() {
				return nil // nothing is found
			}
			<-ctx.Done()
			return audit.ErrUnavailable
		}
		begun := s.hangCommits(func() {})
		var wg sync.WaitGroup
		check := func(counterparty string) {
			wg.Go(func() { f.mustRefuse(0, refundOf(t, "10", counterparty)) })
		}
		check("first")
		<-begun
		for i := range 3 {
			check(fmt.Sprint("queued", i))
		}
		time.Sleep(700 * time.Millisecond)
		stopped.Store(true)
		check("looking up")
		wg.Wait()
		s.onCommit(nil)
	})(t)
}

// G7: identical checks wait for one whose commit hangs, and claim once that commit is known to be
// void: a claim shows nothing about the store, so they are not answered later for it. Look-ups go on, or
// hang as well from then on, while windows are not loaded.
func TestWaitersBehindAHangingCommit(t *testing.T) {
	for _, key := range []string{"", "k"} {
		for _, lookUp := range []bool{true, false} {
			t.Run(fmt.Sprintf("key %q, look-ups %v", key, lookUp), inVirtualTime(func(t *testing.T) {
				waitersBehindAHangingCommit(t, key, lookUp)
			}))
		}
	}
}

func waitersBehindAHangingCommit(t *testing.T, key string, lookUp bool) {
	f := newFleet(t, embeddedBackend(), 1)
	f.check(0, refundOf(t, "1", "warm"))
	s := f.nodes[0].faults
	var givenUp atomic.Bool
	if !lookUp {
		gate := make(chan struct{})
		defer close(gate)
		s.pages = func() { <-gate }
		f.flush()
		s.claims = func(ctx context.Context) error {
			if !givenUp.Load() {
				return nil
			}
			<-ctx.Done()
			return audit.ErrUnavailable
		}
	}
	begun := make(chan struct{}, 64)
	var commits atomic.Int32
	s.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
		begun <- struct{}{}
		if commits.Add(1) == 1 { // so that the next one is given up after its client was answered
			time.Sleep(600 * time.Millisecond)
			return commit(ctx, checks)
		}
		<-ctx.Done()
		givenUp.Store(true)
		return fmt.Errorf("%w: %w", audit.ErrUnknown, errTest)
	})
	var wg sync.WaitGroup
	wg.Go(func() { f.check(0, refundOf(t, "10", "slow")) })
	<-begun
	for i := range 5 {
		wg.Go(func() { f.mustRefuse(0, keyed(refundOf(t, "10", "c"), key)) })
		if i == 0 {
			<-begun
		}
	}
	wg.Wait()
	s.onCommit(nil)
}

// G7: a check with an approval is claimed again behind a commit that hangs, and the store does not tell
// about the approval any more.
func TestReclaimedUseIsRefusedInTime(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 1)
		f.post(0, "e", fmt.Sprintf(askRules, 1000))
		action := refundOf(t, "101", "c")
		action.PolicyID = "e"
		approval := f.asked(action)
		f.approve(approval, "bob")
		s := f.nodes[0].faults
		var givenUp atomic.Bool
		s.approvals = func() error {
			if givenUp.Load() {
				time.Sleep(2 * time.Second)
			}
			return nil
		}
		begun := s.hangCommits(func() { givenUp.Store(true) })
		var wg sync.WaitGroup
		wg.Go(func() { f.check(0, refundOf(t, "10", "first")) })
		<-begun
		f.mustRefuse(0, with(approval, action))
		wg.Wait()
		s.onCommit(nil)
	})(t)
}

// One key, one fingerprint, one node: A owns k and waits for an f that B has
// let go, while B waits for A's k. Neither may wait for the other.
func TestNoWaitingCycle(t *testing.T) {
	inVirtualTime(func(t *testing.T) {
		f := newFleet(t, embeddedBackend(), 1)
		o := f.mini.Options()
		p := newProxy(&o)
		f.nodes = append(f.nodes, f.start(o, true)) // node 1 is 3 ms from Redis
		for round := range 8 {
			p.delay.Store(0)
			f.check(1, refundOf(t, "1", fmt.Sprint("warm", round)))
			p.delay.Store(int64(3 * time.Millisecond))
			action := refundOf(t, "10", fmt.Sprint("c", round))
			mine := keyed(action, fmt.Sprint("k", round))
			held, fail := f.nodes[0].holdCommit(fmt.Errorf("%w: %w", audit.ErrUnavailable, errTest))
			var wg sync.WaitGroup
			wg.Go(func() { f.check(0, action) }) // holds f, and will fail
			<-held
			send := func(who string) {
				wg.Go(func() {
					started := time.Now()
					if o := f.check(1, mine); o.err != nil || time.Since(started) > 2*time.Second {
						t.Errorf("round %d, %s after %s: %s", round, who, time.Since(started), o)
					}
				})
			}
			send("A")
			time.Sleep(60 * time.Millisecond) // A owns k and looks at f
			fail()
			for i := range 12 {
				send(fmt.Sprint("B", i))
				time.Sleep(2 * time.Millisecond)
			}
			wg.Wait()
			if t.Failed() {
				return
			}
		}
	})(t)
}
