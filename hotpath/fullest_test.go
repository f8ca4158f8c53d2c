package hotpath_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// fills returns what a node knows of how full budgets are.
func (f *fleet) fills(node int) string {
	f.t.Helper()
	fills := must.Get(f.nodes[node].FullestBudgets(f.t.Context()))(f.t)
	var texts []string
	for _, b := range fills {
		texts = append(texts, fmt.Sprintf("%s %s %.3g", b.PolicyID, b.RuleID, b.Share))
	}
	slices.Sort(texts)
	return fmt.Sprint(texts)
}

// The gauge of how full budgets are follows the store's counters, by the newest version, including
// what other nodes take and what is given back.
func TestHowFullBudgetsAre(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "b", budgetRules)
		spent := func(node int, agent, amount string) outcome {
			a := under(refundOf(t, amount, fmt.Sprint(agent, amount, node)), "b")
			a.AgentID = agent
			return f.check(node, a)
		}
		says := func(node int, want string) {
			t.Helper()
			if got := f.fills(node); got != want {
				t.Errorf("node %d says %s, not %s", node, got, want)
			}
		}
		says(0, "[]")
		f.check(0, refundOf(t, "5", "no-budget"))
		says(0, "[]")
		spent(0, "a", "100")
		big := spent(0, "b", "400")
		says(0, "[b all 0.05 b daily 0.4]")
		says(1, "[]")
		spent(1, "a", "500") // the node that looks knows the counter
		says(0, "[b all 0.075 b daily 0.6]")
		if o := spent(1, "b", "700"); o.answer.Check.Decision.Effect != spend.Block {
			t.Errorf("allowed: %s", o)
		}
		says(1, "[b all 0.075 b daily 0.6]")
		if _, _, err := f.report(0, big, spend.Executor, spend.Voided); err != nil {
			t.Fatal(err)
		}
		says(0, "[b all 0.05 b daily 0.6]")
		f.post(0, "b", `[{"rule_id":"daily","rule_type":"budget",
			"parameters":{"limit":500,"currency":"USD","per":["agent_id"],"window":"lifetime"}}]`, "all")
		f.check(0, refundOf(t, "6", "no-budget")) // by which the node sees the version
		says(0, "[b daily 1.2]")
		f.post(0, "b", `[{"rule_id":"daily","rule_type":"budget",
			"parameters":{"max_count":4,"per":["agent_id","counterparty"],"window":"lifetime"}}]`, "daily")
		f.check(0, refundOf(t, "7", "no-budget"))
		says(0, "[]")
		spent(0, "b", "1")
		says(0, "[b daily 0.25]")

		f.post(0, "c", budgetRules)
		f.check(0, under(refundOf(t, "100", "of-another"), "c"))
		says(0, "[b daily 0.25 c all 0.025 c daily 0.1]")
		newer := &audit.Policy{PolicyID: "b", Name: "b", Rules: `[{"rule_id":"a","rule_type":"of a newer release","parameters":{}}]`}
		must.Do(t, f.store.CreatePolicy(t.Context(), audit.Actor{}, newer, audit.NewBudgets{Drop: []string{"daily"}}, time.Now()))
		f.post(0, "d", budgetRules) // by which nodes read versions again
		f.check(0, refundOf(t, "8", "no-budget"))
		says(0, "[c all 0.025 c daily 0.1]")
	})
}

// The fullest counter of a budget is kept, however many others are met.
func TestTheFullestIsKept(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "b", `[{"rule_id":"each","rule_type":"budget",
			"parameters":{"limit":100,"currency":"USD","per":["counterparty"],"window":"lifetime"}}]`)
		pay := func(amount, counterparty string) { f.check(0, under(refundOf(t, amount, counterparty), "b")) }
		pay("90", "full")
		for round := range 3 {
			if got := f.fills(0); got != "[b each 0.9]" {
				t.Fatalf("round %d: %s", round, got)
			}
			for i := range 80 {
				pay("1", fmt.Sprint("c-", round, "-", i))
			}
		}
		for i := range 40 {
			pay("50", fmt.Sprint("noted-", i)) // no place for allowed ones is left
		}
		pay("95", "late")
		pay("95.5", "late") // refused
		if got := f.fills(0); got != "[b each 0.95]" {
			t.Errorf("who was refused is not known: %s", got)
		}
	})
}
