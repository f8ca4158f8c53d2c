package policy

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"spendgate/audit/spend"
)

// when is the compiled conditions that a rule has beside its parameters (S88). The action types that it
// names are the rule's. nil matches every action.
type when struct {
	above, upTo *spend.Amount // exclusive and inclusive; nil: any
	fields      []fieldTest
	onMissing   spend.Effect // if a field is absent and all others match; Allow means skip
	types       typeSet      // that it names; all if it names none
}

// match is what a condition says of an action.
type match uint8

const (
	matches match = iota
	lacks         // a field that it reads is absent
	differs
)

// judge does not allocate, except for texts with escapes or letters that decompose.
func (w *when) judge(a *spend.Action) match {
	if w == nil {
		return matches
	}
	if w.above != nil && a.Amount.Cmp(*w.above) <= 0 || w.upTo != nil && a.Amount.Cmp(*w.upTo) > 0 {
		return differs
	}
	found := matches
	for i := range w.fields {
		found = max(found, w.fields[i].judge(a))
		if found == differs {
			break
		}
	}
	return found
}

// missing lists the absent fields.
func (w *when) missing(a *spend.Action) (fields []string) {
	if w.judge(a) != lacks {
		return nil
	}
	for i := range w.fields {
		if f := &w.fields[i]; f.judge(a) == lacks && !slices.Contains(fields, f.path()) {
			fields = append(fields, f.path())
		}
	}
	return fields
}

// field is a field of an action that conditions read.
type field uint8

const (
	currencyField field = iota
	counterpartyField
	paymentMethodField
	merchantField
	categoryField
	countryField
	reasonField
	metadataField // a member by its name
)

var fieldPaths = [...]string{
	"currency", "counterparty", "payment_method", "merchant_or_vendor", "metadata.category", "metadata.country", "reason_text", metadataPrefix,
}

const metadataPrefix = "metadata."

// of returns the value of the field, empty if it is absent; of a member of metadata its JSON.
func (f field) of(a *spend.Action, name string) string {
	switch f {
	case currencyField:
		return a.Currency
	case counterpartyField:
		return a.Counterparty
	case paymentMethodField:
		return a.PaymentMethod
	case merchantField:
		return a.MerchantOrVendor
	case categoryField:
		return a.Metadata.Category
	case countryField:
		return a.Metadata.Country
	case reasonField:
		return a.ReasonText
	case metadataField:
	}
	return a.Metadata.Member(name)
}

// fieldTest is a condition on one field.
type fieldTest struct {
	field  field
	name   string // of a member of metadata
	test   test
	values names   // of those that list values, in the form in which they compare
	bounds []bound // of isWithin
	words  string  // what holds, for people
}

// test is how a condition compares.
type test uint8

const (
	isListed test = iota // exactly
	isNamed              // without regard to case and form
	isInNFC              // exactly, in NFC
	isValue              // a member of metadata, by type and value
	isWithin             // a member of metadata, a number within the bounds
	isPresent
	isAbsent
)

// bound is an end of a range of numbers.
type bound struct {
	upper, inclusive bool
	number           string // JSON
}

func (f *fieldTest) path() string { return fieldPaths[f.field] + f.name }

func (f *fieldTest) judge(a *spend.Action) match {
	value, holds := f.field.of(a, f.name), false
	switch {
	case f.test == isPresent:
		holds = value != "" && !spend.Blank(value)
	case f.test == isAbsent:
		holds = value == "" || spend.Blank(value)
	case value == "":
		return lacks
	case f.test == isListed:
		holds = contains(&f.values.set, value)
	case f.test == isNamed:
		holds = f.values.has(value)
	case f.test == isInNFC:
		holds = contains(&f.values.set, spend.NFC(value))
	case f.test == isValue:
		holds = f.hasValue(value)
	case f.test == isWithin:
		holds = spend.IsNumber(value) && f.within(value)
	}
	if holds {
		return matches
	}
	return differs
}

// comparableOverhead is more than the form of a value in which it compares is longer than its JSON.
const comparableOverhead = 16

func (f *fieldTest) hasValue(value string) bool {
	if len(value) > shortName-comparableOverhead {
		return f.hasLongValue(value)
	}
	var buf [shortName]byte
	return contains(&f.values.set, spend.AppendComparable(buf[:0], value))
}

func (f *fieldTest) hasLongValue(value string) bool {
	if len(value) > longestName+comparableOverhead && value[0] == '"' && strings.IndexByte(value, '\\') < 0 {
		return false // more code points than an entry may have
	}
	var buf [longestName + comparableOverhead]byte
	return contains(&f.values.set, spend.AppendComparable(buf[:0], value))
}

func (f *fieldTest) within(number string) bool {
	for _, b := range f.bounds {
		order := spend.CompareNumbers(number, b.number)
		if b.upper {
			order = -order
		}
		if order < 0 || order == 0 && !b.inclusive {
			return false
		}
	}
	return true
}

// size returns how many bytes the conditions take.
func (w *when) size() int {
	if w == nil {
		return 0
	}
	size := ruleOverhead
	for i := range w.fields {
		f := &w.fields[i]
		size += int(unsafe.Sizeof(*f)) + len(f.name) + len(f.words) + f.values.size() + ruleOverhead
	}
	return size
}

// identity returns a text that is equal for conditions that mean the same, apart from on_missing; it is
// empty if they mean nothing. Stores keep hashes of it, so it must never change.
func (w *when) identity() string {
	if w == nil {
		return ""
	}
	var parts []string
	if w.types != everyType {
		parts = append(parts, "action_type "+w.types.String())
	}
	if w.above != nil {
		parts = append(parts, "amount above "+w.above.String())
	}
	if w.upTo != nil {
		parts = append(parts, "amount up_to "+w.upTo.String())
	}
	for i := range w.fields {
		f := &w.fields[i]
		part := append(strconv.AppendQuote(nil, f.path()), ' ', '0'+byte(f.test))
		for k := range f.values.ends {
			part = strconv.AppendQuote(append(part, ' '), f.values.at(k))
		}
		for _, b := range f.bounds {
			part = strconv.AppendQuote(append(append(part, ' '), b.name()...), string(spend.AppendComparable(nil, b.number)))
		}
		parts = append(parts, string(part))
	}
	slices.Sort(parts)
	return strings.Join(parts, ";")
}

// String returns a text like `currency is USD or EUR and the amount is above 100`.
func (w *when) String() string {
	var parts []string
	if w.types != everyType {
		parts = append(parts, "action_type is "+w.types.String())
	}
	if w.above != nil {
		parts = append(parts, "the amount is above "+w.above.String())
	}
	if w.upTo != nil {
		parts = append(parts, "the amount is up to "+w.upTo.String())
	}
	for i := range w.fields {
		parts = append(parts, w.fields[i].words)
	}
	return strings.Join(parts, " and ")
}
