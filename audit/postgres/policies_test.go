package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/bench/must"
)

// All versions of all policies together stay within their bound, however many are posted at once. A
// refused version leaves nothing behind, and keys can still be made.
func TestPoliciesAreBounded(t *testing.T) {
	url := migrated(t)
	const each, room = 1000, 7
	s, err := Open(t.Context(), Options{URL: url, Logger: slog.New(slog.DiscardHandler), Migrate: true, MaxPolicyBytes: room*each + each/2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	policy := func(i int) *audit.Policy {
		p := &audit.Policy{PolicyID: fmt.Sprint("p", i%3), Name: "ß", Description: "d", Metadata: "{}"}
		p.Rules = strings.Repeat("r", each-len(p.PolicyID+p.Name+p.Description+p.Metadata))
		return p
	}
	var stored atomic.Int64
	var wg sync.WaitGroup
	for i := range 2 * room {
		wg.Go(func() {
			err := s.CreatePolicy(t.Context(), audit.Actor{}, policy(i), audit.NewBudgets{}, time.Now())
			if err == nil {
				stored.Add(1)
			} else if !errors.Is(err, audit.ErrPoliciesFull) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := stored.Load(); n != room {
		t.Errorf("%d policies of %d bytes are stored", n, each)
	}
	before := must.Get(s.ConfigChanges(t.Context(), 0))(t)
	if err := s.CreatePolicy(t.Context(), audit.Actor{}, policy(0), audit.NewBudgets{}, time.Now()); !errors.Is(err, audit.ErrPoliciesFull) {
		t.Errorf("one more: %v", err)
	}
	after, err := s.ConfigChanges(t.Context(), 0)
	if err != nil || after.Generation != before.Generation {
		t.Errorf("a policy that was refused made generation %d of %d, %v", after.Generation, before.Generation, err)
	}
	wider := open(t, url, false) // another node, without a bound
	if err := wider.CreatePolicy(t.Context(), audit.Actor{}, policy(0), audit.NewBudgets{}, time.Now()); err != nil {
		t.Error(err)
	}
}
