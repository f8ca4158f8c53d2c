package httpapi

import (
	"errors"
	"strconv"
	"strings"
	"sync"

	"spendgate/hotpath/spend"
	"spendgate/hotpath/strictjson"
)

const (
	// maxFaults bounds what one request can make the service remember; the
	// message shows fewer.
	maxFaults = 100
	// maxShared is the largest body that decoded strings may share. A larger
	// one is mostly something else, which they must not keep alive.
	maxShared = 32 << 10
)

// reader takes one JSON object apart, strictly (S1, S2): its text is checked
// whole before anything is read of it. Faults of fields gather in faults.
// Strings that it gives own their bytes.
type reader struct {
	checker strictjson.Checker
	shared  bool               // strings are pieces of one copy of the body
	members strictjson.Members // of the object that is being read, at the one that next found
	faults  spend.Faults
	prefix  string // of the paths of faults: "" or "actions[3]."
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// readObject hands a body, which must be one JSON object, to read. What is
// wrong with its text wins over all that read could find.
func readObject(body []byte, read func(*reader) error) error {
	r := readers.Get().(*reader)
	defer func() {
		*r = reader{checker: r.checker} // the faults stay with whoever took them
		readers.Put(r)
	}()
	text := string(body)
	if err := r.checker.Check(text); err != nil {
		return asBodyError(err)
	}
	if strictjson.Kind(text) != '{' {
		return errNotObject
	}
	r.shared = len(text) <= maxShared
	r.members = strictjson.MembersOf(text)
	return read(r)
}

// next moves to the next member of the object.
func (r *reader) next() bool { return r.members.Next() }

// name is that of the member. It is a piece of the body.
func (r *reader) name() string { return r.members.Name }

// value is the member's as it is written, a piece of the body.
func (r *reader) value() string { return r.members.Value }

// kind tells what the member's value is, as strictjson.Kind does.
func (r *reader) kind() byte { return strictjson.Kind(r.members.Value) }

// own gives text that may be a piece of the body as one to be kept.
func (r *reader) own(text string) string {
	if r.shared {
		return text
	}
	return strings.Clone(text)
}

// text gives a string; null is "".
func (r *reader) text() string {
	switch r.kind() {
	case '"':
		return r.own(strictjson.Unquote(r.value()))
	case 'n':
	default:
		r.fault(r.name(), "must be a string")
	}
	return ""
}

// amount gives a decimal and whether there was one; a fault counts as one.
func (r *reader) amount() (a spend.Amount, present bool) {
	switch r.kind() {
	case '0':
		a, err := spend.ParseAmount(r.value())
		if err != nil {
			r.fault(r.name(), err.Error())
		}
		return a, true
	case 'n':
		return a, false
	default:
		r.fault(r.name(), spend.ErrNotNumber.Error())
		return a, true
	}
}

// integer gives a whole number in a range and whether there was one; a fault
// counts as one.
func (r *reader) integer(low, high int) (n int, present bool) {
	if r.kind() == 'n' {
		return 0, false
	}
	wide, ok := spend.ParseInteger(r.value())
	if !ok || wide < int64(low) || wide > int64(high) {
		r.fault(r.name(), "must be an integer of "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
	return int(wide), true
}

// boolean gives true or false and whether there was one; a fault counts as one.
func (r *reader) boolean() (b, present bool) {
	switch kind := r.kind(); kind {
	case 't', 'f':
		return kind == 't', true
	case 'n':
		return false, false
	default:
		r.fault(r.name(), "must be true or false")
		return false, true
	}
}

// unknown refuses the member that next found (S2).
func (r *reader) unknown() { r.fault(spend.NameShown(r.name()), "is not a known field") }

// fault records what is wrong with a field.
func (r *reader) fault(path, problem string) {
	if len(r.faults) < maxFaults {
		r.faults.Add(r.prefix+path, problem)
	}
}

// missing is a fault of a required field, unless the field has another since
// the mark: then it was there.
func (r *reader) missing(path string, mark int) {
	if !faulted(r.faults[mark:], r.prefix+path) {
		r.fault(path, "is required")
	}
}

func faulted(faults spend.Faults, path string) bool {
	for _, f := range faults {
		if f.Path == path {
			return true
		}
	}
	return false
}

// What is wrong with a body besides its grammar.
var (
	errEmpty     = &bodyError{"the body is empty; it must be one JSON object"}
	errNotObject = &bodyError{"the body must be one JSON object"}
	errTrailing  = &bodyError{"the body must be one JSON object and nothing after it"}
	errTruncated = &bodyError{"the body is malformed JSON: it ends too early"}
	errTwice     = &bodyError{"the body has a duplicate member name in an object"}
	errNUL       = &bodyError{"the body must not contain U+0000 in a string"}
)

// asBodyError says what strictjson found without telling any of it back.
func asBodyError(err error) error {
	syntax, hasPlace := errors.AsType[*strictjson.SyntaxError](err)
	switch {
	case hasPlace:
		return &bodyError{"the body is malformed JSON at byte " + strconv.Itoa(syntax.Offset)}
	case errors.Is(err, strictjson.ErrEmpty):
		return errEmpty
	case errors.Is(err, strictjson.ErrTruncated):
		return errTruncated
	case errors.Is(err, strictjson.ErrTrailing):
		return errTrailing
	case errors.Is(err, strictjson.ErrDuplicateName):
		return errTwice
	case errors.Is(err, strictjson.ErrNUL):
		return errNUL
	default:
		return &bodyError{"the body is malformed JSON"}
	}
}
