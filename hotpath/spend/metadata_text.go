package spend

import (
	"bytes"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// metadataText is a metadata value that is being read, and the memory for it,
// which is used again.
type metadataText struct {
	text    []byte
	in      bytes.Buffer // of text
	decoder jsontext.Decoder
}

var metadataTexts = sync.Pool{New: func() any { return new(metadataText) }}

// maxTextKept is the largest text whose memory is used again.
const maxTextKept = 2 * MaxMetadataBytes

func (t *metadataText) release() {
	if cap(t.text) > maxTextKept {
		*t = metadataText{}
	}
	metadataTexts.Put(t)
}

// format begins to read a value, written without white space and as the option
// says.
func (t *metadataText) format(value string, option jsontext.Options) error {
	t.text = append(t.text[:0], value...)
	var err error
	t.text, err = jsontext.AppendFormat(t.text[:0], t.text, option)
	t.in = *bytes.NewBuffer(t.text)
	t.decoder.Reset(&t.in, jsontext.AllowDuplicateNames(true)) // there are none any more
	return err
}

// members reads the members of an object; value is its text. False means that
// there was a fault after which there is no use in reading on.
func (t *metadataText) members(value, path string, faults *Faults, m *Metadata) bool {
	d := &t.decoder
	_, _ = d.ReadToken() // the brace; the text was checked when it was formatted
	for d.PeekKind() == jsontext.KindString {
		name, _ := d.ReadValue()
		end := int(d.InputOffset())
		key := unquote(value[end-len(name) : end])
		if !t.passValue(path, faults) {
			return false
		}
		if m != nil {
			m.read(key, value[end+len(":"):d.InputOffset()], path, faults)
		}
	}
	return true
}

// passValue reads a value of any depth. It reports whether it and the numbers
// in it are within their limits.
func (t *metadataText) passValue(path string, faults *Faults) bool {
	d := &t.decoder
	for {
		switch d.PeekKind() {
		case jsontext.KindBeginObject, jsontext.KindBeginArray:
			_, _ = d.ReadToken()
			if d.StackDepth() > MaxMetadataDepth {
				faults.Add(path, "must be at most 8 levels deep")
				return false
			}
		case jsontext.KindEndObject, jsontext.KindEndArray:
			_, _ = d.ReadToken()
		case jsontext.KindNumber:
			if number, _ := d.ReadValue(); longExponent(string(number)) {
				faults.Add(t.place(path), "must have an exponent of at most 4 digits")
				return false
			}
		default: // a name, too
			_, _ = d.ReadValue()
		}
		if d.StackDepth() == 1 {
			return true
		}
	}
}

// place returns the path of the value that was read last.
func (t *metadataText) place(path string) string {
	level := 0
	for token := range t.decoder.StackPointer().Tokens() {
		level++
		if kind, _ := t.decoder.StackIndex(level); kind == jsontext.KindBeginArray {
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
