package spend

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// compactText gives well-formed JSON without the white space between tokens,
// every token as it is, and how deep its objects and arrays nest: a flat
// object has depth 1.
func compactText(raw []byte) (text string, depth int) {
	var b strings.Builder
	b.Grow(len(raw))
	open, quoted, kept := 0, false, 0 // raw[kept:i] is still to be written
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
			depth = max(depth, open)
		case c == '}' || c == ']':
			open--
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			b.Write(raw[kept:i])
			kept = i + 1
		}
	}
	b.Write(raw[kept:])
	if text = b.String(); len(raw) > 2*len(text) {
		text = strings.Clone(text) // which does not keep the room for the rest
	}
	return text, depth
}

// cutMember takes the first member off the inside of a compact, well-formed
// object. The name is unquoted, the value is text.
func cutMember(inside string) (name, value, rest string, ok bool) {
	quoted, rest := cutValue(inside)
	if len(quoted) < 2 || rest == "" {
		return "", "", "", false
	}
	value, rest = cutValue(rest[1:])
	if rest != "" {
		rest = rest[1:]
	}
	return unquote(quoted), value, rest, true
}

// cutValue ends a value at the comma, colon or bracket that follows it.
func cutValue(s string) (value, rest string) {
	open, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
		case c == '}' || c == ']':
			open--
		case open == 0 && (c == ',' || c == ':'):
			return s[:i], s[i:]
		}
	}
	return s, ""
}

// unquote gives the text of a well-formed JSON string.
func unquote(quoted string) string {
	if strings.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return string(text)
}
