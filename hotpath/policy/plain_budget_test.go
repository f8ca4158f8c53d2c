package policy

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"spendgate/audit/spend"
)

// The second evaluator's part for budgets, by what their counters hold and what grants add (S33 to S36, S90, S91).

// plainBudget has the parameters that only budgets have; unused ones are empty.
type plainBudget struct {
	limit, currency, maxCount string
	notifyAt                  []int
	escalates                 bool
}

func (b *plainBudget) members() (members []string) {
	for _, m := range [][2]string{{"limit", b.limit}, {"currency", strconv.Quote(b.currency)}, {"max_count", b.maxCount}} {
		if m[1] != "" && m[1] != `""` {
			members = append(members, `"`+m[0]+`":`+m[1])
		}
	}
	if b.notifyAt != nil {
		var texts []string
		for _, n := range b.notifyAt {
			texts = append(texts, strconv.Itoa(n))
		}
		members = append(members, `"notify_at":[`+strings.Join(texts, ",")+`]`)
	}
	if b.escalates {
		members = append(members, `"on_exceed":"escalate"`)
	}
	return members
}

// plainCounter is what a budget's counter holds, and what grants add to its limits.
type plainCounter struct {
	used, granted       string
	count, grantedCount int64
}

// limits returns the limits with the grants; nil for none.
func (b *plainBudget) limits(c plainCounter) (amount, number *big.Rat) {
	if b.limit != "" {
		amount = new(big.Rat).Add(plainNumber(b.limit), plainNumber(c.granted))
	}
	if b.maxCount != "" {
		number = new(big.Rat).Add(plainNumber(b.maxCount), new(big.Rat).SetInt64(c.grantedCount))
	}
	return amount, number
}

// exceeded returns why an action does not fit; empty if it does.
func (b *plainBudget) exceeded(a *spend.Action, c plainCounter) spend.Reason {
	amount, number := b.limits(c)
	switch {
	case amount != nil && new(big.Rat).Add(plainNumber(c.used), plainNumber(a.Amount.String())).Cmp(amount) > 0:
		return "budget_exceeded"
	case number != nil && new(big.Rat).SetInt64(c.count+1).Cmp(number) > 0:
		return "count_limit_exceeded"
	}
	return ""
}

// reached returns the percentages that a counter has reached.
func (b *plainBudget) reached(c plainCounter) (percentages []int) {
	amount, number := b.limits(c)
	has := func(used, limit *big.Rat, n int) bool {
		part := new(big.Rat).Mul(limit, big.NewRat(int64(n), 100))
		return part.Sign() > 0 && used.Cmp(part) >= 0
	}
	for _, n := range b.notifyAt {
		if amount != nil && has(plainNumber(c.used), amount, n) || number != nil && has(new(big.Rat).SetInt64(c.count), number, n) {
			percentages = append(percentages, n)
		}
	}
	slices.Sort(percentages)
	return percentages
}

// counts reports whether the policy has the budget for an action of that type, in whatever currency.
func (r plainRule) counts(a *spend.Action, t spend.ActionType) bool {
	all, _ := r.when.match(a, t)
	return r.ruleType == "budget" && all && (r.list == nil || slices.Contains(r.list, t.String())) && !r.lacks(a)
}

func (r plainRule) inCurrency(a *spend.Action) bool {
	return r.budget.currency == "" || strings.EqualFold(r.budget.currency, a.Currency)
}

// plainUncovered returns the first budget with a limit if none has one in the action's currency.
func plainUncovered(rules []plainRule, a *spend.Action, t spend.ActionType) (first string) {
	for _, r := range rules {
		switch {
		case !r.counts(a, t) || r.budget.limit == "":
		case r.inCurrency(a):
			return ""
		case first == "":
			first = r.id
		}
	}
	return first
}

// plainBudgets completes what the other rules find.
func plainBudgets(
	rules []plainRule, found plainFinding, a *spend.Action, r spend.Resolution, counters map[string]plainCounter,
) plainFinding {
	if found.effect == spend.Block {
		return found
	}
	if first := plainUncovered(rules, a, r.Type); first != "" {
		f := plainFinding{spend.Block, "currency_not_covered", first, spend.High}
		whatever := slices.ContainsFunc(rules, func(rule plainRule) bool {
			return rule.counts(a, r.Type) && rule.budget.limit != "" && !rule.dependsOnType()
		})
		for _, t := range spend.ActionTypes {
			if !whatever || plainUncovered(rules, a, t) == "" {
				f.confidence = r.Confidence
			}
		}
		return f
	}
	for _, effect := range []spend.Effect{spend.Block, spend.Escalate} {
		for _, rule := range rules {
			if effect == spend.Escalate && found.effect == spend.Escalate && found.rule == rule.id {
				return found
			}
			if !rule.counts(a, r.Type) || !rule.inCurrency(a) || rule.budget.escalates != (effect == spend.Escalate) {
				continue
			}
			if reason := rule.budget.exceeded(a, counters[rule.id]); reason != "" {
				f := plainFinding{effect, reason, rule.id, spend.High}
				if rule.dependsOnType() || slices.Contains(rule.per, "action_type") {
					f.confidence = r.Confidence
				}
				return f
			}
		}
	}
	return found
}

