package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// S74: of redemptions of one check at once one is recorded, and the others are told whose.
func TestOneRedemptionOfMany(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		key := &audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Executor, Principal: "till"}}
		c := f.check(0, refundOf(t, "10", "c")).answer.Check
		for _, n := range f.nodes { // slow commits have many redemptions each
			n.faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
				time.Sleep(20 * time.Millisecond)
				return commit(ctx, checks)
			})
		}
		redeemed, refusals := make([]*spend.Outcome, 8), make([]error, 8)
		var all sync.WaitGroup
		for i := range redeemed {
			all.Go(func() {
				hash, r := spend.ActionHash(c), hotpath.Request{Access: hotpath.AccessOf(key), ID: "req_000000000000", Started: time.Now()}
				redeemed[i], _, refusals[i] = f.nodes[i%2].Redeem(t.Context(), r, c, i%4 < 2, hotpath.Redemption{ActionHash: &hash})
			})
		}
		all.Wait()
		winner := slices.Index(refusals, nil)
		for i, err := range refusals {
			already, ok := errors.AsType[*hotpath.AlreadyRedeemedError](err)
			if i != winner && (!ok || already.By.ID != redeemed[winner].ID) {
				t.Errorf("refused: %v", err)
			}
		}
	})
}

// redeem redeems a check with its own action.
func (f *fleet) redeem(node int, c *spend.Check) error {
	f.t.Helper()
	key := &audit.Key{ID: spend.ID{6: 0x70, 15: 1}, Grants: spend.Grants{Role: spend.Executor, Principal: "till"}}
	hash, r := spend.ActionHash(c), hotpath.Request{Access: hotpath.AccessOf(key), ID: "req_000000000000", Started: time.Now()}
	_, _, err := f.nodes[node].Redeem(f.t.Context(), r, c, true, hotpath.Redemption{ActionHash: &hash})
	return err
}

// S74: a check that only the store finds late is told so by one commit, and one that is in time is redeemed.
func TestLateByTheStoresClock(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.now = func() time.Time { return time.Now().Add(-20 * time.Minute) }
		f.nodes = append(f.nodes, f.start(f.server, f.inProcess))
		for round := range 3 {
			fresh := f.check(0, refundOf(t, "10", fmt.Sprint("c-", round))).answer.Check
			old := *fresh
			old.ID, old.Pass = spend.NewID(f.now()), spend.Pass{}
			old.Fence.Node = spend.NewID(time.Now()) // with a chain of its own
			must.Do(t, audittest.Record(t.Context(), f.store, &old))
			var commits atomic.Int32
			f.nodes[1].faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
				commits.Add(1)
				time.Sleep(20 * time.Millisecond) // both meet
				return commit(ctx, checks)
			})
			var both sync.WaitGroup
			var late, inTime error
			both.Go(func() { late = f.redeem(1, &old) })
			both.Go(func() { inTime = f.redeem(1, fresh) })
			both.Wait()
			if _, expired := errors.AsType[*hotpath.CheckExpiredError](late); !expired || inTime != nil {
				t.Errorf("the late one %v, the other %v", late, inTime)
			}
			if n := commits.Load(); n > 2 {
				t.Errorf("%d commits", n)
			}
		}
	})
}

// S74: a check that was redeemed and not reported in time is put in doubt by the service, once,
// until somebody reports.
func TestDoubtsOfTheService(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		c := f.check(0, refundOf(t, "10", "c")).answer.Check
		must.Do(t, f.redeem(0, c))
		for i, n := range f.nodes { // each sees that it is due
			n.faults.due = []spend.ID{c.ID}
			if inDoubt, err := n.Doubts(t.Context()); err != nil || inDoubt != 1 {
				t.Errorf("node %d: %d in doubt, %v", i, inDoubt, err)
			}
		}
		steps, err := f.store.Outcomes(t.Context(), []spend.ID{c.ID})
		course := spend.CourseOf(steps)
		if err != nil || len(steps) != 2 || course.Doubt == nil || course.Doubt.KeyID != spend.SystemKey || course.Reports != nil {
			t.Errorf("%+v, %v", steps, err)
		}
	})
}

