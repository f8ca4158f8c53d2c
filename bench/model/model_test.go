package model

import (
	"flag"
	"testing"
)

var states = flag.Int("states", 30_000, "how many states a search may visit")

// mutantStates is enough for every mutation: the searches end when it is found.
const mutantStates = 160_000

// TestProtocol searches every scenario. One that is not complete was searched
// to the depth that the states allow.
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

// skipRaced: one search is one goroutine, so that the detector would find
// nothing. What `make test` runs has the searches once more without it.
func skipRaced(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("too slow under the race detector")
	}
}
