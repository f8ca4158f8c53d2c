package httpapi

import (
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

func testID(ms int64) spend.ID { return spend.NewID(time.UnixMilli(ms)) }

// instant is 2026-11-20T10:11:12.034Z.
const instant = 1795169472034

func blockedCheck() *spend.Check {
	amount, _ := spend.ParseAmount("600")
	return &spend.Check{
		ID: spend.ID{0x01, 0xa1, 0xf9, 0x58, 0x50, 0x22, 0x70, 0, 0x80, 1, 2, 3, 4, 5, 6, 7},
		Action: spend.Action{
			AgentID: "agent-1", PolicyID: "p", Type: spend.Refund, Amount: amount,
			Currency: "USD", Counterparty: "c",
		},
		ActionType: spend.Refund,
		Decision: spend.Decision{
			Effect: spend.Block, Confidence: spend.High, Reason: spend.ReasonMaxAmount, RuleID: "cap",
			RuleDescription: "No refund above 500 USD", Message: `600.00 USD exceeds the limit of 500.00 USD`,
			NextStep: "Do not proceed. Lower the amount or ask a human to approve it.", PolicyVersion: 3,
		},
		LatencyMS: 4,
	}
}

func allowedCheck() *spend.Check {
	c := blockedCheck()
	c.Decision = spend.Decision{
		Effect: spend.Allow, Confidence: spend.Medium, Message: "within policy", NextStep: "Proceed.", PolicyVersion: 1,
	}
	return c
}

func TestAppendCheckResult(t *testing.T) {
	f := func(c *spend.Check, want string) {
		t.Helper()
		if got := string(AppendCheckResult(nil, c)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	blocked := blockedCheck()
	f(blocked, `{"check_id":"chk_01a1f95850227000800102030405`+`0607","decision":"block","confidence":"high",`+
		`"reason_code":"max_amount_exceeded","message":"600.00 USD exceeds the limit of 500.00 USD",`+
		`"violated_rule_id":"cap","violated_rule_description":"No refund above 500 USD","policy_version":3,`+
		`"next_step":"Do not proceed. Lower the amount or ask a human to approve it.","latency_ms":4,`+
		`"timestamp":"`+blocked.Timestamp().Format("2006-01-02T15:04:05.000Z")+`"}`)
	f(allowedCheck(), `{"check_id":"chk_01a1f958502270008001020304050607","decision":"allow","confidence":"medium",`+
		`"reason_code":null,"message":"within policy","violated_rule_id":null,"violated_rule_description":null,`+
		`"policy_version":1,"next_step":"Proceed.","latency_ms":4,"timestamp":"`+
		blocked.Timestamp().Format("2006-01-02T15:04:05.000Z")+`"}`)
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	c, dst := blockedCheck(), make([]byte, 0, 4096)
	f := func(name string, encode func()) {
		t.Helper()
		if n := testing.AllocsPerRun(100, encode); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	f("AppendCheckResult", func() { dst = AppendCheckResult(dst[:0], c) })
	v := &audit.Violation{ID: c.ID, AgentID: "a", ActionType: spend.Refund, Amount: c.Action.Amount, Effect: spend.Block}
	var shown wire.Violation
	f("a violation", func() {
		shown = violationOf(v)
		dst = wire.Append(dst[:0], &shown, true)
	})
	f("appendError", func() { dst = appendError(dst[:0], &errorBody{refusal: unavailable, requestID: "req_0123456789ab"}) })
}

// S84: an approval that was withdrawn is not said to have expired.
func TestNextStepOfWithdrawn(t *testing.T) {
	a := &audit.Approval{Check: new(spend.Check), Status: audit.ApprovalWithdrawn}
	if got := nextStepOf(a, time.Time{}); strings.Contains(got, "expired") || !strings.Contains(got, "payment") {
		t.Error(got)
	}
}
