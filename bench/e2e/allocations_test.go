package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// The node's allocations from request to answer, and for each commit and each round trip to Redis,
// which several checks share: how many depends on the speed of the clients. At the time of writing
// they are 6.5, 18 and 7.
const (
	mostOfACheck  = 8.0
	mostOfACommit = 24.0
	mostOfATrip   = 10.0
)

// A check costs a node no more allocations than before. The node counts them itself; it is built
// without the race detector, which changes pooling.
func TestAllocationsOfACheck(t *testing.T) {
	f := startFleet(t, fleet.Options{Binary: build(t, fleet.BuildOptions{}), Nodes: 1})
	s := &suite{Fleet: f}
	_, s.key = s.newKey(t, plenty)
	s.post(t, s.Nodes[0], standardPolicy())
	const clients, each = 64, 125 // below the rate limit of a key
	s.checkAtOnce(t, clients, 4)  // pools, connections and the configuration
	before := s.spending(t)
	s.checkAtOnce(t, clients, each)
	after := s.spending(t)
	const checks = clients * each
	commits, trips := after.commits-before.commits, after.trips-before.trips
	spent, most := after.mallocs-before.mallocs, mostOfACheck*checks+mostOfACommit*commits+mostOfATrip*trips
	t.Logf("%.1f allocations a check, of at most %.1f, in %.0f commits and %.0f round trips", spent/checks, most/checks, commits, trips)
	if spent > most {
		t.Error("that is too many")
	}
}

// checkAtOnce has clients make checks that all pass, each client in sequence.
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

// spending is what the node has allocated so far, in objects, and for how many
// commits and round trips.
type spending struct{ mallocs, commits, trips float64 }

func (s *suite) spending(t *testing.T) spending {
	t.Helper()
	metrics := metricsOf(t, s.Nodes[0])
	number := func(name string) float64 {
		return must.Get(strconv.ParseFloat(metrics[name], 64))(t)
	}
	return spending{
		number("go_memstats_mallocs_total"), number("spendgate_audit_commit_batch_size_count"), number("spendgate_redis_batch_size_count"),
	}
}
