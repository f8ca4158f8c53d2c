package sim

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/audit/spend"
)

// TestClaimGivenBackIsNeverFree (F32): a check takes over a stale claim that had replaced a
// recorded one, learns that from the store, and loses the connection when it releases the name. The
// name must not become free: windows are loaded, so no later check would query the store.
func TestClaimGivenBackIsNeverFree(t *testing.T) {
	all := newFiles(t)
	synctest.Test(t, func(t *testing.T) {
		f := newSimulation(t, all, 1, 2)
		defer f.close()
		a := f.action()
		a.PolicyID, a.IdempotencyKey = "long", ""
		first := f.send(0, a)
		time.Sleep(5 * time.Second) // windows are loaded
		dead := "P|" + spend.NewID(time.Now()).Text("") + "|" + spend.NewID(time.Now()).Text("") + "|1000"
		for name, e := range f.redis.snapshot() {
			if strings.HasPrefix(name, "f:") {
				e.value = dead
				f.redis.put(name, e)
			}
		}
		lost := false
		f.redis.fault = func(_ int, command []string) fault {
			giveBack := command[0] == "EVAL" && len(command) > 5 && strings.HasPrefix(command[5], "C|")
			if giveBack && !lost {
				lost = true
				return fault{before: true}
			}
			return fault{delay: time.Microsecond}
		}
		second := f.send(1, a)
		if !lost || second.err == nil {
			t.Fatalf("nothing was lost: %s", second)
		}
		time.Sleep(time.Second)
		third := f.send(0, a)
		if first.err != nil || third.err != nil || third.answer.Check.Decision.Reason != spend.ReasonDuplicate {
			t.Errorf("\nfirst %s\nthird %s", first, third)
		}
	})
}
