package spend

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, at := range ActionTypes {
		if back, ok := ParseActionType(at.String()); !ok || back != at {
			t.Errorf("%v came back as %v", at, back)
		}
	}
	for _, e := range []Effect{Allow, Escalate, Block} {
		if back, ok := ParseEffect(e.String()); !ok || back != e {
			t.Errorf("%v came back as %v", e, back)
		}
	}
	for _, c := range []Confidence{Low, Medium, High} {
		if back, ok := ParseConfidence(c.String()); !ok || back != c {
			t.Errorf("%v came back as %v", c, back)
		}
	}
	if Block <= Escalate || Escalate <= Allow || High <= Medium || Medium <= Low {
		t.Error("effects and confidences are out of order")
	}
	for _, s := range []string{"", "Refund", "refund ", "payment"} {
		if at, ok := ParseActionType(s); ok {
			t.Errorf("%q is %v", s, at)
		}
	}
	if _, ok := ParseEffect("deny"); ok {
		t.Error("deny is an effect")
	}
	if _, ok := ParseConfidence(""); ok {
		t.Error("nothing is a confidence")
	}
}

func TestValidPolicyID(t *testing.T) {
	for _, s := range []string{"p", "P", "0", "refunds-eu.v2_a:b", strings.Repeat("a", 128)} {
		if !ValidPolicyID(s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{"", "-p", ".p", "_p", ":p", "a b", "a/b", "a%", "é", "a\n", "a\x00", strings.Repeat("a", 129)} {
		if ValidPolicyID(s) {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestBlank(t *testing.T) {
	for s, want := range map[string]bool{"": true, " \t\r\n": true, "\u00a0\u2003": true, "x": false, " x ": false, "0": false} {
		if Blank(s) != want {
			t.Errorf("%q", s)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Action{AgentID: "a", PolicyID: "p", Type: Refund, Currency: "USD", Counterparty: "c"}
	f := func(change func(*Action), want string) Action {
		t.Helper()
		a := good
		change(&a)
		var faults Faults
		a.Validate("actions[3].", &faults)
		got := ""
		if err := faults.Err(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		return a
	}
	long := func(n int) string { return strings.Repeat("é", n) } // lengths count code points
	f(func(*Action) {}, "")
	f(func(a *Action) { a.AgentID, a.Counterparty = " ", "\t" }, "actions[3].agent_id is required; actions[3].counterparty is required")
	f(func(a *Action) { a.AgentID = long(256) }, "")
	f(func(a *Action) { a.AgentID = long(257) }, "actions[3].agent_id must be at most 256 characters")
	f(func(a *Action) { a.AgentID, a.Counterparty, a.MerchantOrVendor = "a\ufe0f", "c ", "m\u00a0v" },
		"actions[3].agent_id must not have the character U+FE0F, which shows nothing; "+
			"actions[3].counterparty must not have white space around it; "+
			"actions[3].merchant_or_vendor must not have the character U+00A0, which looks like a space")
	f(func(a *Action) { a.PolicyID = " " }, "actions[3].policy_id is required")
	f(func(a *Action) { a.PolicyID = "a b" }, "actions[3].policy_id "+PolicyIDForm)
	f(func(a *Action) { a.PaymentMethod, a.MerchantOrVendor = long(257), long(257) },
		"actions[3].payment_method must be at most 256 characters; actions[3].merchant_or_vendor must be at most 256 characters")
	f(func(a *Action) { a.ReasonText, a.IdempotencyKey = long(4097), long(256) },
		"actions[3].reason_text must be at most 4096 characters; actions[3].idempotency_key must be at most 255 characters")
	f(func(a *Action) { a.Type, a.ReasonText = Unspecified, "because" }, "")
	const typeMissing = "actions[3].action_type is required unless reason_text is given: refund, credit, discount or spend"
	f(func(a *Action) { a.Type = Unspecified }, typeMissing)
	f(func(a *Action) { a.Type, a.ReasonText = Unspecified, " " }, typeMissing)
	cleared := f(func(a *Action) {
		a.PaymentMethod, a.MerchantOrVendor, a.ReasonText, a.IdempotencyKey = " ", "\t", "\n", "  "
	}, "")
	if cleared != good {
		t.Errorf("blank fields stay: %+v", cleared)
	}
}

func TestFaults(t *testing.T) {
	var none Faults
	if none.Err() != nil {
		t.Error("no fault is an error")
	}
	var many Faults
	for range 30 {
		many.Add("a", "is required")
	}
	if got := many.Error(); strings.Count(got, "a is required") != maxFaultsShown || !strings.HasSuffix(got, "; and more") {
		t.Errorf("%s", got)
	}
}

// A name that a fault repeats is cut between code points.
func TestNameShown(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		if got := NameShown(name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f("", "")
	f("amuont", "amuont")
	f(strings.Repeat("漢", 64), strings.Repeat("漢", 64))
	f(strings.Repeat("漢", 65), strings.Repeat("漢", 64)+"...")
}
