package backtest

import (
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// skew is more than the clocks of nodes differ, and a check takes.
const skew = 10 * time.Second

// WarmUp returns from when the checks before a time are needed to judge by a version from
// then on: its duplicate window, and what its budgets count.
func WarmUp(p *policy.Program, from time.Time) time.Time {
	start := from.Add(-p.Window())
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

// CountSince has the budgets of a candidate go on counting what the budgets of the version in
// force counted that mean the same (S37), and all others count since the policy was
// made: they are warmed up by what they would have counted.
func CountSince(p *policy.Program, inForce map[string]spend.BudgetSince, created time.Time) {
	p.CountSince(audit.CountSince(p.BudgetIdentities(), inForce, 0, created))
}
