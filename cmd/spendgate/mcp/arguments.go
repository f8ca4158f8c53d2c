package mcp

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"spendgate/audit/spend"
)

// maxFaults bounds the message of a call with many faults.
const maxFaults = 10

// checkArguments reports every argument that is unknown, missing or of another
// type than its schema says. The service checks the values. null counts as
// absent (S1).
func checkArguments(schema *jsonschema.Schema, arguments []byte) error {
	e := new(argumentError)
	e.check(schema, arguments, "")
	if len(e.faults) == 0 {
		return nil
	}
	if len(e.faults) > maxFaults {
		e.faults = append(e.faults[:maxFaults], "and more")
	}
	return e
}

func (e *argumentError) add(path, format string, args ...any) {
	if path == "" {
		path = "arguments"
	}
	e.faults = append(e.faults, path+" "+fmt.Sprintf(format, args...))
}

// check judges the value at a path.
func (e *argumentError) check(schema *jsonschema.Schema, value jsontext.Value, path string) {
	kinds := map[string]string{"object": "{", "array": "[", "string": `"`, "number": "0", "integer": "0", "boolean": "tf"}
	if accepted, known := kinds[schema.Type]; known && !strings.ContainsRune(accepted, rune(value.Kind())) {
		e.add(path, "must be %s", withArticle(schema.Type))
		return
	}
	switch schema.Type {
	case "number", "integer":
		n, err := strconv.ParseFloat(string(value), 64) // only to compare it
		if least := schema.Minimum; err == nil && least != nil && n < *least {
			e.add(path, "must be %g or more", *least)
		}
		if most := schema.Maximum; err == nil && most != nil && n > *most {
			e.add(path, "must be %g or less", *most)
		}
	case "object":
		e.checkObject(schema, value, path)
	case "array":
		var elements []jsontext.Value
		if err := json.Unmarshal(value, &elements); err != nil {
			e.add(path, "must be well-formed JSON")
			return
		}
		for i, element := range elements {
			e.check(schema.Items, element, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

func (e *argumentError) checkObject(schema *jsonschema.Schema, value jsontext.Value, path string) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(value, &members); err != nil {
		e.add(path, "must be well-formed JSON, no name twice")
		return
	}
	join := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	// In order, so that the same call has the same message.
	for _, name := range slices.Sorted(maps.Keys(members)) {
		property, known := schema.Properties[name]
		switch {
		case !known && open(schema):
		case !known:
			e.add(join(name), "is not known: there are %s", strings.Join(schema.PropertyOrder, ", "))
		case members[name].Kind() != 'n':
			e.check(property, members[name], join(name))
		}
	}
	for _, name := range schema.Required {
		if absent(members[name]) {
			e.add(join(name), "is required")
		}
	}
}

// absent reports whether a member is not there, null or blank (S4).
func absent(value jsontext.Value) bool {
	if value.Kind() == '"' {
		text, err := jsontext.AppendUnquote(nil, value)
		return err == nil && len(bytes.TrimSpace(text)) == 0
	}
	return len(value) == 0 || value.Kind() == 'n'
}

// open reports whether an object takes members that the schema does not name.
func open(schema *jsonschema.Schema) bool {
	return schema.AdditionalProperties == nil || schema.AdditionalProperties.Not == nil
}

func withArticle(jsonType string) string {
	if strings.ContainsAny(jsonType[:1], "aio") {
		return "an " + jsonType
	}
	return "a " + jsonType
}

// decode reads arguments that were checked. Numbers in free objects keep their
// digits, and an integer may be spelt 5.0 (S8), as many hosts do.
func decode(arguments []byte, into any) error {
	numbers := json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *any) error {
		if d.PeekKind() != '0' {
			return errors.ErrUnsupported // not for this function
		}
		text, err := d.ReadValue()
		*v = stdjson.Number(text)
		return err
	})
	integers := json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *int) error {
		if d.PeekKind() != '0' {
			return errors.ErrUnsupported
		}
		text, err := d.ReadValue()
		if err != nil {
			return err
		}
		n, ok := spend.ParseInteger(string(text))
		if !ok {
			return errors.New("must be an integer")
		}
		*v = int(n)
		return nil
	})
	err := json.Unmarshal(arguments, into, json.WithUnmarshalers(json.JoinUnmarshalers(numbers, integers)))
	if err == nil {
		return nil
	}
	e := new(argumentError)
	if semantic, ok := err.(*json.SemanticError); ok && semantic.Err != nil { //nolint:errorlint // returned by Unmarshal itself
		e.add(dotted(semantic.JSONPointer), "%v", semantic.Err)
	} else {
		e.add("", "cannot be understood: %v", err)
	}
	return e
}

// without returns an object of arguments without a member, if it has that. The other values are as they were.
func without(arguments []byte, name string) ([]byte, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(arguments, &members); err != nil {
		return nil, fmt.Errorf("the arguments are no object: %w", err)
	}
	if _, given := members[name]; !given {
		return arguments, nil
	}
	delete(members, name)
	return json.Marshal(members, json.Deterministic(true))
}

// dotted writes a JSON pointer as the service writes paths: actions[3].amount.
func dotted(pointer jsontext.Pointer) string {
	var path strings.Builder
	for token := range pointer.Tokens() {
		switch {
		case strings.Trim(token, "0123456789") == "":
			path.WriteString("[" + token + "]")
		case path.Len() > 0:
			path.WriteString("." + token)
		default:
			path.WriteString(token)
		}
	}
	return path.String()
}

// numbersOut writes numbers that were kept as text.
func numbersOut() *json.Marshalers {
	return json.MarshalToFunc(func(e *jsontext.Encoder, n stdjson.Number) error { return e.WriteValue(jsontext.Value(n)) })
}
