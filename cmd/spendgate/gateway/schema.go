package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// keywords are the members of a JSON Schema that the gateway reads.
type keywords struct {
	Type       jsontext.Value            `json:"type"`
	Properties map[string]jsontext.Value `json:"properties"`
	Ref        string                    `json:"$ref"`
	AllOf      []jsontext.Value          `json:"allOf"`
	AnyOf      []jsontext.Value          `json:"anyOf"`
	OneOf      []jsontext.Value          `json:"oneOf"`
}

const (
	maxNested = 16  // references and alternatives within one another
	maxParts  = 256 // of one schema
)

// partsOf returns schemas together with the schemas that they refer to in the root, those that
// apply with them (allOf), and their alternatives (anyOf, oneOf).
func partsOf(root jsontext.Value, schemas []jsontext.Value) (parts []keywords) {
	var add func(schema jsontext.Value, depth int)
	add = func(schema jsontext.Value, depth int) {
		var k keywords
		if depth > maxNested || len(parts) >= maxParts || len(schema) == 0 || json.Unmarshal(schema, &k, lax()) != nil {
			return
		}
		parts = append(parts, k)
		if k.Ref != "" {
			add(referred(root, k.Ref), depth+1)
		}
		for _, inner := range slices.Concat(k.AllOf, k.AnyOf, k.OneOf) {
			add(inner, depth+1)
		}
	}
	for _, schema := range schemas {
		add(schema, 0)
	}
	return parts
}

// referred returns the schema that a reference within the root names; nil if there is none.
func referred(root jsontext.Value, ref string) jsontext.Value {
	path := pointer(ref)
	if path == nil {
		return nil
	}
	for _, name := range path {
		var members map[string]jsontext.Value
		if json.Unmarshal(root, &members, lax()) != nil {
			return nil
		}
		root = members[name]
	}
	return root
}

// pointer returns the names on the path of a reference into its own schema; nil for any other
// reference.
func pointer(ref string) []string {
	path, inside := strings.CutPrefix(ref, "#/")
	if !inside {
		return nil
	}
	names := strings.Split(path, "/")
	for i := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(names[i])
	}
	return names
}

// propertiesOf returns the properties of schemas by name, each with all its definitions; none if
// the schemas name no properties.
func propertiesOf(root jsontext.Value, schemas []jsontext.Value) map[string][]jsontext.Value {
	all := make(map[string][]jsontext.Value)
	for _, part := range partsOf(root, schemas) {
		for name, property := range part.Properties {
			all[name] = append(all[name], property)
		}
	}
	return all
}

