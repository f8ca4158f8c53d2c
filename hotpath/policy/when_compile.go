package policy

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// whenMembers are the members of when.
var whenMembers = []Parameter{
	{Name: "action_types", Names: everyType.names(), Example: `["spend"]`, Text: "action types"},
	{Name: "currencies", Text: "currencies"},
	{Name: "counterparties", Text: "counterparties, compared exactly"},
	{Name: "payment_methods", Text: "payment methods, whatever their case"},
	{Name: "merchants", Text: "merchant_or_vendor, compared exactly"},
	{Name: "categories", Text: "metadata.category, whatever its case"},
	{Name: "countries", Text: "metadata.country, as in ISO 3166"},
	{Name: "amount_above", Text: "amounts over this one"},
	{Name: "amount_up_to", Text: "amounts up to this one"},
	{Name: "metadata", Text: `{"name": [values]} or {"name": {"above" | "from" | "up_to" | "below": number}} of at most 8 members`},
	{Name: "present", Text: "fields that are given: metadata.NAME, merchant_or_vendor, payment_method, reason_text"},
	{Name: "absent", Text: "fields that are not given"},
	onMissingParameter,
}

// Conditions returns the members of when.
func Conditions() []Parameter { return whenMembers }

// ConditionFields returns the fields of a check that the conditions of a rule read, by path; none of a rule with faults.
func ConditionFields(rule string) (fields []string) {
	log := &faultLog{faults: new(spend.Faults), stored: true}
	o, ok := openObject(jsontext.Value(rule), "", ruleMembers, log)
	if !ok {
		return nil
	}
	w := o.when()
	switch {
	case w == nil || log.failed():
		return nil
	case w.above != nil || w.upTo != nil:
		fields = append(fields, "amount")
	}
	if w.types != everyType {
		fields = append(fields, "action_type")
	}
	for i := range w.fields {
		fields = append(fields, w.fields[i].path())
	}
	return fields
}

const (
	maxMetadataTests = 8
	mustBePresence   = "must be metadata.NAME, merchant_or_vendor, payment_method or reason_text"
)

// when returns the conditions of a rule, nil when absent.
func (o *objectReader) when() *when {
	raw := o.value("when")
	if raw == nil {
		return nil
	}
	w := &when{types: everyType}
	p, ok := openObject(raw, o.path+".when", whenMembers, o.log)
	if !ok {
		return w
	}
	faults := len(*o.log.faults)
	if types := compileTypes(&p); types != 0 {
		w.types = types
	}
	for _, list := range [...]struct {
		name  string
		field field
		test  test
	}{
		{"currencies", currencyField, isListed},
		{"counterparties", counterpartyField, isListed},
		{"payment_methods", paymentMethodField, isNamed},
		{"merchants", merchantField, isInNFC},
		{"categories", categoryField, isNamed},
		{"countries", countryField, isListed},
	} {
		p.listTest(list.name, fieldTest{field: list.field, test: list.test}, w)
	}
	w.above, w.upTo = p.amountRange()
	p.metadataTests(w)
	p.presence("present", isPresent, w)
	p.presence("absent", isAbsent, w)
	w.onMissing = p.onMissing()
	p.refuseOthers()
	none := p.member("action_types") == nil && w.above == nil && w.upTo == nil && w.fields == nil
	if none && len(*o.log.faults) == faults {
		o.fault("when", "must have at least one condition")
	}
	return w
}

// amountRange reads amount_above and amount_up_to; nil when absent.
func (o *objectReader) amountRange() (above, upTo *spend.Amount) {
	if n, given := o.amount("amount_above"); given {
		above = &n
	}
	if n, given := o.amount("amount_up_to"); given {
		upTo = &n
	}
	if above != nil && upTo != nil && upTo.Cmp(*above) <= 0 {
		o.fault("amount_up_to", "must be more than amount_above")
	}
	return above, upTo
}

// listTest adds a condition that lists values of a field.
func (o *objectReader) listTest(name string, t fieldTest, w *when) {
	var listed, shown []string
	seen := make(map[string]bool)
	given := o.list(name, func(entry string) string {
		shown = append(shown, entry)
		form := entry
		switch t.field {
		case currencyField:
			currency, ok := spend.ParseCurrency(entry)
			if !ok {
				return mustBeCurrency
			}
			form = currency
		case countryField:
			country, problem := o.country(entry)
			if problem != "" {
				return problem
			}
			form = country
		case merchantField:
			form = spend.NFC(entry)
		case paymentMethodField, categoryField:
			form = string(fold(nil, strings.TrimSpace(entry)))
		case counterpartyField, reasonField, metadataField: // exactly
		}
		if seen[form] {
			return repeated
		}
		seen[form] = true
		listed = append(listed, form)
		if o.log.stored {
			return ""
		}
		return spend.UnseenFault(entry)
	})
	if given {
		t.values, t.words = names{newSet(listed)}, t.path()+" is "+alternatives(shown)
		w.fields = append(w.fields, t)
	}
}

