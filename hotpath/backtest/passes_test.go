package backtest

import (
	"testing"
	"time"

	"spendgate/audit/spend"
)

// TestOwnPasses: an earlier check of the same payment makes none a duplicate, also behind one that was given back or that
// counts for nothing, and hides none; one of another payment does (S84).
func TestOwnPasses(t *testing.T) {
	now := time.Now()
	made := func(key string, after time.Duration) *spend.Check {
		at := now.Add(after)
		c := &spend.Check{ID: spend.NewID(at), Fingerprint: spend.HashKey("f"), Payment: &spend.CheckPayment{Key: key}}
		c.Pass = spend.Pass{ClaimedMS: at.UnixMilli(), UntilMS: at.Add(time.Hour).UnixMilli()}
		return c
	}
	var p passes
	leave := func(c *spend.Check, effect spend.Effect) {
		h := held{until: c.Pass.UntilMS, effect: effect}
		p.add(c, [sides]held{h, h})
	}
	repeats := func(c *spend.Check) bool { return p.repeats(c, candidate, time.Hour, spend.Escalate) }
	first, second := made("one", 0), made("one", time.Second)
	leave(first, spend.Allow)
	leave(second, spend.Allow)
	third, other := made("one", 2*time.Second), made("other", 2*time.Second)
	for _, free := range []bool{false, true} {
		p.release(fingerprint(second.Fingerprint[:]), second.ID, candidate, free)
		if repeats(third) || !repeats(other) {
			t.Errorf("the latest is given back: %t: repeated by the payment: %t, by another: %t", free, repeats(third), repeats(other))
		}
	}
	leave(made("a block", 2*time.Second), spend.Block)
	if repeats(third) || !repeats(other) {
		t.Errorf("behind a block: repeated by the payment: %t, by another: %t", repeats(third), repeats(other))
	}
	leave(other, spend.Allow)
	leave(third, spend.Allow)
	if fourth := made("one", 3*time.Second); !repeats(fourth) {
		t.Error("the payment's own check hides that of another")
	}
}
