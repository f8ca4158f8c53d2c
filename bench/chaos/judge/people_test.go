package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/bench/chaos/judge"
)

const (
	executorKey = "key_executor"
	agentKey    = "key_agent"
)

// report adds an outcome of a check and the request that was answered with it.
func (s *builder) report(r *judge.Row, key, status, amount string) *judge.Op {
	n := 1
	for _, o := range s.Outcomes {
		if o.CheckID == r.CheckID {
			n++
		}
	}
	o := judge.Outcome{CheckID: r.CheckID, AtMS: s.Run.Began.Add(s.now + 5*ms).UnixMilli(), Number: n, Status: status, KeyID: key}
	told := "null"
	if status == "executed" {
		o.Amount, told = &amount, amount
	}
	s.Outcomes = append(s.Outcomes, o)
	return s.op(judge.Op{
		Kind: judge.Report, Key: key, Subject: r.CheckID, Status: 201,
		Answer: fmt.Sprintf(`{"report":%d,"status":%q,"amount":%s}`, n, status, told),
	})
}

// corrected adds counters from which something was given back.
func (s *builder) corrected(used, count int64) {
	s.counted(int(used))
	for i := range s.Counters {
		s.Counters[i].Count += count
	}
}

// F65.
func TestOutcomes(t *testing.T) {
	ten := action{to: "a", amount: "10"}
	for name, c := range map[string]struct {
		change     func(s *builder)
		rule, says string // empty when it is allowed
	}{
		"voided, and the same action passes": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, executorKey, "voided", "")
			s.Counters = nil
			s.decided(ten)
			s.corrected(-10, 0)
			s.Counters[0].Count--
			s.Counters[1].Count--
		}, "", ""},
		"voided by an agent, which gives nothing back": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, agentKey, "voided", "")
			s.report(row, executorKey, "executed", "10")
			s.counted(0)
		}, "", ""},
		"given back by an agent": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, agentKey, "voided", "")
			s.corrected(-10, -1)
		}, "G12", "is not what is recorded"},
		"not given back": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, executorKey, "failed", "")
			s.counted(0)
		}, "G12", "is not what is recorded"},
		"more and less was moved": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, executorKey, "executed", "4")
			_, row = s.decided(action{to: "b", amount: "10"})
			s.report(row, executorKey, "executed", "90")
			s.counted(-6 + 80)
		}, "", ""},
		"an agent has the last word": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, executorKey, "executed", "10")
			s.report(row, agentKey, "executed", "10")
			s.counted(0)
		}, "G12", "has 2 outcomes"},
		"corrected, and counted as the last says": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, executorKey, "voided", "")
			s.report(row, executorKey, "executed", "90")
			s.report(row, executorKey, "executed", "4")
			s.counted(-6)
		}, "", ""},
		"corrected, and counted as all say": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, executorKey, "executed", "4")
			s.report(row, executorKey, "executed", "3")
			s.counted(-13)
		}, "G12", "is not what is recorded"},
		"passes after a release was taken back": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, executorKey, "voided", "")
			s.report(row, executorKey, "executed", "10")
			s.now += 15 * time.Second
			s.decided(ten)
			s.counted(0)
		}, "G3", "passed as the same action"},
		"blocked after a release was taken back": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, executorKey, "voided", "")
			s.report(row, executorKey, "executed", "10")
			s.duplicate(ten, row)
			s.counted(0)
		}, "", ""},
		"answered and not recorded": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, executorKey, "executed", "10")
			s.Outcomes = nil
			s.counted(0)
		}, "G1", "is not recorded"},
		"an outcome of nothing": {func(s *builder) {
			s.Outcomes = []judge.Outcome{{CheckID: "chk_1", Number: 1, Status: "voided", KeyID: executorKey}}
		}, "G12", "no allowed check"},
		"freed by an agent": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, agentKey, "voided", "")
			s.decided(ten)
			s.counted(0)
		}, "G3", "passed as the same action"},
		"blocked by what was released": {func(s *builder) {
			_, row := s.decided(ten)
			s.report(row, executorKey, "voided", "")
			s.duplicate(ten, row)
			s.corrected(-10, -1)
		}, "G3", "was released before"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBuilder()
			s.budgeted()
			s.Keys = append(s.Keys, judge.Key{ID: executorKey, Limit: 10000, Role: "executor"}, judge.Key{ID: agentKey, Limit: 10000})
			c.change(s)
			s.finds(t, c.rule, c.says)
		})
	}
}

// finds judges the history: it violates that rule alone, or none.
func (s *builder) finds(t *testing.T, rule, says string) {
	t.Helper()
	findings := s.judged(t)
	if (says == "") != (len(findings) == 0) {
		t.Fatalf("found %v", findings)
	}
	for _, f := range findings {
		if f.Rule != rule || !strings.Contains(f.Text, says) {
			t.Errorf("found %s; want only %s: ...%s...", f, rule, says)
		}
	}
}

