package judge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"spendgate/bench/chaos/judge"
)

// budgeted has the policy's versions end with a budget of 100 an hour for each
// agent and one of 11 actions in a minute.
func (s *builder) budgeted() { s.budgetedOf(11) }

func (s *builder) budgetedOf(actions int) {
	for i := range s.Policies {
		s.Policies[i].Rules = json.RawMessage(strings.Replace(string(s.Policies[i].Rules), "[", `[
			{"rule_id":"each","rule_type":"budget","parameters":{"limit":100,"currency":"USD","per":["agent_id"],"window":"hour"}},
			{"rule_id":"rolling","rule_type":"budget","parameters":{"max_count":%d,"rolling_minutes":1,"on_exceed":"escalate"}},`, 1))
		s.Policies[i].Rules = json.RawMessage(strings.Replace(string(s.Policies[i].Rules), "%d", fmt.Sprint(actions), 1))
	}
	s.Ops[0].Request = json.RawMessage(fmt.Sprintf(`{"policy_id":"p","rules":%s}`, s.Policies[0].Rules))
}

// counted adds the counters as the rows have them, and another amount to each.
func (s *builder) counted(more int) {
	var sum, count int64
	perSecond := make(map[int64]int64)
	for _, r := range s.Rows {
		if r.Decision == "allow" {
			var amount int64
			_, _ = fmt.Sscan(r.Amount, &amount)
			sum, count = sum+amount, count+1
			perSecond[r.AtMS-r.AtMS%1000]++
		}
	}
	if count == 0 {
		return
	}
	hour := s.Run.Began.UnixMilli()
	s.Counters = append(s.Counters, judge.Counter{
		PolicyID: policyID, RuleID: "each", Subject: `["agent"]`, StartMS: hour, Used: fmt.Sprint(sum + int64(more)), Count: count,
	})
	for at, n := range perSecond {
		s.Counters = append(s.Counters, judge.Counter{PolicyID: policyID, RuleID: "rolling", Subject: "[]", StartMS: at, Used: "0", Count: n})
	}
}

// spend records and answers checks of 10 each.
func (s *builder) spend(times int) {
	for range times {
		s.decided(action{to: s.now.String(), amount: "10"})
	}
}

// refused adds a check that was told how much of a limit is used.
func (s *builder) refused(amount, used, limit string) {
	row := s.record(action{to: s.now.String(), amount: amount}, s.now+5*ms)
	row.ClaimedMS = nil
	s.decide(row, "block", "each", "budget_exceeded", "no: "+used+" USD of "+limit+" USD are used")
	s.answer(s.ask(action{to: s.now.String(), amount: amount}), row, false)
}

func TestBudgets(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *builder)
		says   string // empty when it is allowed
	}{
		"exactly the limit":       {func(s *builder) { s.spend(10); s.refused("10", "100.00", "100.00"); s.counted(0) }, ""},
		"figures of before":       {func(s *builder) { s.spend(9); s.refused("20", "90.00", "100.00"); s.spend(1); s.counted(0) }, ""},
		"more than the limit":     {func(s *builder) { s.spend(11); s.counted(0) }, "more than the budget"},
		"a lost update":           {func(s *builder) { s.spend(5); s.counted(-10) }, "is not what is recorded"},
		"a counter that is gone":  {func(s *builder) { s.spend(5); s.counted(0); s.Counters = s.Counters[1:] }, "is not there"},
		"figures of never, more":  {func(s *builder) { s.spend(9); s.refused("10", "100.00", "100.00"); s.counted(0) }, "true at no moment"},
		"figures of never, less":  {func(s *builder) { s.spend(9); s.refused("30", "80.00", "100.00"); s.counted(0) }, "true at no moment"},
		"there was room":          {func(s *builder) { s.spend(9); s.refused("10", "90.00", "100.00"); s.counted(0) }, "true at no moment"},
		"a rolling window, later": {func(s *builder) { s.spend(6); s.now += 62 * second; s.spend(4); s.counted(0) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBuilder()
			s.budgeted()
			c.change(s)
			findings := s.judged(t)
			if c.says == "" && len(findings) > 0 || c.says != "" && len(findings) == 0 {
				t.Fatalf("found %v", findings)
			}
			for _, f := range findings {
				if f.Rule != "G12" || !strings.Contains(f.Text, c.says) {
					t.Errorf("found %s; want only G12: ...%s...", f, c.says)
				}
			}
		})
	}
}
