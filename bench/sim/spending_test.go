package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"spendgate/hotpath/spend"
)

// budgeted is the policy with budgets.
const budgeted = "budgeted"

// budgets returns the budgets of a new version, after a comma. Their limits are
// small, and each version has others.
func (f *simulation) budgets(policyID string) string {
	if policyID != budgeted {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edits++
	return fmt.Sprintf(`,
		{"rule_id":"each","rule_type":"budget","parameters":{"limit":%d,"currency":"USD","per":["agent_id"],"window":"lifetime"}},
		{"rule_id":"all","rule_type":"budget","parameters":{"max_count":%d,"window":"lifetime"}},
		{"rule_id":"rolling","rule_type":"budget","parameters":{"limit":%d,"currency":"USD","rolling_minutes":1,"on_exceed":"escalate"}}`,
		60+10*(f.edits%3), 8+f.edits%4, 45+15*(f.edits%2))
}

// purchases sends some checks that take from budgets at the same moment, most of
// them to one node, so that they are in one batch.
func (f *simulation) purchases() {
	at := time.Duration(f.rand.Int64N(int64(1500 * time.Millisecond)))
	node := f.rand.IntN(len(f.nodes))
	for range 2 + f.rand.IntN(4) {
		a := f.action()
		a.PolicyID, a.AgentID = budgeted, [...]string{"agent", "another"}[f.rand.IntN(2)]
		a.Counterparty = fmt.Sprint("shop-", f.rand.IntN(1000))
		a.Amount, _ = spend.ParseAmount(fmt.Sprint(5 + 5*f.rand.IntN(4)))
		if a.IdempotencyKey = ""; f.rand.IntN(4) == 0 {
			a.IdempotencyKey = fmt.Sprint(a.AgentID, f.rand.IntN(2))
			a.Counterparty = a.IdempotencyKey
			a.Amount, _ = spend.ParseAmount("15")
		}
		to := node
		if f.rand.IntN(3) == 0 {
			to = f.rand.IntN(len(f.nodes))
		}
		f.pending.Go(func() {
			time.Sleep(at)
			f.send(to, a)
		})
	}
}

// budget is a rule of a policy's version, as the judge reads it.
type budget struct {
	RuleID     string `json:"rule_id"`
	RuleType   string `json:"rule_type"`
	Parameters struct {
		Limit    json.Number `json:"limit"`
		MaxCount int64       `json:"max_count"`
		Per      []string    `json:"per"`
		Rolling  int64       `json:"rolling_minutes"`
	} `json:"parameters"`
}

// taken is what a recorded check took from a budget.
type taken struct {
	rule, subject string
	bucket        int64 // of a rolling window, seconds
	amount        spend.Total
	at            time.Time // of the commit
}

// of returns what a check takes from the budget.
func (b *budget) of(c *spend.Check) taken {
	t := taken{rule: b.RuleID, subject: "[]"}
	if len(b.Parameters.Per) > 0 {
		t.subject = fmt.Sprintf("[%q]", c.Action.AgentID)
	}
	if b.Parameters.Rolling == 1 {
		t.bucket = c.ID.Time().Unix()
	}
	if b.Parameters.Limit != "" {
		t.amount = c.Action.Amount.Total()
	}
	return t
}

// usage adds up what counts for one that takes.
func (t taken) usage(all []taken) (u spend.Usage) {
	for _, other := range all {
		if other.rule == t.rule && other.subject == t.subject && other.bucket >= t.bucket-spend.RollingBuckets {
			u = spend.Usage{Used: u.Used.Plus(other.amount), Count: u.Count + 1}
		}
	}
	return u
}

// fits reports whether there is room for one more.
func (b *budget) fits(u spend.Usage, amount spend.Total) bool {
	if b.Parameters.Limit != "" {
		limit, err := spend.ParseTotal(b.Parameters.Limit.String())
		return err == nil && u.Used.Plus(amount).Cmp(limit) <= 0
	}
	return u.Count < b.Parameters.MaxCount
}

// told is what a message says of a usage.
func (b *budget) told(u spend.Usage) string {
	if b.Parameters.Limit != "" {
		return fmt.Sprintf(": %s USD of %s.00 USD are used", u.Used.AppendMoney(nil), b.Parameters.Limit)
	}
	return fmt.Sprintf(": %d of %d actions are used", u.Count, b.Parameters.MaxCount)
}

// judgeBudgets checks G12 from the rules and the rows, in the order of their
// commits: no allow exceeds the limits of the version that judged it, what is told
// of an exceeded budget was true between the check's beginning and its record, and
// the counters are what the rows add up to.
func (f *simulation) judgeBudgets(fail func(string, ...any), rows []*spend.Check) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	var all []taken
	for _, c := range rows {
		if c.Action.PolicyID != budgeted || c.Decision.Reason == spend.ReasonDuplicate {
			continue
		}
		var rules []budget
		if err := json.Unmarshal([]byte(f.store.policies[budgeted][c.Decision.PolicyVersion-1].Rules), &rules); err != nil {
			fail("the rules of version %d: %v", c.Decision.PolicyVersion, err)
		}
		before := len(all)
		for i := range rules {
			if b := &rules[i]; b.RuleType == "budget" {
				t := b.of(c)
				t.at = f.store.recorded[c.ID]
				exceeded := c.Decision.RuleID == b.RuleID
				switch u := t.usage(all[:before]); {
				case c.Decision.Effect == spend.Allow && !b.fits(u, t.amount):
					fail("G12: %s of %s was allowed beside %s of %d: %s", c.ID.Text("chk_"), t.amount, u.Used, u.Count, b.told(u))
				case exceeded && !b.wasExceeded(t, c, all[:before]):
					fail("G12: %s was told what was true at no moment of its request: %s", c.ID.Text("chk_"), c.Decision.Message)
				}
				if c.Decision.Effect == spend.Allow {
					all = append(all, t)
				}
			}
		}
	}
	f.judgeCounters(fail, all)
}

// wasExceeded reports whether there was no room at some moment from the check's
// beginning to its record, and its message has what was used then.
func (b *budget) wasExceeded(t taken, c *spend.Check, all []taken) bool {
	for n := len(all); n >= 0; n-- {
		if u := t.usage(all[:n]); !b.fits(u, t.amount) && strings.Contains(c.Decision.Message, b.told(u)) {
			return true
		}
		if n > 0 && all[n-1].at.Before(c.ID.Time()) {
			return false
		}
	}
	return false
}

// judgeCounters compares the store's counters with what was taken.
func (f *simulation) judgeCounters(fail func(string, ...any), all []taken) {
	want := make(map[string]spend.Usage)
	for _, t := range all {
		name := fmt.Sprint(t.rule, t.subject, t.bucket)
		u := want[name]
		want[name] = spend.Usage{Used: u.Used.Plus(t.amount), Count: u.Count + 1}
	}
	for key, c := range f.store.counters {
		name := fmt.Sprint(c.change.RuleID, c.change.Subject, key.StartMS/1000)
		if c.Usage != want[name] {
			fail("G12: the counter %s has %s of %d, the checks took %s of %d", name, c.Used, c.Count, want[name].Used, want[name].Count)
		}
		delete(want, name)
	}
	for name := range want {
		fail("G12: the counter %s is not there", name)
	}
}
