package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// maxFaults bounds what one refused policy costs: a body of 1 MiB can hold
// hundreds of thousands of faults, and an answer shows only the first few.
const maxFaults = 100

const (
	isRequired      = "is required"
	mustBeObject    = "must be an object"
	mustBeCurrency  = "must be a currency code of three letters"
	atLeastOneEntry = "must have at least one entry"
)

// faultLog collects the faults of one policy.
type faultLog struct {
	faults *spend.Faults
	before int  // how many there were already
	stored bool // the policy was accepted once: what later versions refuse is no fault
}

func (l *faultLog) add(path, problem string) {
	if len(*l.faults)-l.before < maxFaults {
		l.faults.Add(path, problem)
	}
}

func (l *faultLog) failed() bool { return len(*l.faults) > l.before }

// objectReader reads a JSON object by the names of its members. Members that are not declared are
// unknown fields (S2).
type objectReader struct {
	path     string
	declared []Parameter
	members  []member
	log      *faultLog
}

type member struct {
	name  string
	value jsontext.Value
}

// openObject reads the members of a well-formed value, or adds a fault if it is
// not an object.
func openObject(value jsontext.Value, path string, declared []Parameter, log *faultLog) (objectReader, bool) {
	o := objectReader{path: path, declared: declared, log: log}
	if value.Kind() != jsontext.KindBeginObject {
		log.add(path, mustBeObject)
		return o, false
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(value))
	_, _ = d.ReadToken() // the brace
	for d.PeekKind() == jsontext.KindString {
		token, _ := d.ReadToken()
		name := token.String() // before the token is void
		value, _ := d.ReadValue()
		o.members = append(o.members, member{name: name, value: value.Clone()})
	}
	return o, true
}

// declaration returns how a member is declared.
func (o *objectReader) declaration(name string) *Parameter {
	i := indexOf(o.declared, name)
	if i < 0 {
		panic("BUG: " + name + " is not declared")
	}
	return &o.declared[i]
}

// member returns a member as it is written, nil when absent. null and blank are
// absent (S4).
func (o *objectReader) member(name string) jsontext.Value {
	for _, m := range o.members {
		if m.name == name && !absent(m.value) {
			return m.value
		}
	}
	return nil
}

// value is member, and adds a fault if the member is absent and required.
func (o *objectReader) value(name string) jsontext.Value {
	raw := o.member(name)
	if raw == nil && o.declaration(name).Required {
		o.fault(name, isRequired)
	}
	return raw
}

// blank reports whether a member is a blank string, for one where that is a fault.
func (o *objectReader) blank(name string) bool {
	for i := range o.members {
		if m := &o.members[i]; m.name == name {
			return m.value.Kind() == jsontext.KindString && absent(m.value)
		}
	}
	return false
}

// text returns a string, empty when absent.
func (o *objectReader) text(name string) string {
	raw := o.value(name)
	if raw == nil {
		return ""
	}
	limit := cmp.Or(int(o.declaration(name).Max), spend.MaxIdentifier)
	s, ok := unquote(raw)
	switch {
	case !ok:
		o.fault(name, "must be a string")
		return ""
	case spend.TooLong(s, limit):
		o.fault(name, spend.LengthForm(limit))
	}
	return s
}

// oneOf returns which of its names a member is, the first when it is absent.
func (o *objectReader) oneOf(name string) (i int, given bool) {
	raw := o.value(name)
	if raw == nil {
		return 0, false
	}
	names := o.declaration(name).Names
	s, _ := unquote(raw) // of anything but a string empty, which is no name
	if i = slices.Index(names, s); i < 0 {
		o.fault(name, "must be "+strings.Join(names[:len(names)-1], ", ")+" or "+names[len(names)-1])
		i = 0
	}
	return i, true
}

// currency returns a currency in upper case, empty when absent.
func (o *objectReader) currency(name string) string {
	s := o.text(name)
	if s == "" {
		return ""
	}
	currency, ok := spend.ParseCurrency(s)
	if !ok {
		o.fault(name, mustBeCurrency)
	}
	return currency
}

// amount returns a number of 0 or more (S7), and whether it is present.
func (o *objectReader) amount(name string) (a spend.Amount, given bool) {
	raw := o.value(name)
	if raw == nil {
		return a, false
	}
	a, err := spend.ParseAmount(string(raw))
	if err != nil {
		o.fault(name, err.Error())
	}
	if most := o.declaration(name).Max; most > 0 {
		if limit, err := spend.ParseAmount(strconv.FormatInt(most, 10)); err != nil || a.Cmp(limit) > 0 {
			o.fault(name, "must be at most "+limit.String())
		}
	}
	return a, true
}

// integer returns an integer, and whether it is present.
func (o *objectReader) integer(name string) (n int64, given bool) {
	raw := o.value(name)
	if raw == nil {
		return 0, false
	}
	p := o.declaration(name)
	n, ok := spend.ParseInteger(string(raw))
	switch {
	case p.Max == 0 && (!ok || n < p.Min):
		o.fault(name, spend.NaturalForm)
	case p.Max > 0 && (!ok || n < p.Min || n > p.Max):
		o.fault(name, fmt.Sprintf("must be an integer from %d to %d", p.Min, p.Max))
	default:
		return n, true
	}
	return 0, true
}

