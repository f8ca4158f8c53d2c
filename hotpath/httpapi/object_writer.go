package httpapi

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// objectWriter appends a JSON object to a buffer: its members, in the order of the calls. newObject
// begins and end ends it.
type objectWriter []byte

func newObject(dst []byte) objectWriter { return append(dst, '{') }

func (o *objectWriter) end() []byte { return append(*o, '}') }

// name begins a member, whose value must follow.
func (o *objectWriter) name(name string) {
	b := *o
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	*o = append(append(append(b, '"'), name...), `":`...)
}

func (o *objectWriter) text(name, value string) {
	o.name(name)
	*o = appendString(*o, value)
}

// optional writes null for an empty text.
func (o *objectWriter) optional(name, value string) {
	if value == "" {
		o.null(name)
		return
	}
	o.text(name, value)
}

// given leaves an empty text out.
func (o *objectWriter) given(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

// raw writes a value that is JSON already; null if it is empty.
func (o *objectWriter) raw(name, json string) {
	if json == "" {
		o.null(name)
		return
	}
	o.name(name)
	*o = append(*o, json...)
}

func (o *objectWriter) null(name string) {
	o.name(name)
	*o = append(*o, "null"...)
}

// id writes a text that cannot need escapes.
func (o *objectWriter) id(name string, id spend.ID, prefix string) {
	o.name(name)
	*o = append(id.Append(append(*o, '"'), prefix), '"')
}

func (o *objectWriter) integer(name string, n int64) {
	o.name(name)
	*o = strconv.AppendInt(*o, n, 10)
}

// count writes null for a number that is not known.
func (o *objectWriter) count(name string, known bool, n int64) {
	if !known {
		o.null(name)
		return
	}
	o.integer(name, n)
}

func (o *objectWriter) boolean(name string, b bool) {
	o.name(name)
	*o = strconv.AppendBool(*o, b)
}

func (o *objectWriter) time(name string, t time.Time) {
	o.name(name)
	*o = appendTime(*o, t)
}

// optionalTime writes null for the zero time.
func (o *objectWriter) optionalTime(name string, t time.Time) {
	if t.IsZero() {
		o.null(name)
		return
	}
	o.time(name, t)
}

// sum writes an amount or a total; null for one that is not known.
func sum[A interface{ Append(dst []byte) []byte }](o *objectWriter, name string, known bool, a A) {
	if !known {
		o.null(name)
		return
	}
	o.name(name)
	*o = a.Append(*o)
}

// amount writes the amount of an action or an outcome, as a string if asText; null for an unknown one.
func (o *objectWriter) amount(known bool, a spend.Amount, asText bool) {
	if !known || !asText {
		sum(o, "amount", known, a)
		return
	}
	o.name("amount")
	*o = append(a.Append(append(*o, '"')), '"')
}

func (o *objectWriter) texts(name string, values []string) {
	o.name(name)
	*o = appendArray(*o, len(values), func(dst []byte, i int) []byte { return appendString(dst, values[i]) })
}

// appendArray writes an array of n elements, each as element appends it.
func appendArray(dst []byte, n int, element func(dst []byte, i int) []byte) []byte {
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, i)
	}
	return append(dst, ']')
}

// appendString writes a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	if !plain(s) {
		dst, _ = jsontext.AppendQuote(dst, s) // the error only says that it mended s
		return dst
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// plain reports whether a string is written unchanged: printable ASCII without quotation marks and
// backslashes. It looks at eight bytes at once.
func plain(s string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	has := func(word, c uint64) uint64 { // with that byte; c is below 0x80
		x := word ^ ones*c
		return (x - ones) &^ x & high
	}
	for ; len(s) >= 8; s = s[8:] {
		w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56 // one load
		if w&high|(w-ones*' ')&^w&high|has(w, '"')|has(w, '\\')|has(w, 0x7f) != 0 {
			return false
		}
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}

// appendOptional writes null for an absent string.
func appendOptional(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, s)
}

// appendTime writes S5: RFC 3339, UTC, milliseconds, Z. The standard form is
// the one that package time writes fast; the milliseconds go before its Z.
func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, time.RFC3339)
	ms := t.Nanosecond() / 1e6
	return append(dst[:len(dst)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z', '"')
}
