package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"spendgate/bench/fleet"
)

// mostAllocations is the bar for a whole check: what the node allocates from
// request to answer, its share of the batches it travels in included. It is 12
// at the time of writing.
const mostAllocations = 14.0

// A check costs a node no more allocations than it did. They are counted by
// the node itself, which is built without the race detector: it would change
// what is pooled.
func TestAllocationsOfACheck(t *testing.T) {
	binary, err := fleet.Build(t.Context(), t.TempDir(), fleet.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := startFleet(t, fleet.Options{Binary: binary, Nodes: 1})
	s := &suite{Fleet: f}
	_, s.key = s.newKey(t, plenty)
	s.post(t, s.Nodes[0], standardPolicy())
	const clients, each = 64, 125 // below the rate limit of a key
	s.checkAtOnce(t, clients, 4)  // pools, connections and the configuration
	before := s.mallocs(t)
	s.checkAtOnce(t, clients, each)
	perCheck := (s.mallocs(t) - before) / (clients * each)
	t.Logf("%.1f allocations a check", perCheck)
	if perCheck > mostAllocations {
		t.Errorf("%.1f allocations a check, at most %.0f are allowed", perCheck, mostAllocations)
	}
}

// checkAtOnce lets clients make checks that all pass, each one after another.
func (s *suite) checkAtOnce(t *testing.T, clients, each int) {
	t.Helper()
	var working sync.WaitGroup
	run := s.name("allocations")
	for c := range clients {
		working.Go(func() {
			for i := range each {
				action := s.action("10")
				action.Counterparty = fmt.Sprintf("%s-%d-%d", run, c, i)
				a, err := s.client(0).Check(t.Context(), action)
				if err != nil || a.Status != http.StatusOK {
					t.Errorf("answered %s, %v", a, err)
					return
				}
			}
		})
	}
	working.Wait()
}

// mallocs is how many objects the node has ever allocated.
func (s *suite) mallocs(t *testing.T) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(metricsOf(t, s.Nodes[0])["go_memstats_mallocs_total"], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