// list calls take with each entry of an array of strings, which returns the entry's fault, if any. It
// reports whether the list is present.
func (o *objectReader) list(name string, take func(entry string) (problem string)) bool {
	raw := o.value(name)
	if raw == nil {
		return false
	}
	if o.each(name, raw, take) == 0 {
		o.fault(name, atLeastOneEntry)
	}
	return true
}

// entries returns the entries of a list of texts, all of whose characters people see.
func (o *objectReader) entries(name string) (entries []string) {
	o.list(name, func(entry string) string {
		entries = append(entries, entry)
		if o.log.stored {
			return ""
		}
		return spend.UnseenFault(entry)
	})
	return entries
}

// each is list for an array that may be empty. It returns how many entries there
// are, -1 after a fault of the array itself.
func (o *objectReader) each(name string, raw jsontext.Value, take func(entry string) (problem string)) int {
	if raw.Kind() != jsontext.KindBeginArray {
		o.fault(name, "must be an array of strings")
		return -1
	}
	entries, ok := o.elements(name, raw)
	if !ok {
		return -1
	}
	for i, raw := range entries {
		if problem := entryProblem(raw, take); problem != "" {
			o.fault(index(name, i), problem)
		}
	}
	return len(entries)
}

// elements returns the elements of an array, or adds a fault if there are too many.
func (o *objectReader) elements(name string, raw jsontext.Value) ([]jsontext.Value, bool) {
	entries := elements(raw, spend.MaxListEntries+1)
	if len(entries) > spend.MaxListEntries {
		o.fault(name, "must have at most "+strconv.Itoa(spend.MaxListEntries)+" entries")
		return nil, false
	}
	return entries, true
}

func entryProblem(raw jsontext.Value, take func(entry string) string) string {
	entry, ok := unquote(raw)
	switch {
	case !ok:
		return "must be a string"
	case spend.Blank(entry):
		return "must not be blank"
	case spend.TooLong(entry, spend.MaxIdentifier):
		return spend.LengthForm(spend.MaxIdentifier)
	}
	return take(entry)
}

// array returns the elements of an array of so many, at most.
func (o *objectReader) array(name string, most int) (entries []jsontext.Value, ok bool) {
	raw := o.value(name)
	if raw == nil {
		return nil, false
	}
	if raw.Kind() != jsontext.KindBeginArray {
		o.fault(name, "must be an array of objects")
		return nil, false
	}
	if entries = elements(raw, most+1); len(entries) > most {
		o.fault(name, "must have at most "+strconv.Itoa(most)+" entries")
		return nil, false
	}
	return entries, true
}

// boolean returns whether a member is true, false when absent.
func (o *objectReader) boolean(name string) bool {
	raw := o.value(name)
	if raw != nil && raw.Kind() != jsontext.KindTrue && raw.Kind() != jsontext.KindFalse {
		o.fault(name, "must be true or false")
	}
	return raw != nil && raw.Kind() == jsontext.KindTrue
}

// onMissing returns the effect of a rule if the field that it reads is missing (S9).
func (o *objectReader) onMissing() spend.Effect {
	switch o.text(paramOnMissing) {
	case "block":
		return spend.Block
	case "escalate":
		return spend.Escalate
	case "skip", "":
	default:
		o.fault(paramOnMissing, "must be block, escalate or skip")
	}
	return spend.Allow
}

// refuseOthers adds a fault for each member that is not declared.
func (o *objectReader) refuseOthers() {
	for _, m := range o.members {
		if indexOf(o.declared, m.name) >= 0 {
			continue
		}
		var names []string
		for _, p := range o.declared {
			names = append(names, p.Name)
		}
		o.fault(spend.NameShown(m.name), "is not accepted here: accepted are "+strings.Join(names, ", "))
	}
}

func (o *objectReader) fault(name, problem string) { o.log.add(o.path+"."+name, problem) }

// elements returns at most limit elements of a well-formed array.
func elements(array jsontext.Value, limit int) []jsontext.Value {
	var values []jsontext.Value
	d := jsontext.NewDecoder(bytes.NewBuffer(array))
	_, _ = d.ReadToken() // the bracket
	for len(values) < limit && d.PeekKind() != jsontext.KindEndArray {
		value, err := d.ReadValue()
		if err != nil {
			break
		}
		values = append(values, value.Clone())
	}
	return values
}

// unquote returns the text of a string.
func unquote(raw jsontext.Value) (string, bool) {
	if raw.Kind() != jsontext.KindString {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err == nil
}

// absent reports whether a value counts as none: null, or a blank string.
func absent(raw jsontext.Value) bool {
	s, isString := unquote(raw)
	return raw.Kind() == jsontext.KindNull || isString && spend.Blank(s)
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
