package audittest

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// checkCounts compares counts with a history, for random queries: before anything is counted by
// minute, in between, and when all is counted.
func checkCounts(t *testing.T, s Subject) {
	h := newHistory(t, s)
	for round := range 20 {
		h.commit(t, s, h.mixed(h.fence))
		if h.IntN(4) == 0 {
			must(t, s.CountChecks(t.Context()))
		}
		h.compareCounts(t, s, round)
	}
}

// checkCountsRace counts while checks are committed and counts are read: no count falls below an
// earlier one, or exceeds the number of checks.
func checkCountsRace(t *testing.T, s Subject) {
	h := newHistory(t, s)
	var writers, others sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		f := fence(t, s)
		writers.Go(func() {
			for range 30 {
				h.commit(t, s, h.mixed(f))
			}
		})
	}
	for range 2 {
		others.Go(func() {
			for {
				if err := s.CountChecks(t.Context()); err != nil {
					t.Error(err)
				}
				h.mu.Lock()
				least := len(h.all)
				h.mu.Unlock()
				if got := sumOf(mustTally(t, s, h.everything())); got < int64(least) {
					t.Errorf("%d checks are counted, %d were recorded before", got, least)
				}
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	writers.Wait()
	close(done)
	others.Wait()
	must(t, s.CountChecks(t.Context()))
	h.compareCounts(t, s, -1)
}

// mixed makes a commit of checks of every decision.
func (h *history) mixed(f spend.Fence) []*spend.Check {
	checks := h.batch()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range checks {
		c.Fence = f
		if h.IntN(2) == 0 {
			c.Decision = newCheck(f).Decision
		}
	}
	return checks
}

func (h *history) everything() audit.CountQuery {
	const day = 24 * time.Hour
	return audit.CountQuery{From: now().Add(-100 * day).Truncate(day), Until: now().Add(1000 * day).Truncate(day), Step: day, Examine: 1 << 20}
}

// countQuery draws a range of whole steps, filters and bounds.
func (h *history) countQuery() audit.CountQuery {
	q := h.everything()
	q.Step = []time.Duration{time.Minute, time.Hour, 24 * time.Hour}[h.IntN(3)]
	if h.IntN(2) == 0 {
		at := h.all[h.IntN(len(h.all))].ID.Time()
		q.From = at.Truncate(q.Step).Add(-time.Duration(h.IntN(3)) * q.Step)
		q.Until = q.From.Add(time.Duration(1+h.IntN(50)) * q.Step)
		if end := h.all[h.IntN(len(h.all))].ID.Time().Truncate(q.Step); end.After(q.From) { // what ends a range is none of it
			q.Until = end
		}
	}
	if h.IntN(3) == 0 {
		q.PolicyID = []string{"policy-1", "policy-3", "unknown"}[h.IntN(3)]
	}
	if h.IntN(3) == 0 {
		q.AgentID = fmt.Sprintf("agent-%d", h.IntN(6))
	}
	if h.IntN(2) == 0 {
		q.Bounds = h.bounds()
	}
	return q
}

func (h *history) compareCounts(t *testing.T, s Subject, round int) {
	t.Helper()
	for range 4 {
		q := h.countQuery()
		want := make(audit.Tally)
		for _, c := range h.all {
			a, at := &c.Action, c.ID.Time()
			if !at.Before(q.From) && at.Before(q.Until) && maySee(&q.Bounds, c) && (q.PolicyID == "" || q.PolicyID == a.PolicyID) &&
				(q.AgentID == "" || q.AgentID == a.AgentID) {
				want.Add(a.PolicyID, c.ID, c.Decision.Effect)
			}
		}
		got := mustTally(t, s, q)
		if wanted := want.Steps(q.Step); len(got)+len(wanted) > 0 && !reflect.DeepEqual(got, wanted) {
			t.Fatalf("round %d, %+v:\ngot  %v\nwant %v", round, q, got, wanted)
		}
	}
}

// checkCountsAreBounded: where checks are counted one by one, no more than the limit are.
func checkCountsAreBounded(t *testing.T, s Subject) {
	h := newHistory(t, s)
	f := fence(t, s)
	for range 3 {
		mustCommit(t, s, newCheck(f), newCheck(f))
	}
	h.at = now()
	q := h.everything()
	q.Examine = 5
	if got := sumOf(mustTally(t, s, q)); got != 6 {
		t.Errorf("%d checks are counted, want 6: counts by minute have no bound", got)
	}
	q.AgentID = "nobody"
	if _, err := s.CheckCounts(t.Context(), q); !errors.Is(err, audit.ErrTooMany) {
		t.Errorf("got %v, want ErrTooMany", err)
	}
	q.Examine = 6
	if counts := mustTally(t, s, q); len(counts) != 0 {
		t.Errorf("got %v, want none", counts)
	}
	if _, err := s.CheckCounts(endedContext(t), q); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

func mustTally(t *testing.T, s audit.Store, q audit.CountQuery) []audit.CheckCount {
	t.Helper()
	counts, err := s.CheckCounts(t.Context(), q)
	if err != nil {
		t.Error(err)
	}
	return counts
}

func sumOf(counts []audit.CheckCount) (n int64) {
	for _, c := range counts {
		for _, of := range c.Of {
			n += of
		}
	}
	return n
}
