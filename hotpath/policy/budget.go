package policy

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"spendgate/audit/spend"
)

// addBudget adds a compiled budget rule. It counts since this version until
// CountSince says otherwise.
func (p *Program) addBudget(r rule) {
	b := r.budget
	b.rule, b.index, b.before = r, len(p.budgets), len(p.rules)
	b.rule.budget = nil
	if r.when != nil || b.per&perOptional != 0 || b.members != nil {
		b.rule.condition = &budgetContext{b}
		p.rules = append(p.rules, b.rule)
	}
	for _, other := range p.budgets { // one copy of each zone
		if b.period.zone != nil && other.period.zone != nil && b.period.zone.String() == other.period.zone.String() {
			b.period.zone = other.period.zone
			break
		}
	}
	p.budgets = append(p.budgets, b)
	b.count(p.policyID, spend.BudgetSince{Version: p.version})
}

// zoneOverhead is the most memory that a time zone takes.
const zoneOverhead = 8192

func (p *Program) measureBudgets() (size int) {
	zones := make(map[*time.Location]bool)
	for _, b := range p.budgets {
		size += int(unsafe.Sizeof(b)) + int(unsafe.Sizeof(*b)) + ruleOverhead + len(b.rule.id) + len(b.rule.description)
		size += b.rule.approval.size() + b.rule.when.size()
		if zone := b.period.zone; zone != nil && zone != time.UTC && !zones[zone] {
			zones[zone] = true
			size += zoneOverhead
		}
	}
	return size
}

// HasBudgets reports whether the policy has budgets.
func (p *Program) HasBudgets() bool { return len(p.budgets) > 0 }

// BudgetIdentities returns what each budget counts, by rule_id, as hashes; nil without budgets. Two
// budgets have a hash in common if they mean the same (S37). The first hash is for the time zone as
// the rule names it, the others are for its other names: zones that are the same in this release may
// differ in the next.
func (p *Program) BudgetIdentities() map[string][]spend.Hash {
	if len(p.budgets) == 0 {
		return nil
	}
	identities := make(map[string][]spend.Hash, len(p.budgets))
	for _, b := range p.budgets {
		zone := b.period.zone.String() // UTC without one
		hashes := []spend.Hash{sha256.Sum256([]byte(b.identityIn(zone)))}
		if b.period.rolling == 0 && !b.period.lasts() { // which have the same beginning and end in every zone
			for _, name := range zonesAlike()[zone] {
				if name != zone {
					hashes = append(hashes, sha256.Sum256([]byte(b.identityIn(name))))
				}
			}
		}
		identities[b.rule.id] = hashes
	}
	return identities
}

// identityIn returns the canonical text of what the budget counts, in the zone of that
// name. Stores keep its hash, so it must never change.
func (b *budget) identityIn(zone string) string {
	window := unitNames[b.period.unit]
	switch {
	case b.period.rolling > 0:
		window = "rolling " + strconv.FormatInt(b.period.rolling, 10)
	case !b.period.lasts():
		window += " " + zone
	}
	per := b.perNames()
	for i := len(per) - len(b.members); i < len(per); i++ {
		per[i] = strconv.Quote(per[i]) // which has any characters
	}
	text := "per=" + strings.Join(per, ",") + ";window=" + window + ";currency=" + b.currency + ";types=" + b.types.String()
	if conditions := b.rule.when.identity(); conditions != "" {
		text += ";when=" + conditions
	}
	return text
}

// CountSince sets since when the budgets count, by rule_id. It is called at most once, after Compile
// and before the Program is shared; a budget that is not named counts since this version.
func (p *Program) CountSince(since map[string]spend.BudgetSince) {
	for _, b := range p.budgets {
		if s, ok := since[b.rule.id]; ok {
			b.count(p.policyID, s)
		}
	}
}

func (b *budget) count(policyID string, since spend.BudgetSince) {
	b.since = since
	b.shared = spend.CounterID(policyID, b.rule.id, since.Version, nobody)
}

// nobody is the subject of a budget that counts for all together.
const nobody = "[]" // spend.SubjectOf()

// Charges appends what the action takes, if it is allowed, from each budget that judges it, in the
// policy's order (S34). principal is that of the API key.
func (p *Program) Charges(dst []spend.Charge, a *spend.Action, r spend.Resolution, principal string, at time.Time) []spend.Charge {
	for _, b := range p.budgets {
		if b.judges(a, r.Type) {
			dst = append(dst, b.charge(p.policyID, a, r.Type, principal, at))
		}
	}
	return dst
}

func (b *budget) charge(policyID string, a *spend.Action, t spend.ActionType, principal string, at time.Time) spend.Charge {
	c := spend.Charge{
		RuleID: b.rule.id, Since: b.since.Version, Subject: nobody,
		Limited: b.limited, Limit: b.limit.Total(), Counted: b.counted, MaxCount: b.maxCount, NotifyAt: b.notifyAt,
	}
	c.Counter.ID = b.shared
	if b.per != 0 || b.members != nil {
		c.Subject = b.subject(a, t, principal)
		if b.per&perAgent != 0 {
			c.AgentID = spend.NFC(a.AgentID)
		}
		c.Counter.ID = spend.CounterID(policyID, b.rule.id, b.since.Version, c.Subject)
	}
	window := b.window(at)
	c.Counter.StartMS, c.OffsetMS, c.EndMS = window.name, window.name-window.start, window.end
	if length := b.period.bucketMS(); length > 0 {
		c.Counter.BucketMS = length
		c.EndMS += spend.RollingBuckets * length // that many look back at it
	}
	if c.NoCurrency = b.currency == ""; !c.NoCurrency {
		c.Amount = a.Amount
	}
	return c
}

