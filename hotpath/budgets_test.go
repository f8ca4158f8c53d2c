package hotpath_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
	"spendgate/hotpath/policy"
)

// budgetRules allow 1,000 a day to each agent, and 16 actions an hour in all.
const budgetRules = `[
	{"rule_id":"daily","rule_type":"budget","parameters":{"limit":1000,"currency":"USD","per":["agent_id"],"window":"lifetime"}},
	{"rule_id":"all","rule_type":"budget","parameters":{"max_count":40,"window":"lifetime"}}]`

func tally(outcomes []outcome) (allowed int, reasons map[spend.Reason]int, failed error) {
	reasons = make(map[spend.Reason]int)
	for _, o := range outcomes {
		switch {
		case o.err != nil:
			failed = o.err
		case o.answer.Check.Decision.Effect == spend.Allow:
			allowed++
		default:
			reasons[o.answer.Check.Decision.Reason]++
		}
	}
	return allowed, reasons, failed
}

func (f *fleet) used(t *testing.T, policyID, ruleID, subject string) string {
	t.Helper()
	usages := must.Get(f.store.CounterUsages(t.Context(), []spend.Counter{{ID: spend.CounterID(policyID, ruleID, 1, subject)}}))(t)
	return fmt.Sprint(usages[0].Used, " ", usages[0].Count)
}

// metric is the sum of a metric's series over all nodes.
func (f *fleet) metric(name string) (sum float64) {
	f.t.Helper()
	for _, n := range f.nodes {
		families := must.Get(n.metrics.Gather())(f.t)
		for _, family := range families {
			if family.GetName() != name {
				continue
			}
			for _, series := range family.GetMetric() {
				sum += series.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// G12: whatever is asked at once at two nodes, the allowed checks never exceed a budget, and a
// refused check says what was used.
func TestBudgetsAreNeverExceeded(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "b", budgetRules)
		actions := make([]spend.Action, 0, 60)
		for i := range 60 {
			a := refundOf(t, "60", fmt.Sprint("c-", i))
			a.PolicyID, a.AgentID = "b", fmt.Sprint("agent-", i%2)
			actions = append(actions, a)
		}
		outcomes := f.checkAll(actions...)
		allowed, reasons, err := tally(outcomes)
		if err != nil || allowed != 32 || reasons[spend.ReasonBudgetExceeded] != 28 {
			t.Errorf("%d allowed, %v, %v", allowed, reasons, err)
		}
		for _, o := range outcomes {
			if d := o.answer.Check.Decision; d.Effect == spend.Block && (d.RuleID != "daily" || !strings.Contains(d.Message, "960.00")) {
				t.Errorf("refused: %+v", d)
			}
			if got := f.recorded(o.answer.Check.ID); got == nil || got.Decision != o.answer.Check.Decision {
				t.Errorf("answered %s, recorded %+v", o, got)
			}
		}
		for _, agent := range []string{`["agent-0"]`, `["agent-1"]`} {
			if got := f.used(t, "b", "daily", agent); got != "960 16" {
				t.Errorf("%s used %s", agent, got)
			}
		}
		// All or none: what one budget refuses is not counted by the other.
		if got := f.used(t, "b", "all", "[]"); got != "0 32" {
			t.Errorf("in all %s", got)
		}
		if got := f.metric("spendgate_budget_refusals_total"); got != 28 {
			t.Errorf("%v refusals are counted", got)
		}
		a := refundOf(t, "40", "exactly")
		a.PolicyID, a.AgentID = "b", "agent-0"
		if o := f.check(1, a); !o.passed() || o.answer.Check.Decision.Effect != spend.Allow {
			t.Errorf("exactly the limit: %s", o)
		}
	})
}

// A check whose commit is lost counts once if it was recorded, and not at all if
// it was not (G12, F3).
func TestBudgetsAfterALostCommit(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "b", budgetRules)
		for _, committed := range []bool{true, false} {
			f.nodes[0].loseAnswer(committed)
			a := under(refundOf(t, "60", fmt.Sprint(committed)), "b")
			a.AgentID = fmt.Sprint("agent-", committed)
			if o := f.check(0, a); o.err != nil || o.answer.Check.Decision.Effect != spend.Allow {
				t.Errorf("%s", o)
			}
			if got := f.used(t, "b", "daily", fmt.Sprintf("[%q]", a.AgentID)); got != "60 1" {
				t.Errorf("committed %t: used %s", committed, got)
			}
		}
	})
}