// asked adds a check that is escalated and asks two people.
func (s *builder) asked() *judge.Row {
	a := action{to: "a", amount: "60"}
	row := s.record(a, s.now+5*ms)
	s.decide(row, "escalate", fmt.Sprintf("review-%d", len(s.Policies)), "escalation_threshold_exceeded", "ask")
	row.Asks = 2
	s.answer(s.ask(a), row, false)
	return row
}

func approval(r *judge.Row) string { return "apr_" + strings.TrimPrefix(r.CheckID, "chk_") }

func (s *builder) approvedBy(r *judge.Row, people ...string) {
	for _, who := range people {
		s.Decisions = append(s.Decisions, judge.ApprovalDecision{
			ApprovalID: approval(r), Kind: "approval.approved", Principal: who, At: s.Run.Began.Add(s.now + 5*ms),
		})
		s.op(judge.Op{Kind: judge.Approve, Key: who, Subject: approval(r), Status: 200})
	}
}

// use adds a check that uses the approval.
func (s *builder) use(of *judge.Row, amount string) *judge.Row {
	a := action{to: "a", amount: amount, approval: approval(of)}
	row := s.record(a, s.now+5*ms)
	s.answer(s.ask(a), row, false)
	s.Uses = append(s.Uses, judge.Use{ApprovalID: approval(of), CheckID: row.CheckID})
	return row
}

func (s *builder) refusedUse(of *judge.Row, code, message string) {
	o := s.ask(action{to: "a", amount: of.Amount, approval: approval(of)})
	o.Status, o.Answer = 409, fmt.Sprintf(`{"error":{"code":%q,"message":%q}}`, code, message)
}

func TestApprovals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *builder)
		says   string // empty when it is allowed
	}{
		"used once": {func(s *builder) {
			asked := s.asked()
			s.refusedUse(asked, "approval_not_approved", "pending")
			s.approvedBy(asked, "ann", "bob")
			used := s.use(asked, "60")
			s.refusedUse(asked, "approval_already_used", "by "+used.CheckID)
			s.duplicate(action{to: "a", amount: "60"}, used)
		}, ""},
		"used twice": {func(s *builder) {
			asked := s.asked()
			s.approvedBy(asked, "ann", "bob")
			s.use(asked, "60")
			s.now += time.Minute + 5*time.Second
			s.use(asked, "60")
			s.Uses = s.Uses[:1]
		}, "use apr_"},
		"approved by one of two": {func(s *builder) {
			asked := s.asked()
			s.approvedBy(asked, "ann", "ann")
			s.use(asked, "60")
		}, "1 of 2 approved"},
		"approved by two of one group": {func(s *builder) {
			s.Keys = append(s.Keys, judge.Key{ID: "ann", Group: "support"}, judge.Key{ID: "bob", Group: "support"},
				judge.Key{ID: "cleo", Group: "finance"})
			asked := s.asked()
			asked.From = []string{"support", "finance"}
			s.approvedBy(asked, "ann", "bob")
			s.use(asked, "60")
		}, "2 of 2 approved"},
		"approved by who asked": {func(s *builder) {
			asked := s.asked()
			s.approvedBy(asked, "ann", theKey)
			s.use(asked, "60")
		}, "2 of 2 approved"},
		"approved afterwards": {func(s *builder) {
			asked := s.asked()
			s.use(asked, "60")
			s.now += second
			s.approvedBy(asked, "ann", "bob")
		}, "0 of 2 approved"},
		"denied": {func(s *builder) {
			asked := s.asked()
			s.approvedBy(asked, "ann", "bob")
			s.Decisions = append(s.Decisions, judge.ApprovalDecision{ApprovalID: approval(asked), Kind: "approval.denied", Principal: "cleo"})
			s.use(asked, "60")
		}, "denied true"},
		"another amount": {func(s *builder) {
			asked := s.asked()
			s.approvedBy(asked, "ann", "bob")
			s.use(asked, "70")
		}, "is another action"},
		"nobody asked": {func(s *builder) {
			asked := s.asked()
			asked.Asks = 0
			s.use(asked, "40")
			s.Uses = nil
		}, "nobody asked"},
		"the use is not recorded": {func(s *builder) {
			asked := s.asked()
			s.approvedBy(asked, "ann", "bob")
			s.use(asked, "60")
			s.Uses = nil
		}, "recorded as used by"},
		"a decision is gone": {func(s *builder) {
			s.approvedBy(s.asked(), "ann")
			s.Decisions = nil
		}, "is not recorded"},
		"approved and refused": {func(s *builder) {
			asked := s.asked()
			s.approvedBy(asked, "ann", "bob")
			s.now += second
			s.refusedUse(asked, "approval_not_approved", "pending")
		}, "its use refused"},
		"told to be used": {func(s *builder) {
			asked := s.asked()
			s.refusedUse(asked, "approval_already_used", "by "+asked.CheckID)
		}, "not used as told"},
		"told to be another action": {func(s *builder) {
			s.refusedUse(s.asked(), "approval_mismatch", "no")
		}, "as another"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBuilder()
			c.change(s)
			s.finds(t, "G13", c.says)
		})
	}
}
