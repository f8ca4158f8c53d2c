package model

import (
	"flag"
	"testing"

	"spendgate/bench/model/search"
)

var states = flag.Int("states", 30_000, "how many states a search may visit")

// mutantStates is enough for every mutation: the searches end when it is found.
const mutantStates = 160_000

// TestProtocol searches every scenario. An incomplete search went as deep as the number of states
// allows.
func TestProtocol(t *testing.T) {
	skipRaced(t)
	for _, m := range scenarios() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			m.Limit = *states
			r := m.Explore()
			if r.Violation != "" {
				t.Error(r)
			}
			t.Log(r)
		})
	}
}

// skipRaced skips a search under the race detector, which would find nothing in its one goroutine.
// `make test` also runs the searches without the detector.
func skipRaced(t *testing.T) {
	t.Helper()
	if search.Raced {
		t.Skip("too slow under the race detector")
	}
}
