package hotpath_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
	"spendgate/hotpath/backtest/job"
)

// Rules that each depend on earlier checks: passes, counters, approvals.
const (
	mindfulRules = `[
		{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":400}},
		{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":200,"approval":{"required":2}}},
		{"rule_id":"each","rule_type":"budget","parameters":{"limit":900,"currency":"USD","window":"lifetime","per":["agent_id"]}},
		{"rule_id":"soft","rule_type":"budget","parameters":
			{"limit":1200,"currency":"USD","window":"lifetime","on_exceed":"escalate","approval":{}}},
		{"rule_id":"many","rule_type":"budget","parameters":{"max_count":35,"rolling_minutes":60,"on_exceed":"escalate"}},
		{"rule_id":"guard","rule_type":"duplicate_guard","parameters":{"window_minutes":10,"after_block":"judge_again"}}]`
	foreignRules = `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":300,"approval":{}}}]`
)

// otherRules makes the next version: approvals that were asked for lift nothing there, and one budget counts anew.
var otherRules = strings.NewReplacer(`"amount_above":200`, `"amount_above":150`, `"rolling_minutes":60`, `"rolling_minutes":30`)

// history is what clients did, by a seed.
type history struct {
	*fleet
	rng     *rand.Rand
	actions []spend.Action
	allowed []outcome
	asks    []outcome
	reports map[spend.ID]int
	atOnce  int
	payer   payer
	granter person
	grants  []*hotpath.GrantView
}

// S53: over its own period a version gives no flip, whatever was asked, approved, denied, used, given back,
// corrected and lost, one after the other and at once. One after the other nothing is skipped, either.
func TestBacktestOfItself(t *testing.T) {
	for name, atOnce := range map[string]int{"one after the other": 1, "at once": 4} {
		t.Run(name, func(t *testing.T) {
			eachBackend(t, 2, func(t *testing.T, f *fleet) {
				seed := uint64(time.Now().UnixNano())
				h := history{fleet: f, rng: rand.New(rand.NewPCG(seed, 0)), reports: make(map[spend.ID]int), atOnce: atOnce}
				f.post(0, "q", foreignRules)
				var periods []*audit.Backtest
				for _, rules := range []string{mindfulRules, otherRules.Replace(mindfulRules)} {
					version := f.post(0, "p", rules, strings.Fields(map[bool]string{true: "many"}[periods != nil])...)
					b := &audit.Backtest{PolicyID: "p", Version: version, From: time.Now()}
					for range 100 {
						h.step()
					}
					b.To = time.Now()
					time.Sleep(2 * time.Millisecond) // a period is of whole milliseconds
					periods = append(periods, b)
				}
				for i := range 2 * len(periods) {
					b := *periods[i/2]
					b.Recorded = i%2 == 1
					ended := f.backtest(&b)
					var r struct {
						Coverage struct{ Checks, Compared int }
						Flips    struct{ Total int }
					}
					if err := json.Unmarshal([]byte(ended.Report), &r); err != nil {
						t.Fatal(err, ended.Error)
					}
					if c := r.Coverage; r.Flips.Total > 0 || c.Checks < 15 || 2*c.Compared < c.Checks || atOnce == 1 && c.Compared < c.Checks {
						flips, _, err := f.store.BacktestFlips(t.Context(), ended.ID, 0, 9)
						t.Errorf("seed %d, version %d, recorded %t: %s %s %v", seed, b.Version, b.Recorded, ended.Report, flips, err)
					}
				}
			})
		})
	}
}

// step does one thing of many.
func (h *history) step() {
	switch pick := h.rng.IntN(26); {
	case pick == 25:
		h.raise()
	case pick >= 20:
		h.pay()
	case pick < 8:
		a := refundOf(h.t, fmt.Sprint(1+h.rng.IntN(420)), fmt.Sprint("c-", len(h.actions)))
		if a.AgentID = fmt.Sprint("agent-", h.rng.IntN(3)); h.rng.IntN(6) == 0 {
			a.PolicyID = "q"
		}
		h.actions = append(h.actions, a)
		h.send(a)
	case pick < 12 && len(h.actions) > 0: // again, perhaps by the other policy
		a := h.actions[h.rng.IntN(len(h.actions))]
		if h.rng.IntN(5) == 0 {
			a.PolicyID = []string{"p", "q"}[h.rng.IntN(2)]
		}
		if h.rng.IntN(8) == 0 {
			h.nodes[h.rng.IntN(2)].loseAnswer(h.rng.IntN(2) == 0)
		}
		h.send(a)
	case pick < 16 && len(h.asks) > 0:
		h.decideAndUse(h.asks[h.rng.IntN(len(h.asks))])
	case pick < 20 && len(h.allowed) > 0:
		h.tell(h.allowed[h.rng.IntN(len(h.allowed))])
	}
}

// raise grants more to an agent for a while, or revokes a grant.
func (h *history) raise() {
	if h.granter.fleet == nil {
		h.granter = h.person("granter")
	}
	if n := len(h.grants); n > 0 && h.rng.IntN(3) == 0 {
		g := h.grants[n-1]
		h.grants = h.grants[:n-1]
		_, _, err := h.nodes[h.rng.IntN(2)].RevokeGrant(context.Background(), h.granter.access, audit.Actor{}, g.ID, "")
		if err != nil && !errors.Is(err, hotpath.ErrGrantNotActive) {
			h.t.Fatal(err)
		}
		return
	}
	asked := h.grantAsked("p", fmt.Sprint(1+h.rng.IntN(300)), fmt.Sprint("agent-", h.rng.IntN(3)))
	asked.RuleID, asked.Until = "each", time.Now().Add(time.Duration(50+h.rng.IntN(5000))*time.Millisecond)
	h.grants = append(h.grants, h.granter.grant(h.rng.IntN(2), asked))
}

