package backtest

import (
	"fmt"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath/policy"
	"spendgate/hotpath/report"
)

// An escalation whose approval expired, pending or approved and unused, leaves no
// fingerprint from then on (S60), of this policy and of others; one that was denied does.
// A candidate asks on its own terms, and where history did not ask nobody decides.
func TestExpiredApprovals(t *testing.T) {
	program := func(version int, parameters string) *policy.Program {
		var faults spend.Faults
		p := policy.Compile("p", version, `[{"rule_id":"ask","rule_type":"escalate_if","parameters":`+parameters+`},
			{"rule_id":"twice","rule_type":"duplicate_guard","parameters":{"window_minutes":10}}]`, &faults)
		must.Do(t, faults.Err())
		return p
	}
	const asks = `{"amount_above":10,"approval":{"expires_minutes":2,"use_within_minutes":1}}`
	live := program(1, asks)
	began := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	check := func(after time.Duration, of byte, effect spend.Effect) *spend.Check {
		amount := must.Get(spend.ParseAmount("50"))(t)
		at := began.Add(after)
		c := &spend.Check{ID: spend.NewID(at), ActionType: spend.Refund, Fingerprint: spend.Hash{of}}
		c.Action = spend.Action{AgentID: "a", PolicyID: "p", Type: spend.Refund, Amount: amount, Currency: "USD", Counterparty: string(of)}
		c.Decision = spend.Decision{Effect: effect, PolicyVersion: 1}
		c.Pass = spend.Pass{ClaimedMS: at.UnixMilli(), UntilMS: at.Add(10 * time.Minute).UnixMilli()}
		switch effect {
		case spend.Escalate:
			c.Decision.Reason, c.Decision.RuleID = spend.ReasonEscalationThreshold, "ask"
			c.Approval = live.Asks(&c.Action, spend.Resolution{Type: spend.Refund, Confidence: spend.High}, at, nil, nil)
		case spend.Block:
			c.Decision.Reason, c.Decision.RuleID, c.Pass = spend.ReasonDuplicate, "twice", spend.Pass{}
		}
		return c
	}
	asked := func(of byte, status audit.ApprovalStatus, approvedAfter time.Duration) Record {
		r := Record{Check: check(0, of, spend.Escalate)}
		r.Approval = &audit.Approval{Check: r.Check, Status: status, CreatedAt: began}
		if status == audit.ApprovalDenied {
			r.Approval.Decisions = []audit.ApprovalDecision{{At: began.Add(time.Second)}}
		}
		if approvedAfter > 0 {
			r.Approval.ApprovedAt = began.Add(approvedAfter)
		}
		return r
	}
	foreign := asked('f', audit.ApprovalExpired, 0)
	foreign.Foreign = true
	foreign.Approval = &audit.Approval{Check: &spend.Check{ID: foreign.Check.ID, Approval: foreign.Check.Approval}, CreatedAt: began}
	foreign.Check = &spend.Check{
		ID: foreign.Check.ID, Fingerprint: foreign.Check.Fingerprint, Pass: foreign.Check.Pass, Decision: spend.Decision{Effect: spend.Escalate},
	}
	records := []Record{
		asked('p', audit.ApprovalExpired, 0), asked('u', audit.ApprovalExpired, time.Second), asked('d', audit.ApprovalDenied, 0), foreign,
	}
	for _, later := range []*spend.Check{
		check(59*time.Second, 'u', spend.Block), check(62*time.Second, 'u', spend.Escalate), check(119*time.Second, 'p', spend.Block),
		check(119*time.Second, 'f', spend.Block), check(121*time.Second, 'p', spend.Escalate), check(122*time.Second, 'f', spend.Escalate),
		check(123*time.Second, 'd', spend.Block),
	} {
		records = append(records, Record{Check: later})
	}
	frozen := check(124*time.Second, 'z', spend.Block) // left out (S87)
	frozen.Decision = spend.Frozen(1, "")
	records = append(records, Record{Check: frozen})
	for name, c := range map[string]struct {
		candidate *policy.Program
		recorded  bool
		flips     int64
	}{
		"itself": {live, false, 0}, "itself, recorded": {live, true, 0},
		"a minute to decide": {program(2, `{"amount_above":10,"approval":{"expires_minutes":1,"use_within_minutes":1}}`), false, 2},
		"nobody asked":       {program(2, `{"amount_above":10}`), false, 2},
	} {
		e := New(Options{
			Candidate: c.candidate, From: began, To: began.Add(time.Hour), Recorded: c.recorded,
			Version: func(int) *policy.Program { return live },
		})
		for i := range records {
			must.Do(t, e.Feed(&records[i]))
		}
		if r := e.Report(); r.Coverage.Compared != int64(len(records)-2) || r.Coverage.Checks != r.Coverage.Compared || r.Flips.Total != c.flips {
			t.Errorf("%s: %s", name, r.JSON())
		}
	}
}