// Doubts that cannot be recorded, and stay due, keep no redeemed check waiting: checks that the
// store lacks, checks that were not redeemed, or one whose record fails.
func TestDoubtsAreNotStarved(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		checked := func(name string) spend.ID { return f.check(0, refundOf(t, "10", name)).answer.Check.ID }
		var lacking, untouched []spend.ID
		for i := range 100 {
			lacking, untouched = append(lacking, spend.NewID(time.Now())), append(untouched, checked(fmt.Sprint("u-", i)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		want := int64(0)
		for name, before := range map[string][]spend.ID{"lacking": lacking, "not redeemed": untouched, "fails": nil} {
			var redeemed []spend.ID
			for i := range 2 {
				c := f.check(0, refundOf(t, "10", fmt.Sprint(name, "-", i))).answer.Check
				must.Do(t, f.redeem(0, c))
				redeemed = append(redeemed, c.ID)
			}
			faults := f.nodes[0].faults
			faults.due = append(before, redeemed...)
			if want += 2; before == nil {
				want--
				faults.onCommit(func(context.Context, []*spend.Check, realCommit) error {
					faults.onCommit(nil)
					return audit.ErrUnavailable
				})
			}
			if inDoubt, err := f.nodes[0].Doubts(ctx); inDoubt != want || (err != nil) != (before == nil) {
				t.Errorf("%s: %d in doubt, want %d, %v", name, inDoubt, want, err)
			}
		}
	})
}

// F129: what a node assumes of a check refuses nothing. One that was redeemed at another node
// is told as that, and not as too late, after which it would be given back.
func TestRedeemedElsewhereIsNotExpired(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.now = func() time.Time { return time.Now().Add(time.Hour) } // as late as it will be
		f.nodes = append(f.nodes, f.start(f.server, f.inProcess))
		c := f.check(0, refundOf(t, "10", "c")).answer.Check
		must.Do(t, f.redeem(0, c))
		if _, ok := errors.AsType[*hotpath.AlreadyRedeemedError](f.redeem(1, c)); !ok {
			t.Errorf("got %v", f.redeem(1, c))
		}
	})
}

// F129: a store that answered from memory, or another one than it asked, refuses to redeem a
// check that it lacks.
func TestForgottenCheckIsNotRedeemed(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		c := *f.check(0, refundOf(t, "10", "c")).answer.Check
		c.ID = spend.NewID(time.Now())
		f.nodes[0].faults.onCommit(func(context.Context, []*spend.Check, realCommit) error {
			f.nodes[0].faults.onCommit(nil)
			return &audit.ReportedError{CheckIDs: []spend.ID{c.ID}}
		})
		if err := f.redeem(0, &c); !errors.Is(err, audit.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

// S74, G14: an expired check may have been redeemed in time, and one from before a restore later than
// the backup, so no refusal advises to ask for another check at once.
func TestExpiredText(t *testing.T) {
	text := (&hotpath.CheckExpiredError{Within: 10 * time.Minute}).Error()
	if !strings.Contains(text, "10 minutes") || !strings.Contains(text, "may have been redeemed in time: look at the check a minute later") {
		t.Error(text)
	}
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		var age time.Duration
		f.now = func() time.Time { return time.Now().Add(age) }
		f.nodes = append(f.nodes, f.start(f.server, f.inProcess))
		c := f.check(0, refundOf(t, "10", "c")).answer.Check
		for _, restored := range []bool{true, false} {
			f.nodes[1].faults.onCommit(func(context.Context, []*spend.Check, realCommit) error {
				return &audit.ReportedError{CheckIDs: []spend.ID{c.ID}, Late: []spend.ID{c.ID}}
			})
			err := f.redeem(1, c)
			if expired, ok := errors.AsType[*hotpath.CheckExpiredError](err); !ok || expired.Restored != restored ||
				strings.Contains(err.Error(), "younger than the 15 minutes") != restored {
				t.Errorf("%s old: %v", age, err)
			}
			age = 16 * time.Minute
		}
	})
}
