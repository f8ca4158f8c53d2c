package detach

import (
	"sync"
	"testing"

	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
)

// TestDetachOutlastsVacuum: a vacuum is waited for in its own mode, for which autovacuum gives the
// table up and behind which no commit queues.
func TestDetachOutlastsVacuum(t *testing.T) {
	ctx := t.Context()
	o := newOldDays(t)
	vacuum, observer := connect(t, o.url), connect(t, o.url)
	part := "checks_" + o.first.Format("20060102")
	var waited sync.WaitGroup
	amid := func() {
		if mode := fleet.TestWaits(t, observer, part); mode != "ShareUpdateExclusiveLock" {
			t.Errorf("the detach waits for %q", mode)
		}
		c := minimal(newFence(t, o.Store))
		if err := o.Commit(ctx, []*spend.Check{c}, nil, audittest.Link(1, c)); err != nil {
			t.Errorf("a commit beside a detach that waits for a vacuum: %v", err)
		}
		if _, err := vacuum.Exec(ctx, "COMMIT"); err != nil {
			t.Error(err)
		}
	}
	done, found, err := o.detach(t, func(d *Options) {
		d.Before = o.first.AddDate(0, 0, 1)
		d.step = func(step string) {
			if step != "detach" {
				return
			}
			if _, err := vacuum.Exec(ctx, "BEGIN; LOCK TABLE "+part+" IN SHARE UPDATE EXCLUSIVE MODE"); err != nil {
				t.Error(err)
			}
			waited.Go(amid)
		}
	})
	waited.Wait()
	if err != nil || len(done) != 1 || len(found) > 0 {
		t.Errorf("%+v, %v, %v", done, found, err)
	}
}
