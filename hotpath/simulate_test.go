package hotpath_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// A simulation without a key tells neither which check was recorded nor what a policy lists, except
// what the actions name. A key sees both.
func TestStrangersLearnNoChecksAndNoLists(t *testing.T) {
	f := newFleet(t, embeddedBackend(), 1)
	f.post(0, "p", `[
		{"rule_id":"c","rule_type":"blocked_categories","parameters":{"categories":["secret-category","gambling"]}},
		{"rule_id":"r","rule_type":"blocked_payment_rails","parameters":{"rails":["secret-rail","wire"]}},
		{"rule_id":"g","rule_type":"geography_block","parameters":{"blocked_countries":["SJ","KP"]}},
		{"rule_id":"v","rule_type":"vendor_allowlist","description":"only secret-place","parameters":{"vendors":["x"]}}]`)
	spent := func(counterparty string, change func(*spend.Action)) *spend.Action {
		a := refundOf(t, "1", counterparty)
		a.Type = spend.Spend
		change(&a)
		return &a
	}
	recorded := refundOf(t, "10", "c")
	check := f.check(0, recorded)
	if !check.passed() {
		t.Fatal(check)
	}
	actions := []*spend.Action{
		spent("a", func(a *spend.Action) { a.Metadata.Category = "Gambling" }),
		spent("b", func(a *spend.Action) { a.PaymentMethod = "wire" }),
		spent("c", func(a *spend.Action) { a.Metadata.Country = "KP" }),
		spent("d", func(*spend.Action) {}),
		&recorded,
		spent("d", func(*spend.Action) {}),
	}
	secrets := []string{"secret-category", "secret-rail", "SJ", "secret-place", check.answer.Check.ID.Text(spend.PrefixCheck)}
	simulate := func(c hotpath.Caller) (checks []*spend.Check, told string) {
		t.Helper()
		checks, _, err := f.nodes[0].Simulate(t.Context(), hotpath.Request{Caller: c, Started: time.Now()}, "p", actions)
		must.Do(t, err)
		for i, c := range checks {
			d := c.Decision
			if d.Effect != spend.Block || d.Message == "" || d.NextStep == "" || d.RuleDescription == "" {
				t.Errorf("action %d: %+v", i, d)
			}
			told += strings.Join([]string{d.Message, d.NextStep, d.RuleDescription}, "\n") + "\n"
		}
		return checks, told
	}
	checks, told := simulate(hotpath.DemoCaller("192.0.2.1"))
	for _, secret := range secrets {
		if strings.Contains(told, secret) {
			t.Errorf("a stranger is told of %s:\n%s", secret, told)
		}
	}
	for _, named := range []string{"Gambling", "wire", "KP", `"d"`, checks[3].ID.Text(spend.PrefixCheck)} {
		if !strings.Contains(told, named) {
			t.Errorf("a stranger is not told of %s:\n%s", named, told)
		}
	}
	_, told = simulate(f.key)
	for _, secret := range secrets {
		if !strings.Contains(told, secret) {
			t.Errorf("a caller with a key is not told of %s:\n%s", secret, told)
		}
	}
}

// Rules are not compiled for a key that may not write the policy: the missing right is reported
// before any fault.
func TestTryingRulesNeedsTheRight(t *testing.T) {
	f := newFleet(t, embeddedBackend(), 1)
	for name, c := range map[string]struct {
		grants spend.Grants
		denied bool
	}{
		"agent":          {spend.Grants{Role: spend.Agent}, true},
		"another policy": {spend.Grants{Role: spend.Author, PolicyIDs: []string{"q"}}, true},
		"author":         {spend.Grants{Role: spend.Author, PolicyIDs: []string{"p"}}, false},
	} {
		caller := f.keyed(c.grants)
		access, _, err := f.nodes[0].Admit(t.Context(), caller, spend.PoliciesRead, true)
		must.Do(t, err)
		r := hotpath.Request{Caller: caller, Access: access, Started: time.Now()}
		_, _, err = f.nodes[0].TryRules(t.Context(), r, hotpath.Trial{PolicyID: "p", Rules: "{"})
		if _, faults := errors.AsType[spend.Faults](err); forbidden(err) != c.denied || faults == c.denied {
			t.Errorf("%s: %v", name, err)
		}
	}
}