// A check that budgets may refuse is decided as S35 says: a block by another rule leaves budgets
// alone, an escalation by another rule only reads them.
func TestBudgetsAndOtherRules(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "b", `[
			{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":500}},
			{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":200}},
			{"rule_id":"soft","rule_type":"budget","parameters":{"max_count":3,"window":"lifetime","on_exceed":"escalate"}},
			{"rule_id":"hard","rule_type":"budget","parameters":{"limit":600,"currency":"USD","window":"lifetime"}}]`)
		n := 0
		for _, step := range []struct {
			amount, currency string
			effect           spend.Effect
			rule             string
			used             string
		}{
			{"200", "USD", spend.Allow, "", "200 1"},
			{"501", "USD", spend.Block, "cap", "200 1"},
			{"300", "USD", spend.Escalate, "ask", "200 1"},
			{"401", "USD", spend.Block, "hard", "200 1"}, // an escalation that has no room
			{"10", "EUR", spend.Block, "hard", "200 1"},
			{"100", "USD", spend.Allow, "", "300 2"},
			{"100", "USD", spend.Allow, "", "400 3"},
			{"100", "USD", spend.Escalate, "soft", "400 3"},
			{"200.01", "USD", spend.Block, "hard", "400 3"},
			{"199", "USD", spend.Escalate, "soft", "400 3"},
		} {
			n++
			a := refundOf(t, step.amount, fmt.Sprint("c-", n))
			a.PolicyID, a.Currency = "b", step.currency
			o := f.check(0, a)
			if o.err != nil || o.answer.Check.Decision.Effect != step.effect || o.answer.Check.Decision.RuleID != step.rule {
				t.Errorf("step %d: %s", n, o)
			}
			if got := f.used(t, "b", "hard", "[]"); got != step.used {
				t.Errorf("step %d: used %s, want %s", n, got, step.used)
			}
		}
		simulated, _, err := f.nodes[0].Simulate(t.Context(), hotpath.Request{Caller: f.key, Started: time.Now()}, "b",
			[]*spend.Action{new(refundOf(t, "200.01", "s-1")), new(refundOf(t, "100", "s-2"))})
		if err != nil || simulated[0].Decision.Reason != spend.ReasonBudgetExceeded || simulated[1].Decision.RuleID != "soft" {
			t.Errorf("simulated %+v, %v", simulated, err)
		}
		// A stranger's simulation finds budgets unused.
		simulated, _, err = f.nodes[0].Simulate(t.Context(), hotpath.Request{Caller: hotpath.DemoCaller("192.0.2.1"), Started: time.Now()}, "b",
			[]*spend.Action{new(refundOf(t, "200", "s-3"))})
		if err != nil || simulated[0].Decision.Effect != spend.Allow {
			t.Errorf("simulated %+v, %v", simulated, err)
		}
	})
}

// S14: of several budgets without room the first in the policy's order is reported,
// also by a node that remembers another as exhausted.
func TestFirstBudgetWithoutRoom(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "b", `[
			{"rule_id":"first","rule_type":"budget","parameters":{"limit":100,"currency":"USD","window":"lifetime"}},
			{"rule_id":"second","rule_type":"budget","parameters":{"max_count":1,"window":"lifetime"}},
			{"rule_id":"third","rule_type":"budget","parameters":{"limit":90,"currency":"USD","window":"lifetime"}}]`)
		for n, step := range []struct{ amount, rule string }{
			{"50", ""}, {"51", "first"}, {"45", "second"}, {"52", "first"}, {"50", "second"},
		} {
			o := f.check(0, under(refundOf(t, step.amount, fmt.Sprint("c-", n)), "b"))
			if o.err != nil || o.answer.Check.Decision.RuleID != step.rule {
				t.Errorf("%s after %d checks: %s, want rule %q", step.amount, n, o, step.rule)
			}
		}
	})
}

