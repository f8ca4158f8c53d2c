package micro

import (
	"testing"

	"spendgate/bench/load"
)

// Goal: what is measured is the same decision. Method: each engine judges
// hundreds of actions of each outcome; the workload knows the right answers.
func TestEnginesDecideAlike(t *testing.T) {
	for _, e := range engines(t) {
		for want, actions := range sample(300) {
			for i := range actions {
				got, err := e.prepare(t, &actions[i])()
				if err != nil || got != want {
					t.Fatalf("%s decides %q (%v), want %q by %q: %s",
						e.name, got, err, want, actions[i].Want.RuleID, members(&actions[i]))
				}
			}
		}
	}
}

// BenchmarkEvaluate judges by a ten-rule policy, one action after another of
// one outcome.
func BenchmarkEvaluate(b *testing.B) {
	actions := sample(32)
	for _, want := range []load.Effect{load.Allow, load.Escalate, load.Block} {
		for _, e := range engines(b) {
			var decide []func() (load.Effect, error)
			for i := range actions[want] {
				decide = append(decide, e.prepare(b, &actions[want][i]))
			}
			b.Run(string(want)+"/"+e.name, func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if got, err := decide[i%len(decide)](); err != nil || got != want {
						b.Fatalf("decided %q (%v), want %q", got, err, want)
					}
				}
			})
		}
	}
}
