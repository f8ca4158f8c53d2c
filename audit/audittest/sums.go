package audittest

import (
	"errors"
	"maps"
	"reflect"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// mustSum demands that the sums of a query are those of these checks.
func mustSum(t *testing.T, s Subject, q audit.CheckQuery, of []*spend.Check) {
	t.Helper()
	got := get(s.CheckSums(t.Context(), q))(t)
	var want [spend.Block + 1]int64
	sums, added := make(map[string][spend.Block + 1]spend.Total), make(map[string][spend.Block + 1]spend.Total)
	agents := make(map[string]int64)
	for _, c := range of {
		want[c.Decision.Effect]++
		sum := sums[c.Action.Currency]
		sum[c.Decision.Effect] = sum[c.Decision.Effect].Plus(c.Action.Amount.Total())
		sums[c.Action.Currency] = sum
		agents[c.Action.AgentID]++
	}
	for _, sum := range got.Amounts {
		added[sum.Currency] = sum.Of
	}
	top := make(map[string]int64)
	for _, a := range got.Agents {
		top[a.Name] = a.Checks
	}
	if got.Of != want || !maps.Equal(added, sums) || !maps.Equal(top, agents) || !got.Since.IsZero() {
		t.Errorf("%+v:\ngot  %v %v %v since %v\nwant %v %v %v", q, got.Of, added, top, got.Since, want, sums, agents)
	}
}

// checkSums: names are in the order of their numbers, and what is older than the bound is left out.
func checkSums(t *testing.T, s Subject) {
	f := fence(t, s)
	var all []*spend.Check
	for i := range 30 {
		c := newCheck(f)
		if i%3 == 0 {
			c = blocked(c)
		}
		c.Action.PolicyID, c.Action.Currency = "summed", [...]string{"EUR", "USD"}[i%2]
		c.LatencyMS = int64(i)
		c.Action.Amount, c.Action.Counterparty = amount("9999999999.123456789"), string(rune('a'+min(i, 11)))
		mustCommit(t, s, c)
		all = append(all, c)
	}
	q := audit.CheckQuery{PolicyID: "summed", Examine: 31}
	got := get(s.CheckSums(t.Context(), q))(t)
	rule := all[0].Decision
	if len(got.Amounts) != 2 || got.Amounts[0].Currency != "EUR" || got.Amounts[1].Of[spend.Allow].String() != "99999999991.23456789" ||
		len(got.Counterparties) != 10 || got.Counterparties[0] != (audit.NameCount{Name: "l", Checks: 19}) || got.Counterparties[9].Name != "i" ||
		!reflect.DeepEqual(got.Rules, []audit.RuleCount{{PolicyID: "summed", RuleID: rule.RuleID, Reason: rule.Reason, Checks: 10}}) ||
		!got.Since.IsZero() || got.Latency != (audit.Latency{P50: 14, P95: 28, Max: 29}) {
		t.Errorf("%+v", got)
	}
	q.Examine = 12
	if got, err := s.CheckSums(t.Context(), q); err != nil || got.Of != [...]int64{8, 0, 4} || !got.Since.Equal(all[18].ID.Time()) {
		t.Errorf("12 of 30 are added up: %+v, %v", got, err)
	}
	q.From, q.Examine = all[20].ID.Time().Add(-time.Minute), 1000
	if _, err := s.CheckSums(endedContext(t), q); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
