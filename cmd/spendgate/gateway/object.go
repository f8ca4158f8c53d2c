package gateway

import (
	"bytes"
	jsonv1 "encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/cases"
)

// object is a JSON object that keeps its members as they are written, in their order.
type object []member

type member struct {
	name  string
	value jsontext.Value
}

// parseObject reads an object. It refuses names that programs could confuse: names given
// twice, and names that differ only by case.
func parseObject(text jsontext.Value) (object, error) {
	if len(text) == 0 {
		return nil, nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(text), lax())
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, fmt.Errorf("must be an object, not %s", kindOf(text))
	}
	var o object
	fold, names := cases.Fold(), make(map[string]bool) // folded: an agent may send any number of them
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		if names[fold.String(name)] {
			return nil, fmt.Errorf("has the name %q twice", name)
		}
		names[fold.String(name)] = true
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		o = append(o, member{name, value.Clone()})
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	return o, nil
}

// get returns a member's value, nil if no member has that very name.
func (o object) get(name string) jsontext.Value {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// without returns the object without the members of these names, whatever their case.
func (o object) without(names ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, m.name) })
	})
}

// text writes the object.
func (o object) text() jsontext.Value {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, encode(m.name)...), ':'), m.value...)
	}
	return append(out, '}')
}

// textOf returns a JSON string's text, and whether the value is one.
func textOf(value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err == nil
}

func kindOf(value jsontext.Value) string {
	switch value.Kind() {
	case '"':
		return "text"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	default:
		return "nothing"
	}
}

// lax are the options to accept everything that programs in other languages accept as JSON.
func lax() json.Options {
	return json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// encode writes a value as JSON; null if that fails.
func encode(v any) jsontext.Value {
	text, err := jsonv1.Marshal(v) // the SDK's types have its methods
	if err != nil {
		return jsontext.Value("null")
	}
	return text
}