// S37: a budget keeps its usage when its limit changes, but not when its window does.
func TestBudgetsOverVersions(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		rules := func(parameters string) string {
			return `[{"rule_id":"daily","rule_type":"budget","parameters":` + parameters + `}]`
		}
		n := 0
		spendOf := func(amount string, want spend.Effect) {
			t.Helper()
			n++
			a := refundOf(t, amount, fmt.Sprint("c-", n))
			a.PolicyID = "b"
			if o := f.check(n%2, a); o.err != nil || o.answer.Check.Decision.Effect != want {
				t.Errorf("%s", o)
			}
		}
		f.post(0, "b", rules(`{"limit":100,"currency":"usd","window":"lifetime"}`))
		spendOf("90", spend.Allow)
		spendOf("20", spend.Block)
		f.post(0, "b", rules(`{"limit":110,"currency":"USD","window":"lifetime","per":[],"time_zone":"Etc/UTC"}`))
		spendOf("20", spend.Allow)
		spendOf("1", spend.Block)
		f.post(1, "b", rules(`{"limit":110,"currency":"USD","window":"year"}`), "daily")
		spendOf("100", spend.Allow)
		f.post(0, "b", rules(`{"limit":110,"currency":"USD","window":"year","time_zone":"Etc/UCT"}`))
		spendOf("10", spend.Allow)
		spendOf("1", spend.Block)
		f.post(0, "b", rules(`{"limit":110,"currency":"USD","window":"lifetime"}`), "daily")
		spendOf("110", spend.Allow)
		spendOf("1", spend.Block)
	})
}

// S63: a version that would empty budgets is refused, and tells of their counters what
// the caller may read.
func TestBudgetsInUse(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "b", budgetRules)
		for i := range 12 {
			a := refundOf(t, "0.5", fmt.Sprint("c-", i))
			a.PolicyID, a.AgentID = "b", fmt.Sprintf("agent-%02d", i)
			if o := f.check(i%2, a); !o.passed() {
				t.Fatal(o)
			}
		}
		refused := func(access hotpath.Access, rules string, drop []string, want string) {
			t.Helper()
			p := &audit.Policy{PolicyID: "b", Name: "b", Rules: rules}
			err := f.nodes[1].CreatePolicy(t.Context(), access, audit.Actor{}, hotpath.NewVersion{Policy: p, Drop: drop})
			if err == nil || err.Error() != want {
				t.Errorf("dropping %q: got  %v\nwant %s", drop, err, want)
			}
		}
		key := func(g spend.Grants) hotpath.Access { return hotpath.AccessOf(&audit.Key{Grants: g}) }
		const begins = "this version would empty budgets that are in use; list them in drop_budgets if that is meant: "
		var nine, ten []string
		for i := range 10 {
			ten = append(ten, fmt.Sprintf(`0.50 USD and count 1 of agent_id "agent-%02d"`, i))
		}
		nine = ten[:9]
		other := `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":5}}]`
		daily := strings.Replace(budgetRules, `"daily"`, `"Daily"`, 1)
		refused(hotpath.Access{}, other, nil, begins+`rule "all": count 12; rule "daily": `+strings.Join(nine, ", ")+", and 3 more")
		refused(hotpath.Access{}, daily, nil, begins+`rule "daily": `+strings.Join(ten, ", ")+", and 2 more")
		refused(key(spend.Grants{AgentIDs: []string{"agent-11", "agent-03"}}), daily, nil,
			begins+`rule "daily": 0.50 USD and count 1 of agent_id "agent-03", 0.50 USD and count 1 of agent_id "agent-11", and 10 more`)
		refused(key(spend.Grants{Scopes: spend.PoliciesWrite}), other, []string{"daily"}, begins+`rule "all": counters in use: 1`)
		refused(hotpath.Access{}, daily, []string{"all", "daily"}, "drop_budgets[0] is no budget of the version before that ends with this one")
		f.post(0, "b", daily, "daily")
		refused(hotpath.Access{}, other, nil, begins+`rule "all": count 12`)
	})
}