// typesAt returns the types that a schema allows for an argument; none if it does not say.
func typesAt(root jsontext.Value, path string) (types []string) {
	at := []jsontext.Value{root}
	for name := range strings.SplitSeq(path, ".") {
		at = propertiesOf(root, at)[name]
	}
	left := maxParts
	for _, schema := range at {
		own := typesOf(root, schema, &left)
		if own == nil {
			return nil
		}
		types = append(types, own...)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// typesOf returns the types of a schema's values: its own types, or those of the schema that it
// refers to, of one that applies with it, or of all its alternatives. left bounds the number of
// schemas that are read.
func typesOf(root, schema jsontext.Value, left *int) (types []string) {
	var k keywords
	if *left--; *left < 0 || len(schema) == 0 || json.Unmarshal(schema, &k, lax()) != nil {
		return nil
	}
	if one, ok := textOf(k.Type); ok {
		return []string{one}
	}
	var several []string
	if json.Unmarshal(k.Type, &several) == nil && several != nil {
		return several
	}
	if k.Ref != "" {
		return typesOf(root, referred(root, k.Ref), left)
	}
	for _, part := range k.AllOf {
		if types := typesOf(root, part, left); types != nil {
			return types
		}
	}
	for _, alternative := range slices.Concat(k.AnyOf, k.OneOf) {
		own := typesOf(root, alternative, left)
		if own == nil {
			return nil
		}
		types = append(types, own...)
	}
	return types
}

// checkFilled refuses a tool whose schema names its arguments, but not the one that is to take
// the idempotency key: a server that ignores the key would carry a repeated call out twice.
func (t *tool) checkFilled(schema jsontext.Value) error {
	properties := propertiesOf(schema, []jsontext.Value{schema})
	if t.IdempotencyArgument == "" || len(properties) == 0 || properties[t.IdempotencyArgument] != nil {
		return nil
	}
	return fmt.Errorf("the tool's schema has no argument %q, which the gateway's file says takes the idempotency key: somebody must correct "+
		"the file (idempotency_argument)", t.IdempotencyArgument)
}

// notes returns what the author of a mapping should know about the tool's schema.
func (t *tool) notes(schema jsontext.Value) (notes []string) {
	if err := t.checkFilled(schema); err != nil {
		notes = append(notes, err.Error())
	}
	if t.OnError == onErrorFailed {
		notes = append(notes, "on_error: failed sends a call again that the server answered with an error, or that was cancelled: if the server "+
			"carried it out all the same, it pays twice")
	}
	if t.Same == nil {
		notes = append(notes, "same is not given: a call that differs in any argument, such as a note, is another payment")
	}
	read := t.reads()
	paths := slices.Sorted(maps.Values(read))
	for _, path := range slices.Compact(paths) {
		known, names := []jsontext.Value{schema}, strings.Split(path, ".")
		for i, name := range names {
			properties := propertiesOf(schema, known)
			if name != "" && len(properties) > 0 && properties[name] == nil {
				notes = append(notes, fmt.Sprintf("the tool's schema has no argument %s, which is read", path))
			}
			for _, other := range slices.Sorted(maps.Keys(properties)) {
				switch {
				case isRead(paths, strings.Join(append(slices.Clone(names[:i]), other), ".")):
				case other != name && spelt(other, names[i:]) > 0:
					notes = append(notes, fmt.Sprintf("the tool's schema has %s beside %s, which is read: a call with another value there is refused",
						printable(other), path))
				case path == read["amount"] && i == len(names)-1 && isCurrency(other):
					notes = append(notes, fmt.Sprintf("the tool's schema has %s beside the amount, and the currency is read elsewhere: a call with "+
						"another one is refused", printable(other)))
				}
			}
			known = properties[name]
		}
	}
	return notes
}

// hide removes an argument from a schema, wherever the schema has it. An absent schema allows any
// arguments, and is written out as such: a member without a value would make the whole list
// invalid.
func hide(root jsontext.Value, argument string) jsontext.Value {
	if len(root) == 0 {
		return jsontext.Value(`{"type":"object"}`)
	}
	for _, part := range partsOf(root, []jsontext.Value{root}) {
		if path := pointer(part.Ref); path != nil {
			root = hiddenAt(root, path, argument)
		}
	}
	return hidden(root, argument, 0)
}

// hiddenAt is like hidden, for the schema at a path inside another one.
func hiddenAt(root jsontext.Value, path []string, argument string) jsontext.Value {
	if len(path) == 0 {
		return hidden(root, argument, 0)
	}
	o, err := parseObject(root)
	if inner := o.get(path[0]); err == nil && inner != nil {
		return o.with(path[0], hiddenAt(inner, path[1:], argument)).text()
	}
	return root
}

// hidden is like hide, but does not follow references.
func hidden(schema jsontext.Value, argument string, depth int) jsontext.Value {
	o, err := parseObject(schema)
	if err != nil || o == nil || depth > maxNested {
		return schema
	}
	if properties, err := parseObject(o.get("properties")); err == nil && properties != nil {
		o = o.with("properties", properties.without(argument).text())
	}
	var required []string
	if json.Unmarshal(o.get("required"), &required) == nil {
		kept := slices.DeleteFunc(required, func(name string) bool { return strings.EqualFold(name, argument) })
		o = o.with("required", encode(append([]string{}, kept...)))
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		var parts []jsontext.Value
		if json.Unmarshal(o.get(name), &parts, lax()) == nil && parts != nil {
			for i := range parts {
				parts[i] = hidden(parts[i], argument, depth+1)
			}
			o = o.with(name, encode(parts))
		}
	}
	return o.text()
}
