package model

import (
	"flag"
	"testing"
	"time"
)

var limit = flag.Int("states", 250_000, "how many states a search may visit")

func TestProtocol(t *testing.T) {
	for _, m := range scenarios() {
		t.Run(m.Name, func(t *testing.T) {
			m.Limit = *limit
			started := time.Now()
			r := m.Explore()
			if r.Violation != "" {
				t.Error(r)
			}
			t.Logf("%s, %s", r, time.Since(started).Round(time.Millisecond))
		})
	}
}
