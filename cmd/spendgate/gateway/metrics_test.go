package gateway

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	g := guarded(t, f, p, "", "")
	s := agentOf(t, g)
	wants(t, s, "ch_1", 1, stateExecuted, "")
	wants(t, s, "ch_1", 1, stateAlready, "")
	wants(t, s, "ch_2", "1", stateError, "")
	f.with(func() {
		f.broken = func(path string) (before, after bool) { return path == "POST /v1/checks/chk_2/outcome", false }
	})
	wants(t, s, "ch_3", 1, stateExecuted, "")
	f.with(func() { f.broken = nil })

	for state, want := range map[string]float64{stateExecuted: 2, stateAlready: 1, stateError: 1, stateRefused: 0} {
		if got := testutil.ToFloat64(g.metrics.calls.WithLabelValues("psp", "refund", state, "")); got != want {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
	if n := testutil.ToFloat64(g.metrics.unrecorded); n == 0 {
		t.Error("no report failed")
	}
	if n, m := testutil.ToFloat64(g.metrics.sessions), testutil.ToFloat64(g.metrics.inFlight); n != 1 || m != 0 {
		t.Errorf("%v sessions, %v calls in flight", n, m)
	}

	shadow := guarded(t, newFakeService(t), p, "shadow: true\n", "")
	wants(t, agentOf(t, shadow), "ch_4", 1, stateExecuted, "")
	if got := testutil.ToFloat64(shadow.metrics.calls.WithLabelValues("psp", "refund", stateExecuted, stateExecuted)); got != 1 {
		t.Errorf("a shadow's calls: %v", got)
	}
}
