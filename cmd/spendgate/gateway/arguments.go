package gateway

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/unicode/norm"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/policyfile"
	"spendgate/hotpath/client"
)

// reads returns the paths of the arguments that the gateway reads from a call, by the members
// of the file that name them.
func (t *tool) reads() map[string]string {
	read := make(map[string]string)
	if t.Amount != nil {
		read["amount"] = t.Amount.Argument
	}
	for name, from := range map[string]*source{"currency": t.Currency, "counterparty": t.Counterparty} {
		if from != nil {
			read[name] = from.Argument
		}
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
	own := t.IdempotencyArgument
	if own == "" {
		return arguments, nil
	}
	o, err := parseObject(arguments)
	if err != nil {
		return nil, fmt.Errorf("arguments %w", err)
	}
	o = slices.DeleteFunc(o, func(m member) bool { return strings.EqualFold(m.name, own) })
	return append(o, member{own, encode(key)}).text(), nil
}

// compile reads the schema of a tool's arguments. One that cannot be read permits no call.
func compile(text jsontext.Value) (*jsonschema.Schema, error) {
	const name = "tool.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // of no scheme: it reads no other document
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = c.AddResource(name, document)
	}
	var s *jsonschema.Schema
	if err == nil {
		s, err = c.Compile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("the tool's schema cannot be read, so that no call of it can be checked: %w", err)
	}
	return s, nil
}

// validate checks arguments by a tool's schema.
func validate(s *jsonschema.Schema, arguments jsontext.Value) error {
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
func (t *tool) checkFilled(s *jsonschema.Schema) error {
	if names := properties(s); t.IdempotencyArgument == "" || len(names) == 0 || slices.Contains(names, t.IdempotencyArgument) {
		return nil
	}
	return fmt.Errorf("the tool's schema has no argument %q, which the gateway's file says takes the idempotency key: somebody must correct "+
		"the file (idempotency_argument)", t.IdempotencyArgument)
}

// notes returns what the author of a mapping should know about the tool's schema.
func (t *tool) notes(schema jsontext.Value) (notes []string) {
	s, err := compile(schema)
	if err != nil {
		return []string{err.Error()}
	}
	if err := t.checkFilled(s); err != nil {
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
	s, ok := schema.(map[string]any)
	if !ok {
		return
	}
	if names, ok := s["properties"].(map[string]any); ok {
		maps.DeleteFunc(names, func(name string, _ any) bool { return strings.EqualFold(name, argument) })
	}
	if names, ok := s["required"].([]any); ok {
		s["required"] = slices.DeleteFunc(names, func(name any) bool { return name == argument })
	}
	for _, part := range []string{"$defs", "definitions", "allOf", "anyOf", "oneOf", "if", "then", "else"} {
		parts, _ := s[part].([]any)
		if one, ok := s[part].(map[string]any); ok && strings.Contains(part, "def") {
			parts = slices.Collect(maps.Values(one))
		}
		for _, one := range append(parts, s[part]) {
			hideIn(one, argument)
		}
	}
}

const againAfterHours = 24 // is a payment of an agent free again

// payment adds to an action which payment it is: a hash of the server, the tool, the arguments of same and, unless they name
// the payment for good, the agent.
func (t *tool) payment(upstream, name string, a *client.Action, arguments jsontext.Value) error {
	values, err := t.named(*a, arguments)
	if err != nil {
		return err
	}
	parts := []string{upstream, name}
	if !t.Once {
		parts = append(parts, a.AgentID)
		a.AgainAfterHours = againAfterHours
	}
	sum := sha256.Sum256([]byte("spendgate gateway payment\n" + string(encode(append(parts, values...)))))
	a.PaymentKey = "gw-" + base64.RawURLEncoding.EncodeToString(sum[:])
	return nil
}

// named returns the arguments of same, each with its path, in one form for all ways to write it.
func (t *tool) named(a client.Action, arguments jsontext.Value) (values []string, err error) {
	of := same{all: true}
	if t.Same != nil {
		of = *t.Same
	}
	paths := slices.Clone(of.paths)
	if of.all {
		if paths, err = leaves(arguments, ""); err != nil {
			return nil, err
		}
		paths = slices.DeleteFunc(paths, func(path string) bool { return path == t.IdempotencyArgument })
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		value, err := at(arguments, path)
		if err != nil {
			return nil, err
		}
		text, err := plainValue(path, value)
		switch {
		case err != nil:
			return nil, err
		case text == "" && t.Once:
			return nil, fmt.Errorf("argument %s is missing, and once needs all of same", path)
		case text == "":
			continue
		case path == t.Amount.Argument:
			text = a.Amount.String()
		case path == t.Currency.Argument:
			text = a.Currency
		}
		values = append(values, path, text)
	}
	if values == nil {
		return nil, fmt.Errorf("none of the arguments %s is given, which say what payment this is", strings.Join(of.paths, ", "))
	}
	return values, nil
}

// The most arguments that may name a payment, and how deep objects may be in each other.
const (
	mostLeaves = 256
	mostDepth  = 16
)

// leaves returns the paths of all values inside an object that are no objects.
func leaves(value jsontext.Value, prefix string) (paths []string, err error) {
	if strings.Count(prefix, ".") > mostDepth {
		return nil, fmt.Errorf("the arguments have objects in each other more than %d deep", mostDepth)
	}
	o, err := parseObject(value)
	if err != nil {
		return nil, err
	}
	for _, m := range o {
		inner := []string{prefix + m.name}
		if m.value.Kind() == '{' {
			if inner, err = leaves(m.value, prefix+m.name+"."); err != nil {
				return nil, err
			}
		}
		if paths = append(paths, inner...); len(paths) > mostLeaves {
			return nil, fmt.Errorf("the arguments have more than %d values, all of which name the payment", mostLeaves)
		}
	}
	return paths, nil
}

// plainValue returns the one form of a value that names a payment: of text, without white space around it and in NFKC, of a
// number by its value, or true or false. Text that looks like another one, and objects and lists, which can be written in several
// ways, are refused.
func plainValue(path string, value jsontext.Value) (string, error) {
	switch value.Kind() {
	case '"':
		text, _ := textOf(value)
		text = strings.TrimSpace(norm.NFKC.String(strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(text)))
		if fault := spend.VisibleFault(text); fault != "" {
			return "", fmt.Errorf("argument %s %s", path, fault)
		}
		return text, nil
	case '0':
		if err := checkDigits(value); err != nil {
			return "", fmt.Errorf("argument %s %w", path, err)
		}
		float, _ := strconv.ParseFloat(string(value), 64)
		return strconv.FormatFloat(float+0, 'f', -1, 64), nil // as text would have it: 77 and "77" are one
	case 't', 'f':
		return string(value), nil
	case '{', '[':
		return "", fmt.Errorf("argument %s is %s: a payment is named by text, a number, true or false", path, policyfile.KindName(value.Kind()))
	default:
		return "", nil
	}
}
