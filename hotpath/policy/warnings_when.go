package policy

import (
	"slices"

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
	}) {
		w.add(i, ".when", "takes the limit away: where it does not match, no max_amount covers "+orAny(c.currency))
	}
	if r.contradicts() {
		w.add(i, "", "never fires: its conditions and parameters exclude each other")
		return true
	}
	return false
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
