package backtest

import (
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// skew is more than the clocks of nodes differ, and a check takes.
const skew = 10 * time.Second

// WarmUp returns the time from which checks are needed to judge by a version from the given time on:
// as far back as its duplicate window and its budgets reach.
func WarmUp(p *policy.Program, from time.Time) time.Time {
	start := from.Add(-p.LongestWindow())
	for _, b := range p.Budgets() {
		begin, _ := b.Window(from)
		begin = begin.Add(-time.Duration(b.RollingMinutes) * time.Minute)
		if begin.Before(b.Since.At) {
			begin = b.Since.At
		}
		if begin.Before(start) {
			start = begin
		}
	}
	return start.Add(-skew)
}

// CountSince lets the budgets of a candidate continue the counters of those budgets of the version in
// force that mean the same (S37). All others count since the policy was made: they are warmed up by
// the checks that they would have counted.
func CountSince(p *policy.Program, inForce map[string]spend.BudgetSince, created time.Time) {
	p.CountSince(audit.CountSince(p.BudgetIdentities(), inForce, 0, created))
}