// S91: a candidate's budget that goes on has the grants of the time of each check; one that is another counter has none.
func TestBacktestOfGrants(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		b := audit.Backtest{PolicyID: "g", Version: f.post(0, "g", grantRules), From: time.Now()}
		p := f.person("ann")
		send := func(amount, counterparty string, allowed bool) {
			t.Helper()
			if o := f.check(0, f.spending("g", amount, "a1", counterparty)); o.err != nil || o.allowed() != allowed {
				t.Fatal(o)
			}
		}
		send("100", "one", true)
		send("1", "two", false)
		g := p.grant(0, f.grantAsked("g", "50", "a1"))
		send("50", "three", true)
		if _, _, err := f.nodes[0].RevokeGrant(t.Context(), p.access, audit.Actor{}, g.ID, ""); err != nil {
			t.Fatal(err)
		}
		send("1", "four", false)
		b.To = time.Now()
		time.Sleep(2 * time.Millisecond) // a period is of whole milliseconds
		for rules, flips := range map[string]int{"": 0, strings.Replace(grantRules, `"day"`, `"lifetime"`, 1): 1} {
			of := b
			if of.Rules = rules; rules != "" {
				of.Version = 0
			}
			ended := f.backtest(&of)
			var r struct {
				Coverage struct{ Compared int }
				Flips    struct{ Total int }
				Budgets  []struct {
					Used struct{ Value, Granted json.Number }
				}
			}
			if err := json.Unmarshal([]byte(ended.Report), &r); err != nil || r.Coverage.Compared != 4 || r.Flips.Total != flips {
				t.Fatalf("%q: %v %s %s", rules, err, ended.Report, ended.Error)
			}
			if used := r.Budgets[0].Used; rules == "" && (used.Value != "150" || used.Granted != "50") || rules != "" && used.Granted != "" {
				t.Errorf("%q: %s", rules, ended.Report)
			}
		}
	})
}

// pay asks for one of a few payments, perhaps for another action than before or by the other policy.
func (h *history) pay() {
	if h.payer.fleet == nil {
		h.payer = newPayer(h.fleet)
	}
	n := h.rng.IntN(6)
	a := refundOf(h.t, fmt.Sprint(40+h.rng.IntN(3)*180), fmt.Sprint("p-", n))
	a.PolicyID = []string{"p", "p", "q"}[h.rng.IntN(3)]
	asked := hotpath.PaymentRequest{Key: fmt.Sprint("payment ", n), Replace: h.rng.IntN(2) == 0}
	if h.rng.IntN(3) == 0 {
		asked.Nonce = fmt.Sprintf("nonce-%016d", h.rng.IntN(1<<30))
	}
	answer, err := h.payer.pay(h.rng.IntN(2), a, asked)
	if err != nil {
		return
	}
	if answer.Check.Approval != nil {
		h.asks = append(h.asks, outcome{answer: answer})
	}
	if answer.Payment.Proceed && h.rng.IntN(2) == 0 {
		must.Do(h.t, h.payer.ended(answer, spend.Gateway, spend.Failed, 0))
	}
}

// send sends an action, now and then from several sides.
func (h *history) send(a spend.Action) {
	n := 1
	if h.atOnce > 1 {
		n += h.rng.IntN(h.atOnce)
	}
	for _, o := range h.checkAll(repeat(a, n)...) {
		switch {
		case o.err != nil:
		case o.answer.Check.Decision.Effect == spend.Allow:
			h.allowed = append(h.allowed, o)
		case o.answer.Check.Approval != nil:
			h.asks = append(h.asks, o)
		}
	}
}

// decideAndUse has people decide, and uses it, perhaps too early.
func (h *history) decideAndUse(o outcome) {
	approval := must.Get(h.nodes[0].Approval(h.t.Context(), hotpath.Access{}, o.answer.Check.ID))(h.t)
	for _, name := range []string{"ann", "bob"}[:1+h.rng.IntN(2)] {
		_ = h.decide(approval, name, h.rng.IntN(8) > 0) // refused where it is not pending any more
	}
	a := o.answer.Check.Action
	a.ApprovalID = spend.ID{}
	h.send(with(approval, a))
}

// tell reports what became of an allowed check, or corrects it.
func (h *history) tell(o outcome) {
	key := &audit.Key{ID: spend.NewID(time.Now()), Grants: spend.Grants{Role: spend.Executor}}
	less := must.Get(spend.ParseAmount("1"))(h.t)
	r := []hotpath.Report{
		{Status: spend.Executed}, {Status: spend.Executed, Amount: &less}, {Status: spend.Failed}, {Status: spend.Voided},
	}[h.rng.IntN(4)]
	r.Supersedes = h.reports[o.answer.Check.ID]
	if done, _, err := h.reportBy(h.rng.IntN(2), o, key, r); err == nil {
		h.reports[o.answer.Check.ID] = done.Number
	}
}

// backtest runs a backtest.
func (f *fleet) backtest(b *audit.Backtest) *audit.Backtest {
	f.t.Helper()
	b.ID, b.Status, b.CreatedAt = spend.NewID(time.Now()), audit.BacktestQueued, time.Now()
	must.Do(f.t, f.store.CreateBacktest(f.t.Context(), b))
	return f.run(b.ID)
}

// run runs backtests until one has ended.
func (f *fleet) run(id spend.ID) (b *audit.Backtest) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		job.New(job.Options{Store: f.store, Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
	}()
	defer func() { stop(); <-ended }()
	f.eventually("the backtest has ended", func() bool {
		var err error
		b, err = f.store.Backtest(f.t.Context(), id)
		return err == nil && b.Status.Ended()
	})
	return b
}
