package policy

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// The helpers that all tests of the package share.

// noon is a Wednesday.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// named returns the resolution of an action that named its type.
func named(t spend.ActionType) spend.Resolution {
	return spend.Resolution{Type: t, Confidence: spend.High}
}

func mustCompile(tb testing.TB, rules string) *Program {
	tb.Helper()
	var faults spend.Faults
	p := Compile("desk", 7, rules, &faults)
	if p == nil || len(faults) > 0 {
		tb.Fatalf("cannot compile %s: %v", rules, faults)
	}
	return p
}

func mustAmount(tb testing.TB, s string) spend.Amount {
	tb.Helper()
	a, err := spend.ParseAmount(s)
	if err != nil {
		tb.Fatalf("amount %s %v", s, err)
	}
	return a
}

// action returns an action of 100.00 USD to acme, changed by the options.
func action(tb testing.TB, options ...func(*spend.Action)) *spend.Action {
	tb.Helper()
	a := &spend.Action{
		AgentID: "agent-1", PolicyID: "desk", Type: spend.Spend,
		Amount: mustAmount(tb, "100"), Currency: "USD", Counterparty: "acme",
	}
	for _, o := range options {
		o(a)
	}
	return a
}

func typed(t spend.ActionType) func(*spend.Action) { return func(a *spend.Action) { a.Type = t } }

func paying(tb testing.TB, amount, currency string) func(*spend.Action) {
	tb.Helper()
	return func(a *spend.Action) { a.Amount, a.Currency = mustAmount(tb, amount), currency }
}

func to(counterparty string) func(*spend.Action) {
	return func(a *spend.Action) { a.Counterparty = counterparty }
}

func by(rail string) func(*spend.Action) { return func(a *spend.Action) { a.PaymentMethod = rail } }

func with(tb testing.TB, metadata string) func(*spend.Action) {
	tb.Helper()
	return func(a *spend.Action) {
		var faults spend.Faults
		a.Metadata = spend.ParseMetadata(jsontext.Value(metadata), "metadata", &faults)
		if len(faults) > 0 {
			tb.Fatalf("metadata %s: %v", metadata, faults)
		}
	}
}

// rule1 returns a policy of one rule, r1.
func rule1(ruleType, parameters string) string {
	return `[{"rule_id":"r1","rule_type":"` + ruleType + `","parameters":` + parameters + `}]`
}
