package backtest

import (
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/report"
)

// asked is what these tests are made of: checks of one action by versions that ask people.
type asked struct {
	*testing.T
	began    time.Time
	versions map[int]*policy.Program
	records  []*Record
}

func newAsked(t *testing.T, rules ...string) *asked {
	a := &asked{T: t, began: time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC), versions: make(map[int]*policy.Program)}
	for i, text := range rules {
		var faults spend.Faults
		a.versions[i+1] = policy.Compile("p", i+1, text, &faults)
		must.Do(t, faults.Err())
	}
	return a
}

// check adds a check that was decided by a rule of its version, with the approval that the version
// asks for.
func (a *asked) check(after time.Duration, amount string, version int, effect spend.Effect, rule string, uses spend.ID) *Record {
	at := a.began.Add(after)
	c := &spend.Check{ID: spend.NewID(at), ActionType: spend.Refund, Fingerprint: spend.Hash{amount[0], amount[1]}}
	c.Action = spend.Action{
		AgentID: "a", PolicyID: "p", Type: spend.Refund, Currency: "USD", Counterparty: "c", ApprovalID: uses,
	}
	c.Action.Amount, _ = spend.ParseAmount(amount)
	c.Decision = spend.Decision{Effect: effect, PolicyVersion: version, RuleID: rule}
	c.Pass = spend.Pass{ClaimedMS: at.UnixMilli(), UntilMS: at.Add(5 * time.Minute).UnixMilli()}
	if effect == spend.Escalate {
		c.Decision.Reason = spend.ReasonEscalationThreshold
		c.Approval = a.versions[version].Asks(&c.Action, spend.Resolution{Type: spend.Refund, Confidence: spend.High}, at, nil, nil)
	}
	r := &Record{Check: c}
	a.records = append(a.records, r)
	return r
}

// approved has people approve what a check asked, after a while.
func (r *Record) approved(after time.Duration) *Record {
	at := r.Check.Timestamp().Add(after)
	r.Approval = &audit.Approval{
		Check: r.Check, Status: audit.ApprovalApproved, CreatedAt: r.Check.Timestamp(), ApprovedAt: at,
		Decisions: []audit.ApprovalDecision{{Approves: true, At: at}},
	}
	return r
}

// replay replays all by a version from a moment on.
func (a *asked) replay(version int, from time.Duration) (*report.Report, []string) {
	var flips []string
	e := New(Options{
		Candidate: a.versions[version], From: a.began.Add(from), To: a.began.Add(time.Hour),
		Version: func(v int) *policy.Program { return a.versions[v] }, Flip: func(f report.Flip) { flips = append(flips, f.JSON()) },
	})
	for _, r := range a.records {
		must.Do(a, e.Feed(r))
	}
	return e.Report(), flips
}

// Checks made at once may have asked people for less, or for more, than the order of their
// identifiers suggests. The approval lifts the terms that were asked, on both sides, and the check
// that asked is skipped.
func TestAskedBeforeBudgetWasFull(t *testing.T) {
	a := newAsked(t, `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":60,"approval":{}}},
		{"rule_id":"day","rule_type":"budget","parameters":{"limit":100,"currency":"USD","window":"day","on_exceed":"escalate","approval":{}}}]`)
	a.check(0, "50", 1, spend.Allow, "", spend.ID{})
	asks := a.check(0, "70", 1, spend.Escalate, "ask", spend.ID{}).approved(time.Second) // before the 50 were taken
	again := a.check(2*time.Second, "70", 1, spend.Escalate, "ask", asks.Check.ID)       // now for the budget, too
	again.Check.Approval.Rules = append(again.Check.Approval.Rules, spend.EscalatedRule{RuleID: "day"})
	if r, flips := a.replay(1, 0); flips != nil || r.Coverage.Compared != 2 {
		t.Errorf("%s %s", r.JSON(), flips)
	}
}

// A check that used an approval in history was in time, even if a node's clock was ahead of the
// store's.
func TestUsedInTimeByTheStoresClock(t *testing.T) {
	a := newAsked(t, `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":10,"approval":{"use_within_minutes":1}}}]`)
	asks := a.check(0, "50", 1, spend.Escalate, "ask", spend.ID{}).approved(time.Second)
	a.check(62*time.Second, "50", 1, spend.Allow, "", asks.Check.ID)
	if r, flips := a.replay(1, 0); flips != nil || r.Coverage.Compared != 2 {
		t.Errorf("%s %s", r.JSON(), flips)
	}
}

// An approval that another version asked for within the period would have been asked by the
// candidate on its own terms. A use that was escalated once more is allowed by a candidate that was
// in force all the time.
func TestAskedByAnotherVersion(t *testing.T) {
	a := newAsked(t, `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":10,"approval":{}}}]`,
		`[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":20,"approval":{}}}]`)
	asks := a.check(0, "50", 1, spend.Escalate, "ask", spend.ID{}).approved(time.Second)
	a.check(2*time.Second, "50", 2, spend.Escalate, "ask", asks.Check.ID)
	if r, flips := a.replay(2, 0); len(flips) != 1 || r.Flips.ToAllow != 1 || r.Coverage.Compared != 2 {
		t.Errorf("%s %s", r.JSON(), flips)
	}
	if r, flips := a.replay(2, time.Second); flips != nil || r.Coverage.Compared != 1 {
		t.Errorf("over its own period: %s %s", r.JSON(), flips)
	}
}