// A listing has the counters of the newest version, and what each key may see.
func TestBudgetListing(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "b", budgetRules)
		for i := range 5 {
			a := refundOf(t, "60", fmt.Sprint("c-", i))
			a.PolicyID, a.AgentID = "b", fmt.Sprint("agent-", i%3)
			if o := f.check(0, a); !o.passed() {
				t.Fatal(o)
			}
		}
		list := func(access hotpath.Access, q hotpath.BudgetQuery) (rows []string) {
			t.Helper()
			q.PolicyID, q.Limit = "b", 2
			for {
				page, err := f.nodes[0].Budgets(t.Context(), access, q)
				if err != nil || time.Since(page.AsOf).Abs() > time.Minute || len(page.Counters) > 2 {
					t.Fatal(page, err)
				}
				for _, c := range page.Counters {
					rows = append(rows, fmt.Sprint(c.RuleID, valuesOf(c), c.Used, c.Count))
					q.After = hotpath.BudgetPosition{RuleID: c.RuleID, Subject: c.Subject}
				}
				if !page.More {
					return rows
				}
			}
		}
		all := []string{"all[] 0 5", "daily[agent-0] 120 2", "daily[agent-1] 120 2", "daily[agent-2] 60 1"}
		if got := list(hotpath.Access{}, hotpath.BudgetQuery{}); !slices.Equal(got, all) {
			t.Errorf("got %v", got)
		}
		if got := list(hotpath.Access{}, hotpath.BudgetQuery{AgentID: "agent-2"}); !slices.Equal(got, []string{all[0], all[3]}) {
			t.Errorf("of an agent: %v", got)
		}
		if got := list(hotpath.Access{}, hotpath.BudgetQuery{AgentID: "agent-2", Counterparty: "c-2", RuleID: "daily"}); got != nil {
			t.Errorf("of no budget per counterparty: %v", got)
		}
		bound := hotpath.AccessOf(&audit.Key{Grants: spend.Grants{AgentIDs: []string{"agent-1"}}})
		if got := list(bound, hotpath.BudgetQuery{RuleID: "daily"}); !slices.Equal(got, all[2:3]) {
			t.Errorf("bound to an agent: %v", got)
		}
		stranger := hotpath.AccessOf(&audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Agent}})
		if got := list(stranger, hotpath.BudgetQuery{}); got != nil {
			t.Errorf("of another principal: %v", got)
		}
		// A simulation tells no more.
		own := hotpath.AccessOf(&audit.Key{Grants: spend.Grants{Role: spend.Agent, Principal: f.keyID.Text(spend.PrefixKey)}})
		for access, want := range map[hotpath.Access]spend.Effect{{}: spend.Block, own: spend.Block, stranger: spend.Allow} {
			a := refundOf(t, "990", "c-9")
			a.PolicyID, a.AgentID = "b", "agent-0"
			simulated, _, err := f.nodes[0].Simulate(t.Context(), hotpath.Request{Caller: f.key, Access: access, Started: time.Now()}, "b",
				[]*spend.Action{&a})
			if err != nil || simulated[0].Decision.Effect != want {
				t.Errorf("simulated %+v, %v; want %v", simulated[0].Decision, err, want)
			}
		}
	})
}

