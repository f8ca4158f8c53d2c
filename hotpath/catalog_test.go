package hotpath

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// silentStore never returns a policy.
type silentStore struct {
	audit.Store
	mu              sync.Mutex
	asked, together int
}

func (s *silentStore) Policy(ctx context.Context, _ string, _ int) (*audit.Policy, error) {
	s.mu.Lock()
	s.asked++
	s.together = max(s.together, s.asked)
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked--
	return nil, audit.ErrUnavailable
}

// The number of compilations at once is bounded, for checks and new policies alike. A request that
// waits for a place in vain is refused in time (G7).
func TestCompilesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(silentStore)
		c := newCatalog(s, slog.New(slog.DiscardHandler), newMetrics(prometheus.NewRegistry()))
		defer c.close()
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 5 * compilesAtOnce {
			wg.Go(func() {
				if _, err := c.program(fmt.Sprint("p", i)); !errors.Is(err, ErrUnavailable) {
					t.Errorf("policy %d: %v", i, err)
				}
				if took := time.Since(began); took > loadTimeout {
					t.Errorf("policy %d is refused after %s", i, took)
				}
			})
		}
		synctest.Wait()
		a := &Authorizer{catalog: c, now: time.Now}
		v := NewVersion{Policy: &audit.Policy{PolicyID: "p"}}
		if err := a.CreatePolicy(canceled(), Access{}, audit.Actor{}, v); !errors.Is(err, ErrOverloaded) {
			t.Errorf("a new policy: %v", err)
		}
		wg.Wait()
		if s.together != compilesAtOnce {
			t.Errorf("%d policies were read at once", s.together)
		}
		if len(c.compiles) != 0 {
			t.Errorf("%d places are still taken", len(c.compiles))
		}
	})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Programs in memory are bounded by the memory that they take, not by their text.
func TestProgramsAreBoundedByTheirSize(t *testing.T) {
	entries := strings.Repeat(`"v",`, 5000) + `"v"` // which take less than their text
	rules := `[{"rule_id":"v","rule_type":"vendor_allowlist","description":"` + strings.Repeat("d", spend.MaxDescription) +
		`","parameters":{"vendors":[` + entries + `]}}]`
	var faults spend.Faults
	p := policy.Compile("p", 1, rules, &faults)
	if p == nil {
		t.Fatal(faults)
	}
	c := catalog{programs: make(map[string]*policy.Program), maxBytes: 10 * p.Size()}
	for i := range 30 {
		c.keep(fmt.Sprint("p", i), p, 0)
		c.keep(fmt.Sprint("p", i), p, 0) // again, by a load that was slower
	}
	if len(c.programs) != 10 || c.programBytes != 10*p.Size() {
		t.Errorf("%d programs of %d bytes are counted as %d", len(c.programs), p.Size(), c.programBytes)
	}
	for id := range c.programs {
		c.forgetLocked(id)
	}
	if c.programBytes != 0 {
		t.Errorf("no programs take %d bytes", c.programBytes)
	}
}
