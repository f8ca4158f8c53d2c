package httpapi

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

const (
	// maxFaults bounds the faults that are kept for one request; the message shows fewer.
	maxFaults = 100
	// maxShared is the largest body that decoded strings may share. A larger
	// one is mostly something else, which they must not keep alive.
	maxShared = 32 << 10
)

// reader reads one JSON object, strictly (S1, S2). Faults of fields gather in
// faults. Strings that it returns own their bytes.
type reader struct {
	in       bytes.Buffer // of the body
	decoder  jsontext.Decoder
	copied   string // the body, which strings are pieces of, if it is small
	failed   error  // the fault of the text; nothing is read after it
	name     string // of the member that next found
	unread   bool   // whether that member's value is unread
	unquoted []byte // of a string that has escapes
	faults   spend.Faults
	prefix   string // of the paths of faults: "" or "actions[3]."

	textAmounts bool // amounts may be strings
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// readObject passes a body, which must be one JSON object, to read, which must read all its members. A
// fault of the text has precedence over the faults that read finds.
func readObject(body []byte, read func(*reader)) error {
	r := readers.Get().(*reader)
	defer r.release()
	r.in = *bytes.NewBuffer(body)
	r.decoder.Reset(&r.in)
	if len(body) <= maxShared {
		r.copied = string(body)
	}
	var err error
	if r.decoder.PeekKind() == jsontext.KindBeginObject {
		r.token()
		read(r)
		err = r.faults.Err()
	} else if r.value(); r.failed == nil {
		err = errNotObject
	}
	if r.failed == nil {
		r.end()
	}
	switch {
	case r.failed != nil:
		return asBodyError(r.failed, body)
	case hasNUL(body):
		return errNUL
	}
	return err
}

func (r *reader) release() {
	r.in = bytes.Buffer{}
	r.decoder.Reset(&r.in) // otherwise the decoder would keep the body
	r.copied, r.failed, r.name, r.unread, r.prefix, r.textAmounts = "", nil, "", false, "", false
	r.faults = nil // they stay with whoever took them
	if cap(r.unquoted) > maxShared {
		r.unquoted = nil
	}
	readers.Put(r)
}

// end makes sure that nothing follows the object.
func (r *reader) end() {
	_, err := r.decoder.ReadValue()
	switch {
	case err == nil:
		r.failed = errTrailing
	case !errors.Is(err, io.EOF):
		r.failed = err
	}
}

// next moves to the next member of the object. False means that there was no
// other, and that the object is over.
func (r *reader) next() bool {
	if r.unread {
		r.skip()
	}
	if r.decoder.PeekKind() != jsontext.KindString {
		r.token() // a brace, or an error
		return false
	}
	r.name = r.unquote(r.value())
	r.unread = r.failed == nil
	return r.unread
}

// kind is the kind of the next value.
func (r *reader) kind() jsontext.Kind { return r.decoder.PeekKind() }

// token reads a bracket or brace.
func (r *reader) token() {
	if r.unread = false; r.failed == nil {
		_, r.failed = r.decoder.ReadToken()
	}
}

// skip passes a value over.
func (r *reader) skip() {
	if r.unread = false; r.failed == nil {
		r.failed = r.decoder.SkipValue()
	}
}

// value reads the value of the member, as written. It is a piece of the body, valid until the next is
// read; empty if it is faulty.
func (r *reader) value() (v jsontext.Value) {
	if r.unread = false; r.failed == nil {
		v, r.failed = r.decoder.ReadValue()
	}
	return v
}

// own copies a piece of the value that was read last, which is followed by that many bytes of the
// value.
func (r *reader) own(piece []byte, behind int) string {
	if r.copied == "" {
		return string(piece)
	}
	end := int(r.decoder.InputOffset()) - behind
	return r.copied[end-len(piece) : end]
}

// unquote returns the text of the string that was read last.
func (r *reader) unquote(quoted jsontext.Value) string {
	if len(quoted) < 2 {
		return ""
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return r.own(quoted[1:len(quoted)-1], 1)
	}
	r.unquoted, _ = jsontext.AppendUnquote(r.unquoted[:0], quoted)
	return string(r.unquoted)
}

// text returns a string; null is "".
func (r *reader) text() string {
	switch v := r.value(); v.Kind() {
	case jsontext.KindString:
		return r.unquote(v)
	case jsontext.KindNull, jsontext.KindInvalid:
	default:
		r.fault(r.name, "must be a string")
	}
	return ""
}

// amount returns a decimal and whether there was one; a fault counts as one.
func (r *reader) amount() (a spend.Amount, present bool) {
	var text string
	switch kind := r.kind(); {
	case kind == jsontext.KindNull:
		return a, false
	case kind == jsontext.KindNumber:
		text = r.own(r.value(), 0)
	case kind == jsontext.KindString && r.textAmounts:
		text = r.unquote(r.value())
	}
	a, err := spend.ParseAmount(text) // of another kind it is no number
	if err != nil {
		r.fault(r.name, amountFault(text, err))
	}
	return a, true
}

// amountFault explains what to do about 0.1 + 0.2.
func amountFault(text string, err error) string {
	if errors.Is(err, spend.ErrTooManyDigits) && strings.Contains(text, ".") {
		return err.Error() + "; round it to the currency's digits"
	}
	return err.Error()
}

// integer returns a whole number of 1 to high and whether there was one; a fault
// counts as one.
func (r *reader) integer(high int) (n int, present bool) {
	if r.kind() == jsontext.KindNull {
		return 0, false
	}
	wide, ok := spend.ParseInteger(r.own(r.value(), 0))
	if !ok || wide < 1 || wide > int64(high) {
		r.fault(r.name, "must be an integer of 1 to "+strconv.Itoa(high))
	}
	return int(wide), true
}

// boolean returns true or false and whether there was one; a fault counts as one.
func (r *reader) boolean() (b, present bool) {
	switch kind := r.kind(); kind {
	case jsontext.KindTrue, jsontext.KindFalse:
		return kind == jsontext.KindTrue, true
	case jsontext.KindNull:
		return false, false
	default:
		r.fault(r.name, "must be true or false")
		return false, true
	}
}

// unknown refuses the member that next found (S2).
func (r *reader) unknown() { r.fault(spend.NameShown(r.name), "is not a known field") }

// fault records a fault of a field.
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
	return slices.ContainsFunc(faults, func(f spend.Fault) bool { return f.Path == path })
}

