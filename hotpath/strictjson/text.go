package strictjson

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Members goes through the members of an object, in their order:
//
//	for m := MembersOf(object); m.Next(); {
//		... m.Name, m.Value
//	}
type Members struct {
	Name  string // its text
	Value string // as it is written
	rest  string
}

// MembersOf begins with an object.
func MembersOf(object string) Members { return Members{rest: afterMark(object)} }

// Next moves on; false means that there was no other member.
func (m *Members) Next() bool {
	name, rest := cut(m.rest)
	if name == "" {
		return false
	}
	m.Name = Unquote(name)
	m.Value, m.rest = cut(afterMark(rest))
	m.rest = afterMark(m.rest)
	return true
}

// Elements goes through the elements of an array, like Members.
type Elements struct {
	Value string // as it is written
	rest  string
}

// ElementsOf begins with an array.
func ElementsOf(array string) Elements { return Elements{rest: afterMark(array)} }

// Next moves on; false means that there was no other element.
func (e *Elements) Next() bool {
	e.Value, e.rest = cut(e.rest)
	e.rest = afterMark(e.rest)
	return e.Value != ""
}

// afterMark is the text behind the bracket, comma or colon that is next.
func afterMark(s string) string {
	if s = afterSpace(s); s == "" {
		return ""
	}
	return afterSpace(s[1:])
}

func afterSpace(s string) string {
	for s != "" && isSpace(s[0]) {
		s = s[1:]
	}
	return s
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// cut takes the value at the beginning off a text; "" if a bracket closes
// there.
func cut(s string) (value, rest string) {
	if s != "" && s[0] == '"' {
		end := closingQuote(s, 0)
		return s[:end], s[end:]
	}
	open := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			i = closingQuote(s, i) - 1
		case '{', '[':
			open++
		case '}', ']':
			if open--; open == 0 {
				return s[:i+1], s[i+1:]
			}
			if open < 0 {
				return s[:i], s[i:]
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			if open == 0 {
				return s[:i], s[i:]
			}
		}
	}
	return s, ""
}

// closingQuote is where the string that begins at i has ended.
func closingQuote(s string, i int) int {
	for i++; i < len(s); i++ {
		if s[i] == '"' {
			return i + 1
		}
		if s[i] == '\\' {
			i++
		}
	}
	return len(s)
}

// Kind is the first byte of a value, which tells what it is: one of {["tfn,
// and '0' for all numbers; 0 if there is no value.
func Kind(value string) byte {
	value = afterSpace(value)
	switch {
	case value == "":
		return 0
	case value[0] == '-' || '0' <= value[0] && value[0] <= '9':
		return '0'
	default:
		return value[0]
	}
}

// Compact gives a value without the white space between its tokens, every
// token as it is, and how deep its objects and arrays nest: a flat object has
// depth 1. A value without white space is given itself.
func Compact(value string) (text string, depth int) {
	var b strings.Builder
	open, kept := 0, 0 // value[kept:i] is still to be written
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '"':
			i = closingQuote(value, i) - 1
		case '{', '[':
			open++
			depth = max(depth, open)
		case '}', ']':
			open--
		case ' ', '\n', '\t', '\r':
			if kept == 0 {
				b.Grow(len(value))
			}
			b.WriteString(value[kept:i])
			kept = i + 1
		}
	}
	if kept == 0 {
		return value, depth
	}
	b.WriteString(value[kept:])
	if text = b.String(); len(value) > 2*len(text) {
		text = strings.Clone(text) // which does not keep the room for the rest
	}
	return text, depth
}

// Unquote gives the text of a string: a piece of it if there are no escapes.
func Unquote(quoted string) string {
	if len(quoted) < 2 {
		return ""
	}
	inside := quoted[1 : len(quoted)-1]
	if strings.IndexByte(inside, '\\') < 0 {
		return inside
	}
	return unescape(inside)
}

// unescape gives the text of what a string has between its quotes.
func unescape(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for {
		plain, escape, found := strings.Cut(s, `\`)
		b.WriteString(plain)
		if !found || escape == "" {
			return b.String()
		}
		switch c := escape[0]; c {
		case 'u':
			r, size := escapedRune(s[len(plain):])
			b.WriteRune(r)
			s = s[len(plain)+max(size, 2):]
			continue
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		default: // a quote, a backslash or a slash
			b.WriteByte(c)
		}
		s = escape[1:]
	}
}

const escapeSize = len(`\u0000`)

// escapedRune reads the \u escape at the beginning of s, or the two that are a
// pair of surrogates, and tells how long they are: 0 when they are wrong.
func escapedRune(s string) (r rune, size int) {
	r, ok := hexRune(s)
	if !ok {
		return utf8.RuneError, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, escapeSize
	}
	low, ok := hexRune(s[escapeSize:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return utf8.RuneError, 0
	}
	return r, 2 * escapeSize
}

func hexRune(s string) (r rune, ok bool) {
	if len(s) < escapeSize || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range []byte(s[2:escapeSize]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
