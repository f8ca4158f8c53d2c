package gateway

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// reads returns the paths of the arguments that the gateway reads from a call, by the members
// of the file that name them.
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
	if t.Same != nil {
		for i, argument := range t.Same.paths {
			read[fmt.Sprintf("same[%d]", i)] = argument
		}
	}
	return read
}

// known returns the paths of all arguments that a call may have.
func (t *tool) known() []string {
	return slices.Concat(slices.Sorted(maps.Values(t.reads())), t.Pass, []string{t.IdempotencyArgument})
}

// closed refuses a call that has an argument which the file neither maps nor passes: the server could take it for something
// that decides.
func closed(arguments jsontext.Value, known []string, prefix string) error {
	o, err := parseObject(arguments)
	if err != nil {
		return fmt.Errorf("the arguments %w", err)
	}
	for _, m := range o {
		path := prefix + m.name
		plain := m.name != "" && !strings.Contains(m.name, ".") // a.b is not b inside a
		inside := func(k string) bool { return strings.HasPrefix(k, path+".") }
		switch {
		case plain && slices.Contains(known, path):
		case plain && m.value.Kind() == '{' && slices.ContainsFunc(known, inside):
			if err := closed(m.value, known, path+"."); err != nil {
				return err
			}
		default:
			return fmt.Errorf("argument %s is neither mapped nor passed on by the gateway's file (pass): call again without it", printable(path))
		}
	}
	return nil
}

// sent returns the arguments for the server: exactly those of the call, with the
// idempotency argument filled in if the server takes one.
func (t *tool) sent(arguments jsontext.Value, key string) (jsontext.Value, error) {
	if t.IdempotencyArgument == "" {
		return arguments, nil
	}
	o, err := parseObject(arguments)
	if err != nil {
		return nil, fmt.Errorf("arguments %w", err)
	}
	return append(o.without(t.IdempotencyArgument), member{t.IdempotencyArgument, encode(key)}).text(), nil
}

// noLoader reads no schema from anywhere.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("it refers to another document") }

// compile reads the schema of a tool's arguments. One that cannot be read permits no call.
func compile(text jsontext.Value) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	const name = "tool.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(name, document); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// validate checks arguments by a tool's schema.
func validate(text, arguments jsontext.Value) error {
	s, err := compile(text)
	if err != nil {
		return fmt.Errorf("the tool's schema cannot be read, so that no call of it can be checked: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return fmt.Errorf("the arguments cannot be read: %w", err)
	}
	if err := bounded(value); err != nil {
		return err
	}
	err = s.Validate(value)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		for len(invalid.Causes) > 0 {
			invalid = invalid.Causes[0]
		}
		at := strings.Join(invalid.InstanceLocation, ".")
		return fmt.Errorf("the tool's schema does not permit the arguments: %s %s", at, broken(invalid.ErrorKind))
	}
	return err
}

// broken says which rule of a schema arguments break. It quotes no value of theirs: a shadow logs it.
func broken(rule jsonschema.ErrorKind) string {
	switch rule.(type) {
	case *kind.Required, *kind.AdditionalProperties, *kind.Type, *kind.Enum, *kind.Const:
		return rule.LocalizedString(message.NewPrinter(language.English))
	default:
		return "breaks " + strings.Join(rule.KeywordPath(), ".")
	}
}

// bounded refuses numbers that no binary float comes near: comparing them is costly, and many programs cannot read them.
func bounded(value any) (err error) {
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			err = cmp.Or(err, bounded(inner))
		}
	case []any:
		for _, inner := range v {
			err = cmp.Or(err, bounded(inner))
		}
	case stdjson.Number:
		digits, _, _ := strings.Cut(strings.ToLower(string(v)), "e")
		if float, err := v.Float64(); err != nil || float == 0 && strings.ContainsAny(digits, "123456789") {
			return errors.New("the arguments have a number that is too large or too small")
		}
	}
	return err
}

// properties returns the names of the arguments that a schema names, with those of its parts.
func properties(s *jsonschema.Schema) []string {
	names, seen := make(map[string]bool), make(map[*jsonschema.Schema]bool)
	var add func(*jsonschema.Schema)
	add = func(s *jsonschema.Schema) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		for name := range s.Properties {
			names[name] = true
		}
		for _, part := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Ref, s.If, s.Then, s.Else}) {
			add(part)
		}
	}
	add(s)
	return slices.Sorted(maps.Keys(names))
}

// checkFilled refuses a tool whose schema names its arguments, but not the one that is to take
// the idempotency key: a server that ignores the key would carry a call out twice that is taken over.
func (t *tool) checkFilled(schema jsontext.Value) error {
	s, err := compile(schema)
	if t.IdempotencyArgument == "" || err != nil {
		return nil //nolint:nilerr // validate says what is wrong
	}
	if names := properties(s); len(names) == 0 || slices.Contains(names, t.IdempotencyArgument) {
		return nil
	}
	return fmt.Errorf("the tool's schema has no argument %q, which the gateway's file says takes the idempotency key: somebody must correct "+
		"the file (idempotency_argument)", t.IdempotencyArgument)
}

// notes returns what the author of a mapping should know about the tool's schema.
func (t *tool) notes(schema jsontext.Value) (notes []string) {
	s, err := compile(schema)
	if err != nil {
		return []string{fmt.Sprintf("the tool's schema cannot be read, and every call is refused: %v", err)}
	}
	if err := t.checkFilled(schema); err != nil {
		notes = append(notes, err.Error())
	}
	if t.Same == nil {
		notes = append(notes, "same is not given: it is needed to enforce")
	}
	names, known := properties(s), t.known()
	if len(names) == 0 {
		return notes
	}
	for _, path := range slices.Compact(slices.Sorted(slices.Values(known))) {
		if name, _, _ := strings.Cut(path, "."); name != "" && !slices.Contains(names, name) {
			notes = append(notes, fmt.Sprintf("the tool's schema has no argument %s, which the file names", path))
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(known, func(k string) bool { return k == name || strings.HasPrefix(k, name+".") }) {
			notes = append(notes, fmt.Sprintf("a call with the argument %s is refused: it is neither mapped nor in pass", printable(name)))
		}
	}
	return notes
}

// hide removes an argument from a schema's properties and from what it requires, wherever the schema has it.
func hide(text jsontext.Value, argument string) any {
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text)) // keeps numbers as they are written
	if err != nil {
		return text
	}
	hideIn(schema, argument)
	return schema
}

func hideIn(schema any, argument string) {
	s, _ := schema.(map[string]any)
	if names, ok := s["properties"].(map[string]any); ok {
		maps.DeleteFunc(names, func(name string, _ any) bool { return strings.EqualFold(name, argument) })
	}
	if names, ok := s["required"].([]any); ok {
		s["required"] = slices.DeleteFunc(names, func(name any) bool { return name == argument })
	}
	for _, part := range []string{"$defs", "definitions", "allOf", "anyOf", "oneOf", "if", "then", "else"} {
		switch parts := s[part].(type) {
		case []any:
			for _, one := range parts {
				hideIn(one, argument)
			}
		case map[string]any:
			if hideIn(parts, argument); strings.Contains(part, "def") {
				for _, one := range parts {
					hideIn(one, argument)
				}
			}
		}
	}
}
