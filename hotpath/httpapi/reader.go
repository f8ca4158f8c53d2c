package httpapi

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/hotpath/spend"
)

const (
	// maxFaults bounds what one request can make the service remember; the
	// message shows fewer.
	maxFaults = 100
	// maxFieldShown is how much of an unknown field's name is told back.
	maxFieldShown = 64
	// maxShared is the largest body that decoded strings may share. A larger
	// one is mostly something else, which they must not keep alive.
	maxShared = 32 << 10
)

// reader takes one JSON object apart, strictly (S1, S2). Once the text is
// broken it gives only zero values, so that decoders need not ask; faults of
// fields gather in faults, and end tells which of the two there was. Strings
// that it gives own their bytes.
type reader struct {
	dec    jsontext.Decoder
	buf    bytes.Buffer // over the body; the decoder reads it in place
	body   []byte
	own    string // the body copied once, which strings share; empty if it is large
	err    error  // the first thing wrong with the text
	faults spend.Faults
	prefix string // of the paths of faults: "" or "actions[3]."
	name   string // the member that next found
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// openReader begins to read a body. The reader must be closed.
func openReader(body []byte) *reader {
	r := readers.Get().(*reader)
	r.body = body
	if len(body) <= maxShared {
		r.own = string(body)
	}
	r.buf = *bytes.NewBuffer(body)
	r.dec.Reset(&r.buf)
	return r
}

// close lets go of the body. The faults stay with whoever took them.
func (r *reader) close() {
	r.buf = bytes.Buffer{}
	r.dec.Reset(&r.buf)
	r.body, r.own, r.err, r.faults, r.prefix, r.name = nil, "", nil, nil, "", ""
	readers.Put(r)
}

// object begins the body, which must be an object.
func (r *reader) object() {
	if kind := r.dec.PeekKind(); kind != '{' && kind != 0 {
		// Broken text is the better reason, if it is broken.
		if _, r.err = r.dec.ReadValue(); r.err == nil {
			r.err = errNotObject
		}
		return
	}
	r.token()
}

// end gives what is wrong with the request: its text, or else its fields.
func (r *reader) end() error {
	if r.err == nil {
		if _, err := r.dec.ReadToken(); err == nil {
			r.err = errTrailing
		} else if !errors.Is(err, io.EOF) {
			r.err = err
		}
	}
	if r.err == nil && escapesNUL(r.body) {
		r.err = errNUL
	}
	if r.err != nil {
		return asBodyError(r.err)
	}
	return r.faults.Err()
}

// next moves to the next member of the innermost object and names it.
func (r *reader) next() bool {
	if r.err != nil || r.dec.PeekKind() == '}' {
		r.token()
		return false
	}
	name := r.value()
	if r.err != nil {
		return false
	}
	r.name = r.unquote(name)
	return true
}

// enter begins an object or array under the current path; anything else is
// skipped and a fault.
func (r *reader) enter(kind jsontext.Kind, path, accepted string) bool {
	if r.err != nil {
		return false
	}
	if found := r.dec.PeekKind(); found != kind && found != 0 {
		r.value()
		r.fault(path, accepted)
		return false
	}
	r.token()
	return r.err == nil
}

// more reports whether the innermost array has another element.
func (r *reader) more() bool {
	if r.err != nil || r.dec.PeekKind() == ']' {
		r.token()
		return false
	}
	return true
}

func (r *reader) token() {
	if r.err == nil {
		_, r.err = r.dec.ReadToken()
	}
}

// value gives the next value whole. It aliases the body.
func (r *reader) value() jsontext.Value {
	if r.err != nil {
		return nil
	}
	v, err := r.dec.ReadValue()
	r.err = err
	return v
}

// text gives a string; null is "".
func (r *reader) text() string {
	v := r.value()
	switch v.Kind() {
	case '"':
		return r.unquote(v)
	case 'n':
	default:
		r.fault(r.name, "must be a string")
	}
	return ""
}

// amount gives a decimal and whether there was one; a fault counts as one.
func (r *reader) amount() (a spend.Amount, present bool) {
	v := r.value()
	switch v.Kind() {
	case '0':
		a, err := spend.ParseAmount(r.share(v))
		if err != nil {
			r.fault(r.name, err.Error())
		}
		return a, true
	case 'n':
		return a, false
	default:
		r.fault(r.name, spend.ErrNotNumber.Error())
		return a, true
	}
}

// integer gives a whole number in a range and whether there was one; a fault
// counts as one.
func (r *reader) integer(low, high int) (n int, present bool) {
	v := r.value()
	if v.Kind() == 'n' || r.err != nil {
		return 0, false
	}
	wide, ok := spend.ParseInteger(r.share(v))
	if !ok || wide < int64(low) || wide > int64(high) {
		r.fault(r.name, "must be an integer of "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
	return int(wide), true
}

// boolean gives true or false and whether there was one; a fault counts as one.
func (r *reader) boolean() (b, present bool) {
	switch v := r.value(); v.Kind() {
	case 't', 'f':
		return v.Kind() == 't', true
	case 'n':
		return false, false
	default:
		r.fault(r.name, "must be true or false")
		return false, true
	}
}

// unknown refuses the member that next found (S2).
func (r *reader) unknown() {
	r.value()
	r.fault(clip(r.name), "is not a known field")
}

// fault records what is wrong with a field of a well-formed text.
func (r *reader) fault(path, problem string) {
	if r.err == nil && len(r.faults) < maxFaults {
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

// unquote gives the text of a string that value just gave.
func (r *reader) unquote(v jsontext.Value) string {
	if bytes.IndexByte(v, '\\') < 0 {
		s := r.share(v)
		return s[1 : len(s)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, v) // the text was just checked
	return string(text)
}

// share gives the bytes of what value just gave as a string.
func (r *reader) share(v jsontext.Value) string {
	if r.own == "" {
		return string(v)
	}
	end := int(r.dec.InputOffset())
	return r.own[end-len(v) : end]
}

// escapesNUL reports whether a string of a well-formed text has U+0000 in it,
// which can only be written as an escape.
func escapesNUL(body []byte) bool {
	if !bytes.Contains(body, escapedNUL) {
		return false
	}
	for i := 0; i < len(body)-1; i++ {
		if body[i] != '\\' {
			continue
		}
		if bytes.HasPrefix(body[i:], escapedNUL) {
			return true
		}
		i++ // whatever is escaped begins no escape itself
	}
	return false
}

var escapedNUL = []byte(`\u0000`)

// What is wrong with a body besides its grammar.
var (
	errEmpty     = &bodyError{"the body is empty; it must be one JSON object"}
	errNotObject = &bodyError{"the body must be one JSON object"}
	errTrailing  = &bodyError{"the body must be one JSON object and nothing after it"}
	errNUL       = &bodyError{"the body must not contain U+0000 in a string"}
)

// asBodyError says what is wrong with the text without telling any of it back.
func asBodyError(err error) error {
	syntax, hasPlace := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case isBodyError(err):
		return err
	case errors.Is(err, io.EOF):
		return errEmpty
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &bodyError{"the body is malformed JSON: it ends too early"}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &bodyError{"the body has a duplicate member name in an object"}
	case hasPlace:
		return &bodyError{"the body is malformed JSON at byte " + strconv.FormatInt(syntax.ByteOffset, 10)}
	default:
		return &bodyError{"the body is malformed JSON"}
	}
}