// People decided when they did: an approval that came after the candidate's terms had ended, or was used after them,
// is no approval of the candidate's (S53), and a denial that came so late denies nothing there.
func TestLateApprovals(t *testing.T) {
	program := func(expires, useWithin int) *policy.Program {
		var faults spend.Faults
		p := policy.Compile("p", 1, fmt.Sprintf(`[{"rule_id":"ask","rule_type":"escalate_if","parameters":
			{"amount_above":10,"approval":{"expires_minutes":%d,"use_within_minutes":%d}}},
			{"rule_id":"twice","rule_type":"duplicate_guard","parameters":{"window_minutes":10}}]`, expires, useWithin), &faults)
		must.Do(t, faults.Err())
		return p
	}
	live := program(3, 3)
	began := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	check := func(after time.Duration, of byte, effect spend.Effect) *spend.Check {
		at := began.Add(after)
		c := &spend.Check{ID: spend.NewID(at), ActionType: spend.Refund, Fingerprint: spend.Hash{of}}
		c.Action = spend.Action{AgentID: "a", PolicyID: "p", Type: spend.Refund, Currency: "USD", Counterparty: string(of)}
		c.Action.Amount, _ = spend.ParseAmount("50")
		c.Decision = spend.Decision{Effect: effect, PolicyVersion: 1}
		c.Pass = spend.Pass{ClaimedMS: at.UnixMilli(), UntilMS: at.Add(10 * time.Minute).UnixMilli()}
		if effect == spend.Escalate {
			c.Decision.Reason, c.Decision.RuleID = spend.ReasonEscalationThreshold, "ask"
			c.Approval = live.Asks(&c.Action, spend.Resolution{Type: spend.Refund, Confidence: spend.High}, at, nil, nil)
		}
		return c
	}
	asks, uses := check(0, 'u', spend.Escalate), check(160*time.Second, 'u', spend.Allow) // approved after 90 s
	uses.Action.ApprovalID = asks.ID
	denied, again := check(time.Second, 'd', spend.Escalate), check(100*time.Second, 'd', spend.Block) // denied after 90 s
	again.Decision.Reason, again.Decision.RuleID, again.Pass = spend.ReasonDuplicate, "twice", spend.Pass{}
	records := []Record{
		{Check: asks, Approval: &audit.Approval{
			Check: asks, Status: audit.ApprovalUsed, CreatedAt: began, ApprovedAt: began.Add(90 * time.Second), UsedBy: uses.ID,
			Decisions: []audit.ApprovalDecision{{Approves: true, At: began.Add(90 * time.Second)}},
		}},
		{Check: denied, Approval: &audit.Approval{
			Check: denied, Status: audit.ApprovalDenied, CreatedAt: began.Add(time.Second),
			Decisions: []audit.ApprovalDecision{{At: began.Add(90 * time.Second)}},
		}},
		{Check: again},
		{Check: uses},
	}
	for _, c := range []struct {
		name      string
		candidate *policy.Program
		recorded  bool
		flips     int
	}{
		{"the same", live, false, 0},
		{"a minute to decide", program(1, 3), false, 2},
		{"a minute to use it", program(3, 1), false, 1},
		{"time enough", program(2, 2), false, 0},
		{"history's approvals", program(1, 1), true, 0},
	} {
		var flips []string
		e := New(Options{
			Candidate: c.candidate, From: began, To: began.Add(time.Hour), Recorded: c.recorded,
			Version: func(int) *policy.Program { return live }, Flip: func(f report.Flip) { flips = append(flips, f.JSON()) },
		})
		for i := range records {
			must.Do(t, e.Feed(&records[i]))
		}
		if r := e.Report(); r.Coverage.Compared != 4 || len(flips) != c.flips {
			t.Errorf("%s: %s %s", c.name, r.JSON(), flips)
		}
	}
}

// An action that another policy escalated, whose approval was used and which was not carried out, left nothing that a
// later check repeats, whichever policy judges that.
func TestForeignApprovalGivenBack(t *testing.T) {
	var faults spend.Faults
	live := policy.Compile("p", 1, `[{"rule_id":"twice","rule_type":"duplicate_guard","parameters":{"window_minutes":10}}]`, &faults)
	must.Do(t, faults.Err())
	began := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	foreign := func(after time.Duration, effect spend.Effect) *spend.Check {
		at := began.Add(after)
		c := &spend.Check{ID: spend.NewID(at), Fingerprint: spend.Hash{1}, Decision: spend.Decision{Effect: effect}}
		c.Pass = spend.Pass{ClaimedMS: at.UnixMilli(), UntilMS: at.Add(10 * time.Minute).UnixMilli()}
		return c
	}
	asks, uses := foreign(0, spend.Escalate), foreign(time.Second, spend.Allow)
	uses.Action.ApprovalID = asks.ID
	failed := &spend.Outcome{
		ID: spend.NewID(began.Add(2 * time.Second)), CheckID: uses.ID, Number: 1, Status: spend.Failed, Release: spend.ReleaseDone,
	}
	again := foreign(3*time.Second, spend.Allow)
	again.ActionType, again.Decision.PolicyVersion = spend.Refund, 1
	again.Action = spend.Action{AgentID: "a", PolicyID: "p", Type: spend.Refund, Currency: "USD", Counterparty: "c"}
	again.Action.Amount, _ = spend.ParseAmount("50")
	e := New(Options{Candidate: live, From: began, To: began.Add(time.Hour), Version: func(int) *policy.Program { return live }})
	for _, r := range []*Record{
		{Check: asks, Foreign: true}, {Check: uses, Foreign: true, Reports: []*spend.Outcome{failed}}, {Check: again},
	} {
		must.Do(t, e.Feed(r))
	}
	if r := e.Report(); r.Coverage.Compared != 1 || r.Flips.Total != 0 {
		t.Errorf("%s", r.JSON())
	}
}