// window is period.window, which takes a while for calendar windows.
func (b *budget) window(at time.Time) span {
	if b.period.rolling > 0 || b.period.lasts() {
		return b.period.window(at)
	}
	if current := b.current.Load(); current != nil && current.has(at.UnixMilli()) {
		return *current
	}
	window := b.period.window(at)
	b.current.Store(&window)
	return window
}

// subject returns for whom the action counts. A principal counts as one however it
// is spelt (S62).
func (b *budget) subject(a *spend.Action, t spend.ActionType, principal string) string {
	if b.per&perAPIKey != 0 {
		principal = spend.LowerName(principal)
	}
	rail := ""
	if b.per&perPaymentMethod != 0 {
		rail = railOf(a.PaymentMethod)
	}
	var values [len(dimensionNames)]string
	n := 0
	for i, value := range [...]string{a.AgentID, a.Counterparty, principal, t.String(), a.MerchantOrVendor, rail} {
		if b.per&(1<<i) != 0 {
			values[n] = value
			n++
		}
	}
	subject := spend.SubjectOf(values[:n]...)
	for i, member := range b.members {
		subject = strings.TrimSuffix(subject, "]")
		if n+i > 0 {
			subject += ","
		}
		subject += a.Metadata.Dimension(member) + "]"
	}
	return subject
}

// railOf returns the form of a payment method by which budgets count: the same for all that a list of rails takes
// for the same, and in small letters where these are ASCII.
func railOf(method string) string {
	folded := string(fold(nil, strings.TrimSpace(method)))
	if strings.ContainsFunc(folded, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return folded
	}
	return strings.ToLower(folded)
}

// Uncovered returns the block of an action in a currency in which the policy's
// budgets have no limit, if they have limits for actions of its type (S35). The
// finding is Evaluate's; nothing is uncovered when that blocks already.
func (p *Program) Uncovered(f Finding, a *spend.Action, r spend.Resolution) (Finding, bool) {
	var first *budget
	whatever := false // of the type that the action might have
	elsewhere := false
	for _, b := range p.budgets {
		if !b.limited || b.rule.types == 0 || !b.counts(a) {
			continue
		}
		whatever = whatever || b.rule.types == everyType
		has := b.rule.types.has(r.Type)
		switch {
		case has && b.currency == a.Currency:
			return f, false
		case b.currency == a.Currency:
			elsewhere = true
		case has && first == nil:
			first = b
		}
	}
	if first == nil || f.Effect == spend.Block {
		return f, false
	}
	confidence := r.Confidence
	if whatever && !elsewhere {
		confidence = spend.High
	}
	return Finding{
		Effect: spend.Block, Confidence: confidence, Reason: spend.ReasonCurrencyNotCovered,
		at: f.at, over: &overrun{budget: first},
	}, true
}

// overrun is the reason why a budget fired: its charge, and the usage before it. The charge is zero if
// none of the budgets covers the currency.
type overrun struct {
	budget *budget
	charge spend.Charge
	usage  spend.Usage
}

// Exceeded completes a finding that does not block when some of the action's charges have no room: the
// result is the first block in the policy's order, else the first escalation (S35, S14). usages has
// the usage of the counters of these charges, by their index; charges that have room are skipped.
func (p *Program) Exceeded(f Finding, r spend.Resolution, charges []spend.Charge, usages map[int]spend.Usage) Finding {
	found := f
	for i := range charges {
		usage, ok := usages[i]
		if c := &charges[i]; ok && !c.Fits(usage) {
			over := p.exceeds(c, usage, r)
			if over.Effect > found.Effect || over.Effect == found.Effect && over.precedes(&found) {
				found = over
			}
		}
	}
	return found
}

// EvaluateBudgets completes a finding that does not block by the budgets, given the usage of the
// counters of the action's charges (S38).
func (p *Program) EvaluateBudgets(
	f Finding, a *spend.Action, r spend.Resolution, charges []spend.Charge, usages map[spend.Counter]spend.Usage,
) Finding {
	if uncovered, ok := p.Uncovered(f, a, r); ok {
		return uncovered
	}
	taken := make(map[int]spend.Usage, len(charges))
	for i := range charges {
		taken[i] = usages[charges[i].Counter]
	}
	return p.Exceeded(f, r, charges, taken)
}

func (p *Program) exceeds(c *spend.Charge, usage spend.Usage, r spend.Resolution) Finding {
	b := p.budgetNamed(c.RuleID)
	f := Finding{
		Effect: b.rule.effect, Confidence: spend.High, Reason: spend.ReasonBudgetExceeded,
		over: &overrun{b, *c, usage},
	}
	if c.FitsLimit(usage) {
		f.Reason = spend.ReasonCountLimitExceeded
	}
	if b.dependsOnType() {
		f.Confidence = r.Confidence
	}
	return f
}

func (p *Program) budgetNamed(ruleID string) *budget {
	for _, b := range p.budgets {
		if b.rule.id == ruleID {
			return b
		}
	}
	panic("BUG: charge of another program")
}

// precedes reports whether a budget's finding comes before another in the policy's
// order.
func (f *Finding) precedes(found *Finding) bool {
	if found.over != nil {
		return f.over.budget.index < found.over.budget.index
	}
	return f.over.budget.before <= found.rule
}
