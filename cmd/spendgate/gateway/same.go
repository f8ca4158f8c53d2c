package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"
)

// checkSame refuses what says which payment a call is and a server could take for that of
// another call: a number that not all programs read alike, and another type than the
// tool's schema says.
func (t *tool) checkSame(arguments, schema jsontext.Value) error {
	for _, path := range t.Same {
		value, err := at(arguments, path)
		if err != nil {
			return err
		}
		if value == nil {
			continue
		}
		if types := typesAt(schema, path); len(types) > 0 && !slices.ContainsFunc(types, func(name string) bool { return isOf(value, name) }) {
			return fmt.Errorf("argument %s must be %s, as the tool's schema says, not %s", path, strings.Join(types, " or "), kindOf(value))
		}
		if value.Kind() == '0' {
			if err := checkDigits(value); err != nil {
				return fmt.Errorf("argument %s %w", path, err)
			}
		}
	}
	return nil
}

// reads returns the arguments that a call is read from, by the members of the file.
func (t *tool) reads() map[string]string {
	read := make(map[string]string)
	if t.Amount != nil {
		read["amount"] = t.Amount.Argument
	}
	if t.Currency != nil {
		read["currency"] = t.Currency.Argument
	}
	if t.Counterparty != nil {
		read["counterparty"] = t.Counterparty.Argument
	}
	for name, from := range t.Metadata {
		read["metadata."+name] = from.Argument
	}
	for i, argument := range t.Same {
		read[fmt.Sprintf("same[%d]", i)] = argument
	}
	return read
}

// checkSpelling refuses an argument that the tool's schema does not have, and a server could
// take for one that is read: order_total for orderTotal.
func (t *tool) checkSpelling(arguments, schema jsontext.Value) error {
	for _, path := range append(slices.Sorted(maps.Values(t.reads())), t.IdempotencyArgument) {
		within, known := arguments, schema
		for name := range strings.SplitSeq(path, ".") {
			o, err := parseObject(within)
			if err != nil { // whoever reads the value says what is wrong
				break
			}
			properties := propertiesOf(known)
			plain := plainName(name)
			for _, m := range o {
				if plain != "" && properties[m.name] == nil && !strings.EqualFold(m.name, name) && plainName(m.name) == plain {
					return fmt.Errorf("argument %s is written %q, which the tool's schema does not have", path, m.name)
				}
			}
			within, known = o.get(name), properties[name]
		}
	}
	return nil
}

// plainName returns what names have in common that some programs read as one: the letters and
// digits.
func plainName(name string) string {
	return folded(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, norm.NFKC.String(name)))
}

// isOf reports whether a value is of a type of JSON Schema, as far as its kind tells.
func isOf(value jsontext.Value, name string) bool {
	switch value.Kind() {
	case '0':
		return name == "number" || name == "integer"
	case '"':
		return name == "string"
	case '{':
		return name == "object"
	case '[':
		return name == "array"
	default:
		return name == "boolean"
	}
}

// typesAt returns the types that a schema gives an argument; none if it does not say.
func typesAt(schema jsontext.Value, path string) []string {
	for name := range strings.SplitSeq(path, ".") {
		schema = propertiesOf(schema)[name]
	}
	var leaf struct {
		Type jsontext.Value `json:"type"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &leaf, lax()) != nil {
		return nil
	}
	if one, ok := textOf(leaf.Type); ok {
		return []string{one}
	}
	var several []string
	_ = json.Unmarshal(leaf.Type, &several) // what is no list says nothing
	return several
}

// propertiesOf returns the properties that a schema has by name; none if it does not say.
func propertiesOf(schema jsontext.Value) map[string]jsontext.Value {
	var level struct {
		Properties map[string]jsontext.Value `json:"properties"`
	}
	_ = json.Unmarshal(schema, &level, lax()) // what is no schema says nothing
	return level.Properties
}