// alternatives formats a list like enumerate: "a or b".
func alternatives(entries []string) string {
	if n := len(entries); 1 < n && n <= maxEnumerated {
		return strings.Join(entries[:n-1], ", ") + " or " + entries[n-1]
	}
	return enumerate(entries)
}

// metadataTests adds the conditions on members of metadata.
func (o *objectReader) metadataTests(w *when) {
	raw := o.value("metadata")
	if raw == nil {
		return
	}
	m, ok := openObject(raw, o.path+".metadata", nil, o.log)
	switch {
	case !ok:
	case len(m.members) == 0:
		o.fault("metadata", atLeastOneEntry)
	case len(m.members) > maxMetadataTests:
		o.fault("metadata", "must have at most 8 names")
	}
	for _, member := range m.members {
		name := spend.NameShown(member.name)
		t := fieldTest{field: metadataField, name: member.name}
		switch {
		case spend.Blank(member.name) || spend.TooLong(member.name, spend.MaxIdentifier):
			m.fault(name, "must be a name of 1 to 256 characters")
		case member.value.Kind() == jsontext.KindBeginArray:
			t.test = isValue
			m.valuesTest(name, member.value, &t)
		case member.value.Kind() == jsontext.KindBeginObject:
			t.test = isWithin
			m.boundsTest(name, member.value, &t)
		default:
			m.fault(name, "must be an array of values, or an object with bounds")
		}
		w.fields = append(w.fields, t)
	}
}

func (o *objectReader) valuesTest(name string, raw jsontext.Value, t *fieldTest) {
	entries, ok := o.elements(name, raw)
	if ok && len(entries) == 0 {
		o.fault(name, atLeastOneEntry)
	}
	var listed, shown []string
	seen := make(map[string]bool)
	for i, raw := range entries {
		problem := spend.CheckValue(raw)
		if problem == "" {
			form := string(spend.AppendComparable(nil, string(raw)))
			if seen[form] {
				problem = repeated
			}
			seen[form] = true
			listed, shown = append(listed, form), append(shown, withoutEscapes(raw))
		}
		if problem != "" {
			o.fault(index(name, i), problem)
		}
	}
	t.values, t.words = names{newSet(listed)}, t.path()+" is "+alternatives(shown)
}

// withoutEscapes returns a value as people read it.
func withoutEscapes(raw jsontext.Value) string {
	if text, isText := unquote(raw); isText {
		quoted, _ := jsontext.AppendQuote(nil, text) // it is valid UTF-8
		return string(quoted)
	}
	return string(raw)
}

// boundNames are the members of bounds, in the order in which they are compared.
var boundNames = []Parameter{{Name: "above"}, {Name: "from"}, {Name: "up_to"}, {Name: "below"}}

func (o *objectReader) boundsTest(name string, raw jsontext.Value, t *fieldTest) {
	b, _ := openObject(raw, o.path+"."+name, boundNames, o.log)
	var words []string
	faults := len(*o.log.faults)
	for i, p := range boundNames {
		raw := b.member(p.Name)
		if raw == nil {
			continue
		}
		if problem := spend.CheckNumber(raw); problem != "" {
			b.fault(p.Name, problem)
			continue
		}
		t.bounds = append(t.bounds, bound{upper: i > 1, inclusive: i == 1 || i == 2, number: string(raw)})
		words = append(words, strings.ReplaceAll(p.Name, "_", " ")+" "+string(raw))
	}
	b.refuseOthers()
	switch {
	case t.bounds == nil && len(*o.log.faults) == faults:
		o.fault(name, "must have a bound: above, from, up_to or below")
	case emptyRange(t.bounds):
		o.fault(name, "must leave a number between its bounds")
	}
	t.words = t.path() + " is " + strings.Join(words, " and ")
}

func emptyRange(bounds []bound) bool {
	for _, low := range bounds {
		for _, high := range bounds {
			if low.upper || !high.upper {
				continue
			}
			order := spend.CompareNumbers(low.number, high.number)
			if order > 0 || order == 0 && (!low.inclusive || !high.inclusive) {
				return true
			}
		}
	}
	return false
}

// name returns the name of the bound's member.
func (b bound) name() string {
	i := 0
	switch {
	case b.upper && b.inclusive:
		i = 2
	case b.upper:
		i = 3
	case b.inclusive:
		i = 1
	}
	return boundNames[i].Name
}

// presence adds a condition for each field that must be given, or must not.
func (o *objectReader) presence(name string, test test, w *when) {
	var seen []string
	o.list(name, func(entry string) string {
		t := fieldTest{test: test, field: metadataField}
		member, isMember := strings.CutPrefix(entry, metadataPrefix)
		switch {
		case slices.Contains(seen, entry):
			return repeated
		case isMember && !spend.Blank(member):
			t.name = member
		case entry == fieldPaths[merchantField]:
			t.field = merchantField
		case entry == fieldPaths[paymentMethodField]:
			t.field = paymentMethodField
		case entry == fieldPaths[reasonField]:
			t.field = reasonField
		default:
			return mustBePresence
		}
		seen = append(seen, entry)
		t.words = t.path() + " is " + name
		w.fields = append(w.fields, t)
		return ""
	})
}
