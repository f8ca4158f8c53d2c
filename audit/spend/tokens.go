package spend

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// tokens reads a text that is known to be well-formed JSON.
type tokens struct {
	text   string
	read   int  // of text
	spaced bool // whether there was white space
}

// next returns a token as written, or "" at the end. It skips commas and colons.
func (t *tokens) next() string {
	for t.read < len(t.text) {
		start := t.read
		t.read++
		switch t.text[start] {
		case ',', ':':
			continue
		case ' ', '\t', '\r', '\n':
			t.spaced = true
			continue
		case '{', '}', '[', ']':
		case '"':
			t.endString()
		default:
			t.endScalar()
		}
		return t.text[start:t.read]
	}
	return ""
}

func (t *tokens) endString() {
	rest := t.text[t.read:]
	if end := strings.IndexByte(rest, '"'); end >= 0 && strings.IndexByte(rest[:end], '\\') < 0 {
		t.read += end + 1
		return
	}
	for t.read < len(t.text) {
		t.read++
		switch t.text[t.read-1] {
		case '"':
			return
		case '\\':
			t.read++
		}
	}
	t.read = len(t.text)
}

// endScalar passes the rest of a number or of a name.
func (t *tokens) endScalar() {
	for t.read < len(t.text) {
		switch t.text[t.read] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			return
		}
		t.read++
	}
}

// members reads the part of an object after its brace. False means that reading on is useless after a
// fault.
func (t *tokens) members(path string, faults *Faults, m *Metadata) bool {
	for name := t.next(); name != "}" && name != ""; name = t.next() {
		value := t.next()
		if !t.passValue(value, path, faults) {
			return false
		}
		if m != nil {
			m.read(unquote(name), value, path, faults)
		}
	}
	return true
}

// passValue skips the rest of a value of any depth. It reports whether it and the numbers in it are
// within their limits.
func (t *tokens) passValue(token, path string, faults *Faults) bool {
	for depth := 1; token != ""; token = t.next() {
		switch token[0] {
		case '{', '[':
			if depth++; depth > MaxMetadataDepth {
				faults.Add(path, "must be at most 8 levels deep")
				return false
			}
		case '}', ']':
			depth--
		case '"', 't', 'f', 'n':
		default:
			if longExponent(token) {
				faults.Add(t.place(path), "must have an exponent of at most 4 digits")
				return false
			}
		}
		if depth == 1 {
			break
		}
	}
	return true
}

// place returns the path of the token that was read last.
func (t *tokens) place(path string) string {
	d := jsontext.NewDecoder(strings.NewReader(t.text))
	for d.InputOffset() < int64(t.read) {
		if _, err := d.ReadToken(); err != nil {
			break
		}
	}
	level := 0
	for token := range d.StackPointer().Tokens() {
		level++
		if kind, _ := d.StackIndex(level); kind == jsontext.KindBeginArray {
			path += "[" + token + "]"
		} else {
			path += "." + NameShown(token)
		}
	}
	return path
}

// unquote returns the text of a JSON string: a piece of it if it has no escapes.
func unquote(quoted string) string {
	if strings.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // checked before
	return string(text)
}
