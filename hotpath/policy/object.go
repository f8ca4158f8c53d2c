package policy

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/hotpath/spend"
)

// maxFaults bounds what one refused policy costs: a body of 1 MiB can hold
// hundreds of thousands of faults, and an answer shows only the first few.
const maxFaults = 100

const mustBeObject = "must be an object"

// faultLog collects the faults of one policy.
type faultLog struct {
	faults *spend.Faults
	before int // how many there were already
}

func (l *faultLog) add(path, problem string) {
	if len(*l.faults)-l.before < maxFaults {
		l.faults.Add(path, problem)
	}
}

func (l *faultLog) failed() bool { return len(*l.faults) > l.before }

// presence says whether a field may be absent. null and blank are absent (S4).
type presence bool

const (
	optional presence = false
	required presence = true
)

// object is a JSON object read by the names of its members. Each name is asked
// for once; what was never asked for is an unknown field (S2).
type object struct {
	path    string
	members []member
	asked   []string
	log     *faultLog
}

type member struct {
	name  string
	value jsontext.Value
	taken bool
}

// openObject reads the members of a well-formed value, or adds a fault if it is
// not an object.
func openObject(value jsontext.Value, path string, log *faultLog) (object, bool) {
	o := object{path: path, log: log}
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

// value returns a member as it is written, nil when absent.
func (o *object) value(name string, need presence) jsontext.Value {
	o.asked = append(o.asked, name)
	for i := range o.members {
		if m := &o.members[i]; m.name == name {
			m.taken = true
			if !absent(m.value) {
				return m.value
			}
		}
	}
	if need == required {
		o.fault(name, "is required")
	}
	return nil
}

// blank reports whether a member is a blank string, for one where that is a fault.
func (o *object) blank(name string) bool {
	for i := range o.members {
		if m := &o.members[i]; m.name == name {
			return m.value.Kind() == jsontext.KindString && absent(m.value)
		}
	}
	return false
}

// text returns a string of at most limit code points, empty when absent.
func (o *object) text(name string, need presence, limit int) string {
	raw := o.value(name, need)
	if raw == nil {
		return ""
	}
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

// oneOf returns which of the names a member is, the first when it is absent.
func (o *object) oneOf(name string, need presence, names ...string) (i int, given bool) {
	raw := o.value(name, need)
	if raw == nil {
		return 0, false
	}
	s, _ := unquote(raw) // of anything but a string empty, which is no name
	if i = slices.Index(names, s); i < 0 {
		o.fault(name, "must be "+strings.Join(names[:len(names)-1], ", ")+" or "+names[len(names)-1])
		i = 0
	}
	return i, true
}

// currency returns a currency in upper case, empty when absent.
func (o *object) currency(name string, need presence) string {
	s := o.text(name, need, spend.MaxIdentifier)
	if s == "" {
		return ""
	}
	currency, ok := spend.ParseCurrency(s)
	if !ok {
		o.fault(name, "must be a currency code of three letters")
	}
	return currency
}

// amount returns a required number of 0 or more (S7).
func (o *object) amount(name string) spend.Amount {
	a, _ := o.amountIf(name, required)
	return a
}

// amountIf returns a number of 0 or more, and whether it is present.
func (o *object) amountIf(name string, need presence) (a spend.Amount, given bool) {
	raw := o.value(name, need)
	if raw == nil {
		return a, false
	}
	a, err := spend.ParseAmount(string(raw))
	if err != nil {
		o.fault(name, err.Error())
	}
	return a, true
}

// integer returns a required integer, or adds a fault saying what is accepted.
func (o *object) integer(name string, least, most int64, accepted string) int64 {
	n, _ := o.integerIf(name, required, least, most, accepted)
	return n
}

// integerIf returns an integer, and whether it is present.
func (o *object) integerIf(name string, need presence, least, most int64, accepted string) (n int64, given bool) {
	raw := o.value(name, need)
	if raw == nil {
		return 0, false
	}
	n, ok := spend.ParseInteger(string(raw))
	if !ok || n < least || n > most {
		o.fault(name, accepted)
		return 0, true
	}
	return n, true
}

// list hands each entry of an array of strings to take, which returns what is
// wrong with it, if anything. It reports whether the list is present.
func (o *object) list(name string, need presence, take func(entry string) (problem string)) bool {
	raw := o.value(name, need)
	if raw == nil {
		return false
	}
	if o.each(name, raw, take) == 0 {
		o.fault(name, "must have at least one entry")
	}
	return true
}

// entries returns the entries of a required list.
func (o *object) entries(name string) (entries []string) {
	o.list(name, required, func(entry string) string {
		entries = append(entries, entry)
		return ""
	})
	return entries
}

// each is list for an array that may be empty. It returns how many entries there
// are, -1 after a fault of the array itself.
func (o *object) each(name string, raw jsontext.Value, take func(entry string) (problem string)) int {
	if raw.Kind() != jsontext.KindBeginArray {
		o.fault(name, "must be an array of strings")
		return -1
	}
	entries := elements(raw, spend.MaxListEntries+1)
	if len(entries) > spend.MaxListEntries {
		o.fault(name, "must have at most "+strconv.Itoa(spend.MaxListEntries)+" entries")
		return -1
	}
	for i, raw := range entries {
		if problem := entryProblem(raw, take); problem != "" {
			o.fault(index(name, i), problem)
		}
	}
	return len(entries)
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

// onMissing returns what a rule does without the field it reads (S9).
func (o *object) onMissing() spend.Effect {
	switch s := o.text("on_missing", optional, spend.MaxIdentifier); s {
	case "block":
		return spend.Block
	case "escalate":
		return spend.Escalate
	case "skip", "":
	default:
		o.fault("on_missing", "must be block, escalate or skip")
	}
	return spend.Allow
}

// refuseOthers adds a fault for each member that was not asked for.
func (o *object) refuseOthers() {
	for _, m := range o.members {
		if !m.taken {
			o.fault(spend.NameShown(m.name), "is not accepted here: accepted are "+strings.Join(o.asked, ", "))
		}
	}
}

func (o *object) fault(name, problem string) { o.log.add(o.path+"."+name, problem) }

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