// A budget that an agent has not used yet is listed for an agent who is named (S64).
func TestUntouchedBudgets(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		const per = `[{"rule_id":"all","rule_type":"budget","parameters":{"max_count":4,"window":"day"}},
			{"rule_id":"both","rule_type":"budget","parameters":{"max_count":3,"per":["agent_id","counterparty"],"window":"lifetime"}},
			{"rule_id":"key","rule_type":"budget","parameters":{"max_count":2,"per":["agent_id","api_key"],"rolling_minutes":60}},
			{"rule_id":"own","rule_type":"budget","parameters":{"limit":1000,"currency":"USD","per":["agent_id"],"rolling_minutes":60}},
			{"rule_id":"to","rule_type":"budget","parameters":{"max_count":9,"per":["counterparty"],"window":"hour"}}]`
		f.post(0, "b", per)
		list := func(access hotpath.Access, q hotpath.BudgetQuery, want ...string) {
			t.Helper()
			var rows []string
			for q.PolicyID, q.Limit = "b", 1; ; {
				page := must.Get(f.nodes[0].Budgets(t.Context(), access, q))(t)
				for _, c := range page.Counters {
					rows = append(rows, fmt.Sprint(c.RuleID, valuesOf(c), c.Count))
					q.After = hotpath.BudgetPosition{RuleID: c.RuleID, Subject: c.Subject}
					if c.ResetsAt.IsZero() != (c.RuleID == "both" || c.RuleID == "own" && c.Count == 0) || c.WindowStart.IsZero() {
						t.Errorf("%s resets at %v, began at %v", c.RuleID, c.ResetsAt, c.WindowStart)
					}
				}
				if !page.More {
					break
				}
			}
			if !slices.Equal(rows, want) {
				t.Errorf("%+v: got %q, want %q", q, rows, want)
			}
		}
		a, both := hotpath.BudgetQuery{AgentID: "a"}, hotpath.BudgetQuery{AgentID: "a", Counterparty: "c"}
		bound := hotpath.AccessOf(&audit.Key{Grants: spend.Grants{AgentIDs: []string{"a", "b"}}})
		elsewhere := hotpath.AccessOf(&audit.Key{Grants: spend.Grants{AgentIDs: []string{"b"}}})
		agent := hotpath.AccessOf(&audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Agent}})
		list(hotpath.Access{}, hotpath.BudgetQuery{})
		list(hotpath.Access{}, hotpath.BudgetQuery{Counterparty: "c"})
		for _, access := range []hotpath.Access{{}, bound, agent} {
			list(access, a, "all[] 0", "own[a] 0")
			list(access, both, "all[] 0", "both[a c] 0")
		}
		list(elsewhere, a)
		began := time.Now()
		action := refundOf(t, "60", "c")
		action.PolicyID, action.AgentID = "b", "a"
		if o := f.check(0, action); !o.passed() {
			t.Fatal(o)
		}
		key := f.recorded(f.check(0, action).answer.Check.ID).KeyID
		list(bound, a, "all[] 1", "both[a c] 1", "key[a "+key+"] 1", "own[a] 1")
		list(agent, a) // of others
		list(agent, hotpath.BudgetQuery{AgentID: "b"}, "own[b] 0")

		// Windows that held a time, as far as their counters are there and the budget counted.
		at := func(q hotpath.BudgetQuery, t time.Time) hotpath.BudgetQuery { q.At = t; return q }
		list(bound, at(a, time.Now()), "all[] 1", "both[a c] 1", "key[a "+key+"] 1", "own[a] 1")
		list(bound, at(a, began.Add(-2*time.Hour*24)))
		list(bound, at(a, began.Add(72*time.Hour)), "all[] 0", "both[a c] 1", "own[a] 0")
		list(bound, at(hotpath.BudgetQuery{}, began.Add(72*time.Hour)), "both[a c] 1")
	})
}

func valuesOf(c hotpath.BudgetCounter) (values []string) {
	for _, value := range c.Values {
		values = append(values, policy.TextOf(value))
	}
	return values
}
