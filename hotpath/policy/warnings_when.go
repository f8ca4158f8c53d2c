package policy

import (
	"slices"
	"strings"

	"spendgate/audit/spend"
)

// conditions warns of the conditions of the i-th rule (S88). It reports whether the rule never fires.
func (w *warner) conditions(i int) (never bool) {
	r := &w.rules[i]
	if r.tier() && !r.namesCurrency() && !w.oneCurrency() {
		w.add(i, "", "compares amounts in any currency: name the currencies that are meant in when")
	}
	if r.when == nil {
		return false
	}
	if c, ok := r.condition.(*maxAmount); ok && !slices.ContainsFunc(w.rules, func(other warned) bool {
		o, ok := other.condition.(*maxAmount)
		return ok && other.when == nil && (o.currency == "" || o.currency == c.currency)
	}) && !w.needsNumber(r.when.fields) {
		w.add(i, ".when", "takes the limit away: where it does not match, no max_amount covers "+orAny(c.currency))
	}
	if r.contradicts() {
		w.add(i, "", "never fires: its conditions and parameters exclude each other")
		return true
	}
	w.avoidable(i)
	return false
}

// typedNumbers are the members of metadata that must be numbers (S9).
var typedNumbers = []string{"days_since_purchase", "discount_percent"}

// noCurrency is the code of ISO 4217 for tests, in which there is no money.
const noCurrency = "XTS"

// avoidable warns of conditions that an agent avoids by leaving out what they read, or by a text in place of a number.
func (w *warner) avoidable(i int) {
	r := &w.rules[i]
	if r.window > 0 { // without the rule there is a window, too (S17)
		return
	}
	var absent []string
	for k := range r.when.fields {
		f := &r.when.fields[k]
		switch {
		case f.test == isPresent || f.test == isAbsent || f.field == currencyField || f.field == counterpartyField:
		case f.test == isWithin && w.needsNumber([]fieldTest{*f}):
		case r.when.onMissing == spend.Allow:
			if r.whenGiven.member(paramOnMissing) == nil && !slices.ContainsFunc(w.rules, func(other warned) bool { return other.demands(f) }) {
				absent = append(absent, f.path())
			}
		case f.test == isWithin && !slices.Contains(typedNumbers, f.name):
			w.add(i, ".when.metadata", "does not match a "+f.path()+" that is no number, so an agent that sends \"1\" for 1 avoids the rule: "+
				`give the max_amount rules the condition {"from": 0} on it, beside one of {"limit": 0, "currency": "XTS"} without conditions`)
		}
	}
	if absent != nil {
		w.add(i, ".when", "does not match an action without "+strings.Join(absent, " or ")+
			", so an agent avoids the rule by leaving that out: give on_missing (block or escalate, or skip if that is meant)")
	}
}

// demands reports whether the rule fires for some actions because they lack the field.
func (w *warned) demands(f *fieldTest) bool {
	if w.reads == f.path() && w.onMissing != spend.Allow {
		return true
	}
	return w.when != nil && slices.ContainsFunc(w.when.fields, func(own fieldTest) bool {
		return own.path() == f.path() && (own.test == isAbsent || w.firesIfMissing())
	})
}

// needsNumber reports whether what has no number in one of these fields is in no currency that a max_amount covers (S10).
func (w *warner) needsNumber(fields []fieldTest) bool {
	none, all := false, true // a max_amount for no money; bounds of the field in all others
	for i := range w.rules {
		r := &w.rules[i]
		c, ok := r.condition.(*maxAmount)
		if !ok {
			continue
		}
		if r.when == nil && c.currency == noCurrency {
			none = true
			continue
		}
		all = all && r.when != nil && slices.ContainsFunc(r.when.fields, func(f fieldTest) bool {
			return f.test == isWithin && slices.ContainsFunc(fields, func(b fieldTest) bool { return b.test == isWithin && b.name == f.name })
		})
	}
	return none && all
}

// cancels reports whether the rule escalates without an approval some of what other asks people about: then nobody is asked (S42).
func (w *warned) cancels(other *warned) bool {
	_, ok := w.condition.(*escalateIf)
	_, both := other.condition.(*escalateIf)
	if !ok || !both || w.approval != nil || other.approval == nil || w.types&other.types == 0 ||
		w.when != nil && other.when != nil && w.when.identity() != other.when.identity() {
		return false
	}
	for _, own := range w.amounts() {
		if slices.ContainsFunc(other.amounts(), func(o escalateIf) bool { return below(own.upTo, o.above) || below(o.upTo, own.above) }) {
			return false
		}
	}
	return true
}

// amounts returns the ranges of amounts in which the escalation fires: where all of them are.
func (w *warned) amounts() []escalateIf {
	own := *w.condition.(*escalateIf)
	if w.when == nil {
		return []escalateIf{own}
	}
	return []escalateIf{own, {w.when.above, w.when.upTo}}
}

func orAny(currency string) string {
	if currency == "" {
		return "any currency"
	}
	return currency
}

// tier reports whether the rule is for amounts up to one that it names.
func (w *warned) tier() bool {
	c, ok := w.condition.(*escalateIf)
	return ok && c.upTo != nil || w.when != nil && w.when.upTo != nil
}

func (w *warned) namesCurrency() bool {
	_, given := unquote(w.given.member("currency"))
	return given || w.when != nil && slices.ContainsFunc(w.when.fields, func(f fieldTest) bool { return f.field == currencyField })
}

// oneCurrency reports whether the max_amount rules without conditions let one currency pass at most.
func (w *warner) oneCurrency() bool {
	var currencies []string
	for i := range w.rules {
		c, ok := w.rules[i].condition.(*maxAmount)
		switch {
		case !ok:
		case c.currency == "":
			return false
		default:
			currencies = append(currencies, c.currency)
		}
	}
	slices.Sort(currencies)
	return len(slices.Compact(currencies)) == 1
}

// contradicts reports whether no action can match the conditions and be one that the rule judges.
func (w *warned) contradicts() bool {
	if w.types == 0 {
		return true
	}
	given := func(test test) (paths []string) {
		for i := range w.when.fields {
			if f := &w.when.fields[i]; (f.test == isAbsent) == (test == isAbsent) {
				paths = append(paths, f.path())
			}
		}
		return paths
	}
	if w.firesIfMissing() {
		return false
	}
	absent := given(isAbsent)
	if slices.ContainsFunc(given(isPresent), func(path string) bool { return slices.Contains(absent, path) }) {
		return true
	}
	above, upTo := w.when.above, w.when.upTo
	switch c := w.condition.(type) {
	case *escalateIf:
		return below(upTo, c.above) || below(c.upTo, above)
	case *maxAmount:
		return below(upTo, &c.limit) && c.currency == ""
	}
	return false
}

// below reports whether no amount is above the one and up to the other.
func below(upTo, above *spend.Amount) bool {
	return upTo != nil && above != nil && upTo.Cmp(*above) <= 0
}
