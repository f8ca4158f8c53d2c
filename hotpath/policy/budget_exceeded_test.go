package policy

import (
	"fmt"
	"strings"
	"testing"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// budgetRule returns one rule; the members come after its window.
func budgetRule(id, members string) string {
	return `{"rule_id":"` + id + `","rule_type":"budget","parameters":{"window":"day"` + members + `}}`
}

func usage(tb testing.TB, used string, count int64) spend.Usage {
	tb.Helper()
	total := must.Get(spend.ParseTotal(used))(tb)
	return spend.Usage{Used: total, Count: count}
}

// judgeBy evaluates an action with the given usage of each counter.
func judgeBy(p *Program, a *spend.Action, r spend.Resolution, taken ...spend.Usage) Finding {
	f := p.Evaluate(a, r, noon)
	if f.Effect == spend.Block {
		return f
	}
	if f, blocked := p.Uncovered(f, a, r); blocked {
		return f
	}
	charges := p.Charges(nil, a, r, "key_1", noon)
	usages := make(map[int]spend.Usage)
	for i := range charges {
		if i < len(taken) {
			usages[i] = taken[i]
		}
	}
	return p.Exceeded(f, r, charges, usages)
}

// S14: a finding may be completed more than once, in any order. What becomes of one is the second evaluator's (TestEvaluateAgainstPlain).
func TestExceeded(t *testing.T) {
	const exceeds = `,"limit":500,"currency":"USD","on_exceed":"escalate"`
	const ask = `{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":10}}`
	full := usage(t, "500", 1)
	p := mustCompile(t, "["+strings.Join([]string{
		budgetRule("e", exceeds), budgetRule("e2", exceeds), ask, budgetRule("b", `,"limit":500,"currency":"USD"`),
	}, ",")+"]")
	a, r := action(t), named(spend.Spend)
	charges := p.Charges(nil, a, r, "", noon)
	exceeded := func(found Finding, i int) Finding { return p.Exceeded(found, r, charges, map[int]spend.Usage{i: full}) }
	found := p.Evaluate(a, r, noon)
	if d := p.Explain(exceeded(exceeded(found, 1), 0), a, r); d.RuleID != "e" {
		t.Errorf("S14: %q after a later one", d.RuleID)
	}
	if d := p.Explain(exceeded(exceeded(found, 0), 1), a, r); d.RuleID != "e" {
		t.Errorf("S14: %q after an earlier one", d.RuleID)
	}
	charges[2].Lifted = true
	if d := p.Explain(exceeded(found, 2), a, r); d.RuleID != "ask" {
		t.Errorf("%q is reported, although it is lifted", d.RuleID)
	}
}

// S36: the figures, the window, for whom, and what to do.
func TestTextsOfBudgets(t *testing.T) {
	f := func(parameters string, taken spend.Usage, description, message, nextStep string) {
		t.Helper()
		p := mustCompile(t, rule1("budget", parameters))
		p.CountSince(map[string]spend.BudgetSince{"r1": {Version: 2, At: mustTime(t, "2026-01-01T00:00:00Z")}})
		a, r := action(t), named(spend.Spend)
		found := judgeBy(p, a, r, taken)
		d := p.Explain(found, a, r)
		if d.RuleDescription != description || d.Message != message || d.NextStep != nextStep {
			t.Errorf("S36 %s:\n%q\n%q\n%q", parameters, d.RuleDescription, d.Message, d.NextStep)
		}
		used := taken.Used.String()
		if d := p.ExplainAnonymous(found, a, r); used != "0" && strings.Contains(d.Message+d.NextStep, used) ||
			strings.Contains(d.Message, "agent-1") {
			t.Errorf("S36 %s: told without a key: %q, %q", parameters, d.Message, d.NextStep)
		}
	}
	const block = "Do not proceed, and do not split the action to get under the budget. "
	const again = "check again after that, or ask the policy's owner to raise the limit."
	const raise = "Instead, ask the policy's owner to raise the limit."
	f(`{"limit":1000,"currency":"USD","max_count":50,"per":["agent_id"],"window":"day","time_zone":"Europe/Berlin"}`, usage(t, "950.5", 3),
		"Blocks more than 1000.00 USD or 50 actions per agent_id each day (Europe/Berlin)",
		`100.00 USD would exceed the budget of 1000.00 USD for agent_id "agent-1" in the day from 2026-03-04T00:00:00+01:00 to `+
			`2026-03-05T00:00:00+01:00 (Europe/Berlin): 950.50 USD of 1000.00 USD and 3 of 50 actions are used`,
		block+"Left: 49.50 USD and 47 actions. The budget resets at 2026-03-05T00:00:00+01:00. Instead, ask for at most 49.50 USD, "+again)
	f(`{"max_count":50,"currency":"USD","per":["api_key","agent_id"],"window":"hour","action_types":["spend","credit"]}`, usage(t, "1234", 51),
		"Blocks more than 50 actions in USD per agent_id, api_key each hour (UTC) for credit, spend",
		`another action, of 100.00 USD, would exceed the budget of 50 actions in USD for agent_id "agent-1", api_key "key_1" in the hour `+
			`from 2026-03-04T12:00:00Z to 2026-03-04T13:00:00Z (UTC): 51 of 50 actions in USD are used`,
		block+"Left: 0 actions in USD. The budget resets at 2026-03-04T13:00:00Z. Instead, "+again)
	f(`{"limit":1000,"currency":"USD","window":"lifetime"}`, usage(t, "1001", 9), "Blocks more than 1000.00 USD in all",
		"100.00 USD would exceed the budget of 1000.00 USD over its lifetime, since 2026-01-01T00:00:00Z: 1001.00 USD of 1000.00 USD are used",
		block+"Left: 0.00 USD. The budget never resets. "+raise)
	f(`{"limit":1000,"currency":"USD","rolling_minutes":90}`, usage(t, "950", 9), "Blocks more than 1000.00 USD in any 90 minutes",
		"100.00 USD would exceed the budget of 1000.00 USD in the last 90 minutes: 950.00 USD of 1000.00 USD are used",
		block+"Left: 50.00 USD. What was used leaves the budget after 90 minutes, in steps of 90 seconds. Instead, ask for at most 50.00 USD, "+
			strings.Replace(again, "after that", "when enough has left the budget", 1))
	f(`{"limit":1000,"currency":"USD","rolling_minutes":60,"on_exceed":"escalate"}`, usage(t, "950", 9),
		"Escalates more than 1000.00 USD in any 60 minutes",
		"100.00 USD would exceed the budget of 1000.00 USD in the last 60 minutes: 950.00 USD of 1000.00 USD are used",
		routeToHuman+", and do not split the action to get under the budget. Left: 50.00 USD. "+
			"What was used leaves the budget after 60 minutes, in steps of 1 minute.")
	// No window has room for it.
	f(`{"limit":10,"currency":"USD","window":"day"}`, usage(t, "9.75", 1), "Blocks more than 10.00 USD each day (UTC)",
		"100.00 USD would exceed the budget of 10.00 USD in the day from 2026-03-04T00:00:00Z to 2026-03-05T00:00:00Z (UTC): 9.75 USD of "+
			"10.00 USD are used",
		block+"Left: 0.25 USD. The budget resets at 2026-03-05T00:00:00Z. Instead, ask for at most 0.25 USD, or"+
			strings.TrimPrefix(raise, "Instead,"))

	p := mustCompile(t, "["+budgetRule("b", `,"limit":5,"currency":"USD"`)+","+budgetRule("c", `,"limit":5,"currency":"EUR"`)+"]")
	a, r := action(t, paying(t, "1", "GBP")), named(spend.Spend)
	if d := p.Explain(judgeBy(p, a, r), a, r); d.Message !=
		"1.00 GBP is in a currency for which the policy has no budget: it has budgets in EUR, USD" {
		t.Errorf("S35: %q", d.Message)
	}
	p = mustCompile(t, "["+budgetRule("b", `,"max_count":0,"action_types":["spend"]`)+"]")
	a, r = action(t, typed(spend.Unspecified)), spend.Resolution{Type: spend.Spend, Confidence: spend.Medium}
	if d := p.Explain(judgeBy(p, a, r, spend.Usage{}), a, r); !strings.Contains(d.NextStep, "classified as a spend") {
		t.Errorf("S16: next step %q", d.NextStep)
	}
}

func TestBudgetInfo(t *testing.T) {
	f := func(parameters, since, wantStart, wantEnd string, want string) {
		t.Helper()
		p := mustCompile(t, rule1("budget", parameters))
		p.CountSince(map[string]spend.BudgetSince{"r1": {Version: 2, At: mustTime(t, since)}})
		info := p.Budgets()[0]
		start, end := info.Window(noon)
		if !start.Equal(mustTime(t, wantStart)) || wantEnd == "" != end.IsZero() || wantEnd != "" && !end.Equal(mustTime(t, wantEnd)) {
			t.Errorf("S38 %s: from %v to %v", parameters, start, end)
		}
		a := action(t)
		c := p.Charges(nil, a, named(a.Type), "k", noon)[0]
		if got := info.Counter("desk", c.Subject, noon); got != c.Counter {
			t.Errorf("S38 %s: counter %v, charged %v", parameters, got, c.Counter)
		}
		values, err := info.Values(c.Subject)
		if got := fmt.Sprint(info.Per, values); err != nil || got != want {
			t.Errorf("S38 %s: subject %s, %v", parameters, got, err)
		}
		if info.RuleID != "r1" || info.Since.Version != 2 {
			t.Errorf("S38 %s: %+v", parameters, info)
		}
	}
	const since = "2026-01-01T00:00:00Z"
	f(`{"max_count":5,"window":"day","per":["counterparty","agent_id"]}`, since, "2026-03-04T00:00:00Z", "2026-03-05T00:00:00Z",
		`[agent_id counterparty] ["agent-1" "acme"]`)
	f(`{"max_count":5,"window":"lifetime"}`, since, since, "", "[] []")
	f(`{"max_count":5,"rolling_minutes":60}`, since, "2026-03-04T12:00:00Z", "2026-03-04T12:01:00Z", "[] []")

	p := mustCompile(t, `[`+budgetRule("b", `,"limit":5,"currency":"usd","time_zone":"Europe/Berlin"`)+
		`,{"rule_id":"r","rule_type":"budget","parameters":{"max_count":5,"rolling_minutes":60}}]`)
	b, r := p.Budgets()[0], p.Budgets()[1]
	if b.WindowName != "day" || b.TimeZone != "Europe/Berlin" || !b.Limited || b.Limit != mustAmount(t, "5") || b.Currency != "USD" ||
		b.Counted || b.RollingMinutes != 0 {
		t.Errorf("S38: %+v", b)
	}
	if r.WindowName != "" || r.TimeZone != "" || r.Limited || !r.Counted || r.MaxCount != 5 || r.RollingMinutes != 60 {
		t.Errorf("S38: %+v", r)
	}
	for _, bad := range []string{"", "{}", `["a"]`, `[1]`, `[`} {
		if values, err := b.Values(bad); err == nil {
			t.Errorf("S38: subject %s is %v", bad, values)
		}
	}
}
