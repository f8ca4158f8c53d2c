package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
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

func TestAppendTime(t *testing.T) {
	f := func(in time.Time, want string) {
		t.Helper()
		if got := string(appendTime(nil, in)); got != `"`+want+`"` {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(time.UnixMilli(instant), "2026-11-20T10:11:12.034Z")
	f(time.UnixMilli(0), "1970-01-01T00:00:00.000Z")
	f(time.Date(2026, 1, 1, 1, 0, 0, 999_999_999, time.FixedZone("", 7200)), "2025-12-31T23:00:00.999Z")
}

func TestStringsAreEscaped(t *testing.T) {
	for _, s := range []string{"", `"`, `\`, "\n\r\t\b\f\x01\x1f", "é \u2028 😀 \u007f", "</script>", strings.Repeat("x", 5000)} {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil || back != s {
			t.Errorf("%q came back as %q, %v", s, back, err)
		}
	}
	var back string
	if err := json.Unmarshal(appendString(nil, "a\xffb"), &back); err != nil || back != "a\ufffdb" {
		t.Errorf("broken UTF-8 came back as %q, %v", back, err)
	}
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	c, dst := blockedCheck(), make([]byte, 0, 4096)
	v := audit.Violation{ID: c.ID, AgentID: "a", ActionType: spend.Refund, Effect: spend.Block}
	f := func(name string, encode func()) {
		t.Helper()
		if n := testing.AllocsPerRun(100, encode); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	f("AppendCheckResult", func() { dst = AppendCheckResult(dst[:0], c) })
	f("appendViolation", func() { dst = appendViolation(dst[:0], &v, false) })
	f("appendError", func() { dst = appendError(dst[:0], &errorBody{refusal: unavailable, requestID: "req_0123456789ab"}) })
}
