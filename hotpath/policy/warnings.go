package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// Warnings returns legal rules of a policy that are probably not meant, by path like the faults of
// Compile: rules that are never reported because of others, rules that an agent avoids by leaving a
// field out, limits that let nothing pass, and currencies and descriptions that name something else.
// It knows some such cases, not all. Rules with faults have none.
func Warnings(rules string) spend.Faults {
	var faults, warnings spend.Faults
	w := warner{log: &faultLog{faults: &warnings}}
	log := &faultLog{faults: &faults}
	for i, raw := range ruleValues(rules, log) {
		w.rules = append(w.rules, warned{compileRule(raw, index("rules", i), log), memberOf(raw, "parameters"), memberOf(raw, "when")})
	}
	if log.failed() {
		return nil
	}
	for i := range w.rules {
		w.one(i)
	}
	w.nothingPasses()
	return warnings
}

type warner struct {
	log   *faultLog
	rules []warned
}

type warned struct {
	rule
	given, whenGiven objectReader // the rule's parameters and conditions
}

// memberOf returns an object of a rule; an empty one if that has faults.
func memberOf(raw jsontext.Value, name string) objectReader {
	unread := &faultLog{faults: new(spend.Faults)}
	r, _ := openObject(raw, "", nil, unread)
	o, _ := openObject(r.member(name), "", nil, unread)
	return o
}

func (w *warner) add(i int, within, problem string) { w.log.add(index("rules", i)+within, problem) }

// one warns of the i-th rule.
func (w *warner) one(i int) {
	r := &w.rules[i]
	if r.reads != "" && r.given.member(paramOnMissing) == nil {
		w.add(i, "", "does not judge an action without "+r.reads+
			", so an agent avoids it by leaving that out: give on_missing (block or escalate, or skip if that is meant)")
	}
	if currency, given := unquote(r.given.member("currency")); given && !spend.CurrencyAssigned(strings.ToUpper(currency)) {
		w.add(i, ".parameters.currency", "is "+strings.ToUpper(currency)+", which is no currency of ISO 4217")
	}
	if other := r.otherNumber(); other != "" {
		w.add(i, ".description", "has the number "+other+", which is none of the rule's parameters")
	}
	switch c := r.condition.(type) {
	case *vendorAllowlist:
		for k := range c.ends {
			if vendor := c.at(k); strings.TrimSpace(vendor) != vendor {
				w.add(i, ".parameters.vendors", "has "+strconv.Quote(vendor)+": vendors compare exactly, with their white space")
			}
		}
	case *timeRestriction:
		if c.always() && !r.firesIfMissing() {
			w.add(i, "", "never fires: it allows every time")
			return
		}
	}
	if w.conditions(i) {
		return
	}
	for j := range w.rules {
		if r.cancels(&w.rules[j]) {
			w.add(i, "", "asks nobody, and where it fires beside "+w.named(j)+
				" cancels the approval that this one asks for: give it an approval, or amounts that the other rule does not have")
			return
		}
	}
	for j := range w.rules {
		if j != i && w.rules[j].hides(&r.rule, j < i) {
			w.add(i, "", "is never reported: whenever it fires, so does "+w.named(j)+", which is reported instead")
			return
		}
	}
	if w.tooHigh(r) {
		w.add(i, "", "is never reported: every amount over its threshold is over the limits of the max_amount rules")
	}
}

func (w *warner) named(j int) string {
	return index("rules", j) + " (" + strconv.Quote(w.rules[j].id) + ")"
}

// firesIfMissing reports whether the rule fires for an action that lacks what its conditions read.
func (r *rule) firesIfMissing() bool { return r.when != nil && r.when.onMissing != spend.Allow }

