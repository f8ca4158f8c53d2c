package audittest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// history is a random history of violations: agents with many and with few, bursts within a
// millisecond, days without any, and clocks that are hours behind.
type history struct {
	*rand.Rand
	fence spend.Fence
	at    time.Time

	mu  sync.Mutex
	all []*spend.Check // committed so far
}

func newHistory(t *testing.T, s Subject) *history {
	t.Helper()
	if s.FineCounts != "" {
		must(t, s.Exec(t, s.FineCounts))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &history{Rand: rand.New(rand.NewPCG(seed, 0)), fence: fence(t, s), at: now().Add(-72 * time.Hour)} //nolint:gosec // not a secret
}

// batch makes a commit of 1 to 12 violations.
func (h *history) batch() []*spend.Check {
	h.mu.Lock()
	defer h.mu.Unlock()
	checks := make([]*spend.Check, 1+h.IntN(12))
	for i := range checks {
		switch h.IntN(10) {
		case 0:
			h.at = h.at.Add(time.Duration(h.IntN(int(4 * time.Hour))))
		case 1, 2, 3, 4, 5:
			h.at = h.at.Add(time.Duration(h.IntN(int(5 * time.Millisecond))))
		}
		at := h.at
		if h.IntN(8) == 0 {
			at = at.Add(-time.Duration(h.IntN(int(20 * time.Hour))))
		}
		c := blocked(newCheck(h.fence))
		c.ID = spend.NewID(at)
		c.Action.AgentID = fmt.Sprintf("agent-%d", h.IntN(1+h.IntN(1+h.IntN(40)))) // the first ones most
		c.Action.PolicyID, c.KeyID = fmt.Sprintf("policy-%d", h.IntN(4)), fmt.Sprintf("key_%d", h.IntN(5))
		c.ActionType = spend.ActionTypes[h.IntN(1+h.IntN(4))] // as resolved, not as sent
		switch h.IntN(6) {
		case 0:
			c.Decision.Effect, c.Decision.Confidence = spend.Escalate, spend.Medium
		case 1:
			c.Action.Amount = amount("999999999.999999999")
		case 2:
			c.Principal, c.Owner = fmt.Sprintf("principal-%d", h.IntN(3)), "owner"
		}
		checks[i] = c
	}
	return checks
}

func (h *history) commit(t *testing.T, s Subject, checks []*spend.Check) {
	t.Helper()
	if err := Record(t.Context(), s, checks...); err != nil {
		t.Error(err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, checks...)
}

// query draws filters and a range, often one that begins or ends exactly at a
// violation.
func (h *history) query() audit.ViolationQuery {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := audit.ViolationQuery{Limit: 1 << 20}
	if h.IntN(3) == 0 {
		q.Bounds = h.bounds()
	}
	if h.IntN(2) == 0 {
		q.AgentID = fmt.Sprintf("agent-%d", h.IntN(6))
	}
	if h.IntN(3) == 0 {
		q.PolicyID = []string{"policy-1", "policy-3", "unknown"}[h.IntN(3)]
	}
	if h.IntN(4) == 0 {
		q.Amounts = audit.Amounts{AmountFrom: new(amount("9.5")), AmountTo: new(amount("250"))}
	}
	q.ActionType = spend.ActionType(h.IntN(len(spend.ActionTypes) + 1))
	q.Effect = spend.Effect(h.IntN(3))
	instant := func() time.Time {
		if h.IntN(2) == 0 && len(h.all) > 0 {
			return h.all[h.IntN(len(h.all))].ID.Time().
				Add(time.Duration(h.IntN(3)-1)*time.Millisecond + time.Duration(h.IntN(2))*700*time.Microsecond)
		}
		return h.at.Add(-time.Duration(h.IntN(int(80 * time.Hour))))
	}
	if h.IntN(2) == 0 {
		q.From = instant()
	}
	if h.IntN(2) == 0 {
		q.To = instant()
	}
	if q.From.After(q.To) && !q.To.IsZero() {
		q.From, q.To = q.To, q.From
	}
	return q
}

// bounds draws the bounds of a key.
func (h *history) bounds() (b audit.Bounds) {
	if h.IntN(2) == 0 {
		b.PolicyIDs = []string{"policy-1", "policy-3", "unknown"}[:h.IntN(4)]
	}
	if h.IntN(2) == 0 {
		b.AgentIDs = []string{"agent-0", "agent-2"}[:1+h.IntN(2)]
	}
	if h.IntN(2) == 0 {
		b.Principal = []string{"principal-2", "key_3", "nobody"}[h.IntN(3)] // key_3 of those whose principal was not given
	}
	return b
}

// among returns the expected result of a query, newest first.
func among(all []*spend.Check, q audit.ViolationQuery) (want []audit.Violation) {
	for _, c := range all {
		if v := violation(c); maySee(&q.Bounds, c) && matches(q, v) {
			want = append(want, v)
		}
	}
	slices.SortFunc(want, func(a, b audit.Violation) int { return slices.Compare(b.ID[:], a.ID[:]) })
	return want
}

// violationTotals compares pages and totals with a plain loop, before, between
// and after roll-ups.
func violationTotals(t *testing.T, s Subject) {
	h := newHistory(t, s)
	for range 12 {
		for range h.IntN(12) {
			h.commit(t, s, h.batch())
		}
		if h.IntN(3) > 0 {
			mustCount(t, s)
		}
		for range 10 {
			q := h.query()
			want := among(h.all, q)
			page := mustList(t, s, q)
			total := int64(len(want))
			if !slices.Equal(page.Violations, want) || page.Total != total {
				t.Errorf("%+v: got %d, total %d; want %d", q, len(page.Violations), page.Total, total)
			}
			q.Limit = 1 + h.IntN(9)
			for page.More = true; page.More; {
				page = mustList(t, s, q) // the total counts all pages
				n := min(q.Limit, len(want))
				if page.Total != total || !slices.Equal(page.Violations, want[:n]) || page.More != (len(want) > n) {
					t.Fatalf("%+v: got %d, total %d, more %v; want %d of %d", q, len(page.Violations), page.Total, page.More, n, total)
				}
				if want = want[n:]; n > 0 {
					q.Before = page.Violations[n-1].ID
				}
			}
		}
	}
}

// violationTotalsRace lists while several nodes commit and roll up. A page without an end contains
// all matching violations, so its total is their number.
func violationTotalsRace(t *testing.T, s Subject) {
	h := newHistory(t, s)
	done := make(chan struct{})
	var others, listing sync.WaitGroup
	until := func(do func()) {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					do()
				}
			}
		})
	}
	for range 2 {
		until(func() { h.commit(t, s, h.batch()) })
		until(func() { mustCount(t, s) })
	}
	for range 2 {
		listing.Go(func() {
			for range 60 {
				q := h.query()
				h.mu.Lock()
				least := among(h.all, q)
				h.mu.Unlock()
				page := mustList(t, s, q)
				if page.Total != int64(len(page.Violations)) || len(page.Violations) < len(least) {
					t.Errorf("%+v: total %d of %d, at least %d were committed", q, page.Total, len(page.Violations), len(least))
				}
			}
		})
	}
	listing.Wait()
	close(done)
	others.Wait()
	for range 3 {
		mustCount(t, s)
		for range 30 {
			q := h.query()
			want := among(h.all, q)
			if page := mustList(t, s, q); page.Total != int64(len(want)) || !slices.Equal(page.Violations, want) {
				t.Errorf("%+v: total %d of %d, want %d", q, page.Total, len(page.Violations), len(want))
			}
		}
	}
}

func mustCount(t *testing.T, s Subject) {
	t.Helper()
	if err := s.CountViolations(t.Context()); err != nil {
		t.Error(err)
	}
}
