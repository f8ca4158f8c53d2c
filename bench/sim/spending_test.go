package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"spendgate/audit/spend"
)

// budgeted is the policy with budgets.
const budgeted = "budgeted"

// otherRules returns the rules of a new version beside the guard, after a comma.
// Their limits are small, and each version has others.
func (f *simulation) otherRules(policyID string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edits[policyID]++
	n := f.edits[policyID]
	switch policyID {
	case asking:
		approval := `"required":2`
		if n%5 == 4 {
			approval = `"from":[{"group":"support"},{"any_of":["finance","legal"]}]`
		}
		return fmt.Sprintf(`,
			{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":%d,"approval":{%s,"use_within_minutes":1}}},
			{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":%d}},
			{"rule_id":"soft","rule_type":"budget","parameters":{"limit":%d,"currency":"USD",`+
			`"window":"lifetime","on_exceed":"escalate","approval":{}}}`,
			20+5*(n%3/2), approval, 60-25*(n%4/3), 80+20*(n%2))
	case budgeted:
	default:
		return ""
	}
	return fmt.Sprintf(`,
		{"rule_id":"each","rule_type":"budget","parameters":{"limit":%d,"currency":"USD","per":["agent_id"],"window":"lifetime"}},
		{"rule_id":"all","rule_type":"budget","parameters":{"max_count":%d,"window":"lifetime"}},
		{"rule_id":"rolling","rule_type":"budget","parameters":{"limit":%d,"currency":"USD","rolling_minutes":1,"on_exceed":"escalate"}}`,
		60+10*(n%3), 8+n%4, 45+15*(n%2))
}

// purchases sends some checks that take from budgets at the same moment, most of them to one node,
// so that they share a batch.
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

// budget is a rule of a policy's version, as the judge reads it; most are budgets.
type budget struct {
	RuleID     string `json:"rule_id"`
	RuleType   string `json:"rule_type"`
	Parameters struct {
		Limit    json.Number `json:"limit"`
		MaxCount int64       `json:"max_count"`
		Per      []string    `json:"per"`
		Rolling  int64       `json:"rolling_minutes"`
		Above    json.Number `json:"amount_above"`
	} `json:"parameters"`
}

// taken is what a recorded check took from a budget, or how an outcome changed that.
type taken struct {
	rule, subject string
	bucket        int64       // of a rolling window, seconds
	amount        spend.Total // taken, or moved beyond that
	back          spend.Total
	count         int64
	at            time.Time // of the commit
}