// asked is an action of somebody.
type asked struct {
	action    *spend.Action
	kind      spend.ActionType
	principal string
}

// together reports whether a budget counts two actions in the same counter.
func (r plainRule) together(x, y asked) bool {
	nfc := norm.NFC.String
	for _, path := range r.per {
		var same bool
		switch path {
		case "agent_id":
			same = nfc(x.action.AgentID) == nfc(y.action.AgentID)
		case "counterparty":
			same = nfc(x.action.Counterparty) == nfc(y.action.Counterparty)
		case "api_key":
			same = strings.EqualFold(x.principal, y.principal)
		case "action_type":
			same = x.kind == y.kind
		case "merchant_or_vendor":
			same = nfc(x.action.MerchantOrVendor) == nfc(y.action.MerchantOrVendor)
		case "payment_method":
			same = sameName(x.action.PaymentMethod, y.action.PaymentMethod)
		default:
			name := strings.TrimPrefix(path, "metadata.")
			same = plainEqual(plainMetadata(x.action)[name], plainMetadata(y.action)[name])
		}
		if !same {
			return false
		}
	}
	return true
}

// budgetCases counts what was drawn of budgets.
type budgetCases struct{ charged, raised, reached, together, apart int }

// budgetDiffers judges an action by the budgets with drawn counters and grants, and says how the evaluators differ. former is an
// action that was judged before, with its charges.
func (d drawer) budgetDiffers(
	t *testing.T, p *Program, rules []plainRule, now asked, r spend.Resolution, f Finding, want plainFinding, former *charged, n *budgetCases,
) (Finding, string) {
	t.Helper()
	counters := make(map[string]plainCounter)
	for _, rule := range rules {
		counters[rule.id] = plainCounter{
			d.of("0", "0", "99.99", "100", "400", "500"), d.of("0", "0", "0.01", "400"), d.Int64N(4), max(0, d.Int64N(5)-2),
		}
	}
	want = plainBudgets(rules, want, now.action, r, counters)
	charges := p.Charges(nil, now.action, r, now.principal, noon)
	usages := make(map[int]spend.Usage)
	problem := ""
	for i := range charges {
		c := &charges[i]
		place := slices.IndexFunc(rules, func(rule plainRule) bool { return rule.id == c.RuleID })
		rule, of := rules[place], counters[c.RuleID]
		usages[i] = usage(t, of.used, of.count)
		fitted := c.Fits(usages[i])
		c.Grant(usage(t, of.granted, 0).Used, 0, 1)
		c.Grant(spend.Total{}, of.grantedCount, 2)
		n.charged++
		if !fitted && c.Fits(usages[i]) {
			n.raised++
		}
		got := c.Reached(c.NotifyAt, usages[i])
		if reached := rule.budget.reached(of); got != spend.PercentagesOf(reached) {
			problem = "S90: " + rule.id + " reached " + string(got)
		} else if len(reached) > 0 {
			n.reached++
		}
		for _, before := range former.charges {
			if before.RuleID != c.RuleID {
				continue
			}
			if same := rule.together(former.asked, now); same != (before.Counter.ID == c.Counter.ID) {
				problem = "S90: " + rule.id + " counts " + before.Subject + " and " + c.Subject
			} else if same {
				n.together++
			} else {
				n.apart++
			}
		}
	}
	*former = charged{now, charges}
	if f.Effect < spend.Block {
		if over, is := p.Uncovered(f, now.action, r); is {
			f = over
		} else {
			f = p.Exceeded(f, r, charges, usages)
		}
	}
	e := p.Explain(f, now.action, r)
	if got := (plainFinding{e.Effect, e.Reason, e.RuleID, e.Confidence}); got != want && problem == "" {
		problem = "S35: got " + string(e.Reason) + " by " + e.RuleID + ", want " + string(want.reason) + " by " + want.rule
	}
	return f, problem
}

// charged is an action with its charges.
type charged struct {
	asked   asked
	charges []spend.Charge
}

// budget draws the parameters of a budget.
func (d drawer) budget(r plainRule) plainRule {
	r.text, r.list = d.of(unitNames[:]...), d.maybe([]string{d.of("refund", "spend")})
	b := &plainBudget{escalates: d.IntN(3) == 0}
	if d.IntN(3) > 0 {
		b.limit, b.currency = d.amount(), d.of("USD", "usd", "EUR", "GBP")
	}
	if b.limit == "" || d.IntN(3) == 0 {
		b.maxCount = d.of("0", "1", "2", "3.0")
	}
	for range d.IntN(4) {
		if n := 1 + d.IntN(99); !slices.Contains(b.notifyAt, n) {
			b.notifyAt = append(b.notifyAt, n)
		}
	}
	optional := false
	for range d.IntN(4) {
		path := d.of("agent_id", "counterparty", "api_key", "action_type", "merchant_or_vendor", "payment_method", "metadata.tier", "metadata.n")
		if !slices.Contains(r.per, path) {
			r.per = append(r.per, path)
			optional = optional || slices.Contains([]string{"merchant_or_vendor", "payment_method"}, path) || strings.HasPrefix(path, "metadata.")
		}
	}
	if r.budget = b; optional {
		r.onMissing = d.of("skip", "block", "escalate")
	}
	return r
}