// The faults of a body besides its grammar.
var (
	errEmpty     = &bodyError{"the body is empty; it must be one JSON object"}
	errNotObject = &bodyError{"the body must be one JSON object"}
	errTrailing  = &bodyError{"the body must be one JSON object and nothing after it"}
	errTruncated = &bodyError{"the body is malformed JSON: it ends too early"}
	errTwice     = &bodyError{"the body has a duplicate member name in an object"}
	errNUL       = &bodyError{"the body must not contain U+0000 in a string"}
)

// asBodyError describes the fault of a text without repeating any part of the text.
func asBodyError(err error, text []byte) error {
	syntax, hasPlace := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, io.EOF):
		return errEmpty
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errTruncated
	case errors.Is(err, jsontext.ErrDuplicateName):
		return errTwice
	case hasPlace:
		reason := "the body is malformed JSON at byte " + strconv.FormatInt(syntax.ByteOffset, 10)
		if r, size := utf8.DecodeRune(text[min(int(syntax.ByteOffset), len(text)):]); r == utf8.RuneError && size == 1 {
			reason += ", which is not UTF-8"
		}
		return &bodyError{reason}
	default:
		return err
	}
}

// hasNUL reports whether a string of a well-formed text contains U+0000, which PostgreSQL cannot
// store. It can only be written as an escape.
func hasNUL(text []byte) bool {
	for {
		_, escape, found := bytes.Cut(text, []byte(`\`))
		if !found {
			return false
		}
		if bytes.HasPrefix(escape, []byte("u0000")) {
			return true
		}
		text = escape[1:] // the escaped character, which may be another backslash
	}
}