// of returns what a check takes from the budget.
func (b *budget) of(c *spend.Check) taken {
	t := taken{rule: c.Action.PolicyID + " " + b.RuleID, subject: "[]", count: 1}
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

// corrected returns how an outcome changes the amounts that its check took, relative to the outcome
// before it (S40, S61).
func (t taken) corrected(o, before *spend.Outcome) taken {
	after, gone := t.after(o), t.after(before)
	t.amount, t.back, t.count = after.amount.Plus(gone.back), after.back.Plus(gone.amount), after.count-gone.count
	return t
}

// after returns what a check has taken after an outcome.
func (t taken) after(o *spend.Outcome) taken {
	took := t.amount
	t.amount, t.count = spend.Total{}, 0
	switch {
	case o == nil || o.Principal == string(spend.Agent):
	case o.Status != spend.Executed:
		t.back, t.count = took, -1
	case took.IsZero(): // of a budget of actions
	case o.Amount.Total().Cmp(took) > 0:
		t.amount, _ = o.Amount.Total().Minus(took)
	default:
		t.back, _ = took.Minus(o.Amount.Total())
	}
	return t
}

// changedBy returns how an outcome changes the amounts that its check took.
func changedBy(e event, by map[spend.ID][]taken, last map[spend.ID]*spend.Outcome) (changes []taken) {
	for _, t := range by[e.outcome.CheckID] {
		t = t.corrected(e.outcome, last[e.outcome.CheckID])
		t.at = e.at
		changes = append(changes, t)
	}
	return changes
}

// changedWith returns how the outcomes in the commit of the first event change what checks took: a check of that commit
// may take what they give back.
func changedWith(events []event, by map[spend.ID][]taken, last map[spend.ID]*spend.Outcome) (changes []taken) {
	for _, e := range events {
		if !e.at.Equal(events[0].at) {
			break
		}
		if e.outcome != nil && e.outcome.Status.Known() {
			changes = append(changes, changedBy(e, by, last)...)
		}
	}
	return changes
}

// usage adds up what counts for a check that takes.
func (t taken) usage(all []taken) (u spend.Usage) {
	for _, other := range all {
		if other.rule == t.rule && other.subject == t.subject && other.bucket >= t.bucket-spend.RollingBuckets {
			u = other.addTo(u)
		}
	}
	return u
}

func (t taken) addTo(u spend.Usage) spend.Usage {
	used, _ := u.Used.Plus(t.amount).Minus(t.back)
	return spend.Usage{Used: used, Count: u.Count + t.count}
}

// limits returns the limits with what grants add.
func (b *budget) limits(granted spend.Usage) spend.Usage {
	limit, _ := spend.ParseTotal(b.Parameters.Limit.String())
	return spend.Usage{Used: limit.Plus(granted.Used), Count: b.Parameters.MaxCount + granted.Count}
}

// fits reports whether there is room for one more check.
func (b *budget) fits(u, granted spend.Usage, amount spend.Total) bool {
	limits := b.limits(granted)
	if b.Parameters.Limit != "" {
		return u.Used.Plus(amount).Cmp(limits.Used) <= 0
	}
	return u.Count < limits.Count
}

// told is what a message says about a usage.
func (b *budget) told(u, granted spend.Usage) string {
	limits := b.limits(granted)
	if b.Parameters.Limit != "" {
		return fmt.Sprintf(": %s of %s are used", u.Used.Money("USD"), limits.Used.Money("USD"))
	}
	return fmt.Sprintf(": %d of %d actions are used", u.Count, limits.Count)
}

// judgeBudgets checks G12 from the rules and the rows, in the order of their commits: no allow
// exceeds the limits of its version, with the grants in force (S91), unless an approval lifted them; the message of an exceeded
// budget was true at some moment between the check's beginning and its record; and the counters are
// the sums of the rows, less what outcomes gave back.
func (f *simulation) judgeBudgets(fail func(string, ...any)) {
	var all []taken
	by := make(map[spend.ID][]taken) // what each check took
	last := make(map[spend.ID]*spend.Outcome)
	grants := f.record.book()
	f.judgeGrants(fail, grants)
	for place, e := range f.record.events {
		if o := e.outcome; o != nil && o.Status.Known() {
			all = append(all, changedBy(e, by, last)...)
			last[o.CheckID] = o
		}
		c := e.check
		if c == nil || c.Decision.Reason == spend.ReasonDuplicate {
			continue
		}
		rules, lifted := f.rules(c.Action.PolicyID, c.Decision.PolicyVersion), f.liftedBy(c)
		f.judgeRules(fail, c, rules, lifted)
		before := len(all)
		for i := range rules {
			b := &rules[i]
			if b.RuleType != "budget" {
				continue
			}
			t := b.of(c)
			t.at = e.at
			exceeded := c.Decision.RuleID == b.RuleID
			granted := grants.granted(t, c.ID.Time(), place)
			switch u := t.usage(all[:before]); {
			case c.Decision.Effect == spend.Allow && !b.fits(u, granted, t.amount) && !lifted[b.RuleID] &&
				!b.fits(t.usage(append(slices.Clip(all[:before]), changedWith(f.record.events[place:], by, last)...)), granted, t.amount):
				fail("G12: %s of %s was allowed beside %s of %d: %s", c.ID.Text("chk_"), t.amount, u.Used, u.Count, b.told(u, granted))
			case exceeded && !b.wasExceeded(t, c, all[:before], grants.mayBeGranted(f.record.events, t, c.ID.Time(), place)):
				fail("G12: %s was told what was true at no moment of its request: %s", c.ID.Text("chk_"), c.Decision.Message)
			}
			if c.Decision.Effect == spend.Allow {
				all, by[c.ID] = append(all, t), append(by[c.ID], t)
			}
		}
	}
	f.judgeCounters(fail, all)
}

// rules returns the rules of a policy's version.
func (f *simulation) rules(policyID string, version int) (rules []budget) {
	if err := json.Unmarshal([]byte(f.record.rules[policyID][version-1]), &rules); err != nil {
		panic("BUG: the rules of a policy are no JSON: " + err.Error())
	}
	return rules
}

// liftedBy returns the rules whose escalation people approved for the check: those
// that escalated the check that asked, if they are the same in both versions.
func (f *simulation) liftedBy(c *spend.Check) map[string]bool {
	lifted := make(map[string]bool)
	asked := f.record.byID[c.Action.ApprovalID]
	if asked == nil {
		return lifted
	}
	at := func(c *spend.Check, id string) string {
		for _, b := range f.rules(c.Action.PolicyID, c.Decision.PolicyVersion) {
			if b.RuleID == id {
				return fmt.Sprint(b.Parameters)
			}
		}
		return ""
	}
	for _, r := range asked.Approval.Rules {
		lifted[r.RuleID] = at(asked, r.RuleID) == at(c, r.RuleID)
	}
	return lifted
}

// judgeRules checks that no rule other than a budget forbids what is allowed (G4, G13).
func (f *simulation) judgeRules(fail func(string, ...any), c *spend.Check, rules []budget, lifted map[string]bool) {
	over := func(limit json.Number) bool {
		total, err := spend.ParseTotal(limit.String())
		return err == nil && c.Action.Amount.Total().Cmp(total) > 0
	}
	for _, r := range rules {
		forbids := r.RuleType == "max_amount" && over(r.Parameters.Limit) ||
			r.RuleType == "escalate_if" && over(r.Parameters.Above) && !lifted[r.RuleID]
		if forbids && c.Decision.Effect == spend.Allow {
			fail("G13: %s of %s was allowed against %q of version %d", c.ID.Text("chk_"), c.Action.Amount.Total(), r.RuleID,
				c.Decision.PolicyVersion)
		}
	}
}

// wasExceeded reports whether at some moment from the check's beginning to its record there was no
// room, with the usage and the limit that its message names.
func (b *budget) wasExceeded(t taken, c *spend.Check, all []taken, granted []spend.Usage) bool {
	for n := len(all); n >= 0; n-- {
		u := t.usage(all[:n])
		if slices.ContainsFunc(granted, func(g spend.Usage) bool {
			return !b.fits(u, g, t.amount) && strings.Contains(c.Decision.Message, b.told(u, g))
		}) {
			return true
		}
		if n > 0 && all[n-1].at.Before(c.ID.Time()) {
			return false
		}
	}
	return false
}

// judgeCounters compares the store's counters with the amounts taken.
func (f *simulation) judgeCounters(fail func(string, ...any), all []taken) {
	want := make(map[string]spend.Usage)
	for _, t := range all {
		name := fmt.Sprint(t.rule, t.subject, t.bucket)
		want[name] = t.addTo(want[name])
	}
	for name, u := range f.record.counters {
		if u != want[name] {
			fail("G12: the counter %s has %s of %d, the checks took %s of %d", name, u.Used, u.Count, want[name].Used, want[name].Count)
		}
		delete(want, name)
	}
	for name := range want {
		fail("G12: the counter %s is not there", name)
	}
}
