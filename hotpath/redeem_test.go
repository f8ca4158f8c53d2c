package hotpath_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// S74: of checks that are redeemed at once under one lasting key one is, and the others
// are told which, also when they are refused in the commit that is to record it.
func TestOneRedemptionOfMany(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		key := &audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Executor, Principal: "till"}}
		for round := range 3 {
			var checks []*spend.Check
			for i := range 8 {
				checks = append(checks, f.check(0, refundOf(t, "10", fmt.Sprint(round, "-", i))).answer.Check)
			}
			for _, n := range f.nodes { // slow commits have many redemptions each
				n.faults.onCommit(func(ctx context.Context, checks []*spend.Check, commit realCommit) error {
					time.Sleep(20 * time.Millisecond)
					return commit(ctx, checks)
				})
			}
			redeemed, refusals := make([]*spend.Outcome, len(checks)), make([]error, len(checks))
			var all sync.WaitGroup
			for i, c := range checks {
				all.Go(func() {
					hash, r := spend.ActionHash(c), hotpath.Request{Access: hotpath.AccessOf(key), ID: "req_000000000000", Started: time.Now()}
					asked := hotpath.Redemption{ActionHash: &hash, Once: fmt.Sprint("order ", round)}
					redeemed[i], _, refusals[i] = f.nodes[i%2].Redeem(t.Context(), r, c, i%4 < 2, asked)
				})
			}
			all.Wait()
			var winner spend.ID
			for i, c := range checks {
				if refusals[i] == nil && winner.IsZero() {
					winner = redeemed[i].CheckID
				} else if refusals[i] == nil {
					t.Errorf("%s is redeemed as well", c.ID.Text(spend.PrefixCheck))
				}
			}
			for _, err := range refusals {
				if used, ok := errors.AsType[*hotpath.OnceUsedError](err); err != nil && (!ok || used.Check != winner) {
					t.Errorf("refused: %v, want that of %s", err, winner.Text(spend.PrefixCheck))
				}
			}
		}
	})
}
