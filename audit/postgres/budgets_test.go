package postgres

import (
	"testing"

	"spendgate/audit/audittest"
	"spendgate/hotpath/spend"
)

// charge gives a check a budget for each agent and day.
func charge(c *spend.Check) {
	const day = 24 * 60 * 60 * 1000
	limit, _ := spend.ParseAmount("1000000000")
	start := c.ID.Time().UnixMilli() / day * day
	subject := `["` + c.Action.AgentID + `"]`
	c.Charges = []spend.Charge{{
		Counter: spend.Counter{ID: spend.CounterID(c.Action.PolicyID, "budget", 1, subject), StartMS: start},
		RuleID:  "budget", Since: 1, Subject: subject, AgentID: c.Action.AgentID, Amount: c.Action.Amount,
		Limited: true, Limit: limit, EndMS: start + day,
	}}
}

// TestCounterRestored has counters vanish, as when an older state is restored,
// whose rows a node remembers.
func TestCounterRestored(t *testing.T) {
	url := database(t)
	s := open(t, url, true)
	f := newFence(t, s)
	var counter []spend.Counter
	commit := func(seq int64) {
		c := minimal(f)
		charge(c)
		counter = []spend.Counter{c.Charges[0].Counter}
		if err := s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(seq, c)); err != nil {
			t.Fatal(err)
		}
	}
	commit(1)
	statement(t, url, "DELETE FROM budget_counters")
	for want := int64(1); want <= 2; want++ {
		commit(1 + want)
		if usages, err := s.CounterUsages(t.Context(), counter); err != nil || usages[0].Count != want {
			t.Fatalf("got %v, %v, want %d", usages, err, want)
		}
	}
}