// hides reports whether w is reported whenever other fires. An escalation that asks for approval is
// never hidden: all of those that fire are collected.
func (w *warned) hides(other *rule, before bool) bool {
	if w.when != nil && w.when.identity() != other.when.identity() || other.firesIfMissing() {
		return false
	}
	if other.window > 0 {
		return (w.window > other.window || before && w.window == other.window) && (other.judgesAgain || !w.judgesAgain)
	}
	if !before || other.approval != nil || w.effect < other.effect || w.onMissing < other.onMissing || other.types&^w.types != 0 {
		return false
	}
	switch c := other.condition.(type) {
	case *maxAmount:
		b, ok := w.condition.(*maxAmount)
		return ok && (b.currency == "" || b.currency == c.currency) && b.limit.Cmp(c.limit) <= 0
	case *escalateIf:
		b, ok := w.condition.(*escalateIf)
		return ok && b.within(c)
	case *refundAgeLimit:
		b, ok := w.condition.(*refundAgeLimit)
		return ok && b.maxDays <= c.maxDays
	case *discountCap:
		b, ok := w.condition.(*discountCap)
		return ok && b.maxPercent.Cmp(c.maxPercent) <= 0
	case *blockedCategories:
		b, ok := w.condition.(*blockedCategories)
		return ok && c.within(&b.set)
	case *blockedPaymentRails:
		b, ok := w.condition.(*blockedPaymentRails)
		return ok && c.within(&b.set)
	case *geographyBlock:
		b, ok := w.condition.(*geographyBlock)
		return ok && c.within(&b.set)
	case *vendorAllowlist:
		b, ok := w.condition.(*vendorAllowlist)
		return ok && b.within(&c.set)
	case *timeRestriction:
		b, ok := w.condition.(*timeRestriction)
		return ok && b.within(c)
	}
	return false
}

// tooHigh reports whether r is an escalate_if for amounts that are blocked in
// every currency: a max_amount in one currency blocks those without a limit.
func (w *warner) tooHigh(r *warned) bool {
	c, ok := r.condition.(*escalateIf)
	if !ok || c.above == nil || r.firesIfMissing() {
		return false
	}
	conditional := false
	least := make(map[string]spend.Amount)
	for i := range w.rules {
		m, ok := w.rules[i].condition.(*maxAmount)
		if !ok || w.rules[i].when != nil {
			conditional = conditional || ok
			continue
		}
		if limit, known := least[m.currency]; !known || m.limit.Cmp(limit) < 0 {
			least[m.currency] = m.limit
		}
	}
	if limit, ok := least[""]; ok {
		return limit.Cmp(*c.above) <= 0
	}
	if conditional { // it may cover another currency
		return false
	}
	for _, limit := range least {
		if limit.Cmp(*c.above) > 0 {
			return false
		}
	}
	return len(least) > 0
}

// nothingPasses warns of rules of one type that together allow nothing.
func (w *warner) nothingPasses() {
	var times []*timeRestriction
	var vendors []*vendorAllowlist
	lastTime, lastVendors := 0, 0
	for i := range w.rules {
		switch c := w.rules[i].condition.(type) {
		case *timeRestriction:
			if w.rules[i].when == nil {
				times, lastTime = append(times, c), i
			}
		case *vendorAllowlist:
			if w.rules[i].when == nil {
				vendors, lastVendors = append(vendors, c), i
			}
		}
	}
	if len(times) > 1 && sameZone(times) && !someMinute(func(at weekMinute) bool {
		return !slices.ContainsFunc(times, func(c *timeRestriction) bool { return !c.open(at) })
	}) {
		w.add(lastTime, "", "leaves no time: the time_restriction rules together block every action at any time")
	}
	if len(vendors) > 1 && !vendors[0].some(func(name string) bool {
		return !slices.ContainsFunc(vendors, func(c *vendorAllowlist) bool { return !contains(&c.set, name) })
	}) {
		w.add(lastVendors, "", "leaves no vendor: no vendor is on every vendor_allowlist, so every spend is blocked")
	}
}

func sameZone(times []*timeRestriction) bool {
	return !slices.ContainsFunc(times, func(c *timeRestriction) bool { return c.zoneName() != times[0].zoneName() })
}

// some reports whether something holds for a text of the set.
func (s *set) some(holds func(string) bool) bool {
	for i := range s.ends {
		if holds(s.at(i)) {
			return true
		}
	}
	return false
}

// within reports whether every text of s is in other.
func (s *set) within(other *set) bool {
	return !s.some(func(text string) bool { return !contains(other, text) })
}

// within reports whether the escalation is for all amounts of other.
func (c *escalateIf) within(other *escalateIf) bool {
	return (c.above == nil || other.above != nil && c.above.Cmp(*other.above) <= 0) &&
		(c.upTo == nil || other.upTo != nil && c.upTo.Cmp(*other.upTo) >= 0)
}

func someMinute(holds func(weekMinute) bool) bool {
	for at := range weekMinute(minutesPerWeek) {
		if holds(at) {
			return true
		}
	}
	return false
}

// within reports whether c is open only when other is.
func (c *timeRestriction) within(other *timeRestriction) bool {
	return c.zoneName() == other.zoneName() && !someMinute(func(at weekMinute) bool { return c.open(at) && !other.open(at) })
}

func (c *timeRestriction) always() bool {
	return !someMinute(func(at weekMinute) bool { return !c.open(at) })
}
