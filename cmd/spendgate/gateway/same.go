package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
		var level struct {
			Properties map[string]jsontext.Value `json:"properties"`
		}
		if err := json.Unmarshal(schema, &level, lax()); err != nil {
			return nil
		}
		schema = level.Properties[name]
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
