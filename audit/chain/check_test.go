package chain_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// ParseCheck reads what AppendCheck encodes, and nothing else.
func TestParseCheck(t *testing.T) {
	c := &spend.Check{
		ID: spend.NewID(time.Now()), ActionType: spend.Discount, LatencyMS: 7, KeyID: "key", Principal: "till", Owner: "team", RequestID: "req",
		Action: spend.Action{
			AgentID: "agent", PolicyID: "policy", Currency: "USD", Counterparty: "customer", PaymentMethod: "card", MerchantOrVendor: "shop",
			ReasonText: "why", IdempotencyKey: "once", Metadata: spend.Metadata{JSON: `{"a":1}`},
		},
		Decision: spend.Decision{
			Effect: spend.Escalate, Confidence: spend.Medium, Reason: "reason", RuleID: "rule", RuleDescription: "described", Message: "message",
			NextStep: "next", PolicyVersion: 3,
		},
		Namespace: "BOT", Fingerprint: spend.HashKey("f"), RequestSHA: spend.HashKey("r"), Pass: spend.Pass{ClaimedMS: -5, UntilMS: 1 << 60},
		Fence: spend.Fence{Node: spend.NewID(time.Now()), Epoch: spend.NewID(time.Now()), Stops: 7},
	}
	c.Action.Amount, _ = spend.ParseAmount("600.05")
	for _, requested := range []spend.ActionType{spend.Unspecified, spend.Spend} {
		c.Action.Type = requested
		back, err := chain.ParseCheck(chain.AppendCheck(nil, c, 9))
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("came back\n%+v, %v\nwas\n%+v", back, err, c)
		}
	}
	row := chain.AppendCheck(nil, &spend.Check{ActionType: spend.Refund}, 1)
	if back, err := chain.ParseCheck(row); err != nil || back.ActionType != spend.Refund || back.Pass.Passed() {
		t.Errorf("a minimal check: %+v, %v", back, err)
	}
	for _, bad := range [][]byte{nil, row[:40], append(bytes.Clone(row), 0)} {
		if _, err := chain.ParseCheck(bad); !errors.Is(err, chain.ErrNotRow) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for i := range row { // no byte makes it panic
		for _, b := range []byte{0, 1, 0xff} {
			other := bytes.Clone(row)
			other[i] = b
			if back, err := chain.ParseCheck(other); err == nil && back.ActionType == spend.Unspecified {
				t.Errorf("byte %d as %d: a check without a type", i, b)
			}
		}
	}
}
