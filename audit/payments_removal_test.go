package audit

import (
	"testing"
	"time"

	"spendgate/audit/spend"
)

// TestEndedBefore: a payment is kept until nothing can become of it by itself, and what was asked of people was over then, too (S84).
func TestEndedBefore(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Now()
	before := now.Add(-40 * day)
	facts := func(effect spend.Effect, ago time.Duration) *PaymentFacts {
		c := &spend.Check{ID: spend.NewID(before.Add(-ago)), Decision: spend.Decision{Effect: effect}}
		p := spend.Payment{Namespace: "n", Key: "k"}
		p, c.Payment = p.WithCheck(c, 0, spend.Hash{})
		return &PaymentFacts{Payment: p, Check: c}
	}
	step := func(f *PaymentFacts, status spend.Status, release spend.Release) *PaymentFacts {
		o := &spend.Outcome{ID: spend.NewOutcomeID(f.Check.Timestamp()), CheckID: f.Check.ID, Step: f.Course.Next(), Status: status}
		o.Release = release
		if status != spend.Redeemed && status != spend.InDoubt {
			o.Number = 1
		}
		f.Payment, _ = f.WithStep(o, 0, false)
		f.Course = f.Course.With(o)
		return f
	}
	asked := func(status ApprovalStatus, expires time.Duration) *PaymentFacts {
		f := facts(spend.Escalate, time.Hour)
		f.Check.Approval = &spend.ApprovalRequest{UseWithin: day}
		f.Approval = &Approval{Check: f.Check, Status: status, ExpiresAt: before.Add(expires)}
		return f
	}
	approved := asked(ApprovalExpired, -time.Hour)
	approved.Approval.ApprovedAt = before.Add(-time.Hour)
	elsewhere := facts(spend.Block, time.Hour)
	elsewhere.Other = new(Approval)
	rounds := func(hours int) *PaymentFacts {
		f := step(step(facts(spend.Allow, 2*time.Hour), spend.Redeemed, spend.ReleaseNone), spend.Executed, spend.ReleaseNone)
		f.Hours = hours
		return f
	}
	for name, c := range map[string]struct {
		*PaymentFacts
		want bool
	}{
		"executed":                       {rounds(0), true},
		"executed, and soon free again":  {rounds(3), false},
		"executed, and free again since": {rounds(1), true},
		"blocked":                        {facts(spend.Block, time.Hour), true},
		"blocked, and asked before":      {elsewhere, false},
		"open":                           {facts(spend.Allow, time.Hour), false},
		"redeemed":                       {step(facts(spend.Allow, time.Hour), spend.Redeemed, spend.ReleaseNone), false},
		"in doubt": {step(step(facts(spend.Allow, time.Hour), spend.Redeemed, spend.ReleaseNone), spend.InDoubt,
			spend.ReleaseNone), false},
		"given back":            {step(facts(spend.Allow, time.Hour), spend.Voided, spend.ReleaseDone), true},
		"not given back":        {step(facts(spend.Allow, time.Hour), spend.Voided, spend.ReleasePending), false},
		"escalated":             {facts(spend.Escalate, 7*day+time.Hour), true},
		"escalated, in window":  {facts(spend.Escalate, 7*day-time.Hour), false},
		"pending":               {asked(ApprovalPending, -time.Hour), false},
		"denied":                {asked(ApprovalDenied, -time.Minute), true},
		"denied later, perhaps": {asked(ApprovalDenied, time.Hour), false},
		"expired":               {asked(ApprovalExpired, -time.Minute), true},
		"approved, and expired": {approved, false},
		"withdrawn":             {asked(ApprovalWithdrawn, -time.Minute), true},
	} {
		if got := c.EndedBefore(before); got != c.want {
			t.Errorf("%s (%s): ended is %t", name, c.Status(before), got)
		}
	}
}
