package judge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"spendgate/bench/chaos/judge"
)

// grantStep records a change of a grant, or of its granter's key.
func (s *builder) grantStep(kind, subject, details string) {
	s.now += 10 * ms
	s.GrantSteps = append(s.GrantSteps, judge.GrantStep{
		Subject: subject, Kind: kind, KeyID: "granter", Details: json.RawMessage(details), CommittedUS: s.Run.Began.Add(s.now).UnixMicro(),
	})
	s.now += 10 * ms
}

// grant records a grant of 50 for the agent, for a time.
func (s *builder) grant(lasts time.Duration) {
	const details = `{"policy_id":"p","rule_id":"each","subject":"[\"agent\"]","start_ms":%d,"add_amount":50,"until_ms":%d}`
	s.grantStep("grant.created", "grt_1", fmt.Sprintf(details,
		s.Run.Began.UnixMilli(), s.Run.Began.Add(s.now+lasts).UnixMilli()))
}

// spendGranted spends, with what grants gave in the rows.
func (s *builder) spendGranted(times int, granted string) {
	for range times {
		_, row := s.decided(action{to: s.now.String(), amount: "10"})
		row.CommittedUS = row.AtMS*1000 + 1000
		charges := fmt.Sprintf(`[{"rule_id":"each","per":["agent"],"start_ms":%d,"granted":%s}]`, s.Run.Began.UnixMilli(), granted)
		row.Charges = &charges
	}
}

func TestGrants(t *testing.T) {
	revoked := func(s *builder) { s.grantStep("grant.revoked", "grt_1", "{}") }
	lost := func(s *builder) { s.grantStep("key.changed", "granter", `{"active":true,"role":"auditor"}`) }
	for name, c := range map[string]struct {
		change func(s *builder)
		says   string // empty when it is allowed
	}{
		"a grant":           {func(s *builder) { s.grant(second); s.spendGranted(12, "50") }, ""},
		"more than a grant": {func(s *builder) { s.grant(second); s.spendGranted(16, "50") }, "more than the budget"},
		"a revoked grant":   {func(s *builder) { s.grant(second); s.spendGranted(11, "50"); revoked(s) }, ""},
		"above a revoked grant": {func(s *builder) {
			s.grant(second)
			s.spendGranted(10, "50")
			revoked(s)
			s.spendGranted(1, "0")
		}, "more than the budget"},
		"by a revoked grant":          {func(s *builder) { s.grant(second); revoked(s); s.spendGranted(5, "50") }, "says that grants gave"},
		"a grant whose time is over":  {func(s *builder) { s.grant(ms); s.now += second; s.spendGranted(11, "0") }, "more than the budget"},
		"a granter without the right": {func(s *builder) { s.grant(second); lost(s); s.spendGranted(5, "50") }, "says that grants gave"},
		"a granter who has the right again": {func(s *builder) {
			s.grant(second)
			lost(s)
			s.grantStep("key.changed", "granter", `{"active":true,"role":"approver"}`)
			s.spendGranted(5, "50")
		}, "says that grants gave"},
		"told the limit with a grant": {func(s *builder) {
			s.grant(9 * second)
			s.spendGranted(11, "50")
			s.refused("50", "110.00", "150.00")
		}, ""},
		"told a limit without a grant": {func(s *builder) { s.spendGranted(9, "0"); s.refused("70", "90.00", "150.00") }, "true at no moment"},
		"a revocation that was forgotten": {func(s *builder) {
			s.grant(second)
			s.op(judge.Op{Kind: judge.Revoke, Subject: "grt_1", Status: 200})
		}, "is not recorded"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBuilder()
			s.budgetedOf(90)
			c.change(s)
			s.counted(0)
			for i := range s.Rows {
				s.Rows[i].CommittedUS = s.Rows[i].AtMS*1000 + 1000
			}
			findings := s.judged(t)
			if c.says == "" && len(findings) > 0 || c.says != "" && len(findings) == 0 {
				t.Fatalf("found %v", findings)
			}
			for _, f := range findings {
				if !strings.Contains(f.Text, c.says) {
					t.Errorf("found %s; want only ...%s...", f, c.says)
				}
			}
		})
	}
}
