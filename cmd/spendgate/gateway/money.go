package gateway

import (
	"bytes"
	jsonv1 "encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/text/cases"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/policyfile"
	"spendgate/hotpath/client"
)

// at returns the value of the argument at a path, whose dots separate nested names; nil if
// it is absent or null.
func at(value jsontext.Value, path string) (jsontext.Value, error) {
	for name := range strings.SplitSeq(path, ".") {
		if len(value) == 0 || value.Kind() == 'n' {
			return nil, nil
		}
		o, err := parseObject(value)
		if err != nil {
			return nil, fmt.Errorf("argument %s: what holds %s %w", path, name, err)
		}
		value = o.get(name)
	}
	if value.Kind() == 'n' {
		return nil, nil
	}
	return value, nil
}

// in returns the value of a source; nil if its argument is absent or null.
func (s source) in(arguments jsontext.Value) (jsontext.Value, error) {
	if s.Argument == "" {
		return s.Value, nil
	}
	return at(arguments, s.Argument)
}

// required is like in, but fails if the argument is absent or null.
func (s source) required(arguments jsontext.Value) (jsontext.Value, error) {
	value, err := s.in(arguments)
	if err == nil && value == nil {
		err = fmt.Errorf("argument %s is missing", s.Argument)
	}
	return value, err
}

// action reads the action of a call.
func (t *tool) action(agent string, arguments jsontext.Value) (client.Action, error) {
	a := client.Action{AgentID: agent, PolicyID: t.PolicyID, ActionType: client.ActionType(t.ActionType)}
	if strings.TrimSpace(agent) == "" {
		return a, errors.New("it is not known which agent calls")
	}
	var err error
	if a.Currency, err = t.currency(arguments); err != nil {
		return a, err
	}
	if a.Amount, err = t.amount(arguments, a.Currency); err != nil {
		return a, err
	}
	if a.Counterparty, err = t.counterparty(arguments); err != nil {
		return a, err
	}
	for name, from := range t.Metadata {
		value, err := from.in(arguments)
		if err != nil {
			return a, err
		}
		if value != nil && a.Metadata == nil {
			a.Metadata = make(map[string]any)
		}
		if value != nil {
			a.Metadata[name] = value
		}
	}
	return a, nil
}

// currency returns the currency's ISO 4217 code, in upper case.
func (t *tool) currency(arguments jsontext.Value) (string, error) {
	value, err := t.Currency.required(arguments)
	if err != nil {
		return "", err
	}
	text, _ := textOf(value)
	code, ok := spend.ParseCurrency(text)
	if !ok {
		return "", errors.New("the currency must be three letters")
	}
	return code, nil
}

// counterparty returns who gets the money. Text that people could take for another one is refused.
func (t *tool) counterparty(arguments jsontext.Value) (string, error) {
	path := t.Counterparty.Argument
	value, err := t.Counterparty.required(arguments)
	if err != nil {
		return "", err
	}
	text, ok := textOf(value)
	fault := spend.VisibleFault(text)
	switch {
	case !ok:
		return "", fmt.Errorf("argument %s must be text, not %s", path, policyfile.KindName(value.Kind()))
	case spend.Blank(text):
		return "", fmt.Errorf("argument %s is blank", path)
	case fault != "":
		return "", fmt.Errorf("argument %s %s", path, fault)
	default:
		return text, nil
	}
}

// amount returns the amount in the currency's major unit.
func (t *tool) amount(arguments jsontext.Value, currency string) (client.Amount, error) {
	path := t.Amount.Argument
	value, err := source{Argument: path}.required(arguments)
	if err != nil {
		return client.Amount{}, err
	}
	number, err := numberOf(value)
	if err != nil {
		return client.Amount{}, fmt.Errorf("argument %s %w", path, err)
	}
	digits := 0
	switch {
	case t.Amount.Digits != nil:
		digits = *t.Amount.Digits
	case t.Amount.MinorUnits:
		known, ok := spend.MinorDigits(currency)
		if !ok {
			return client.Amount{}, fmt.Errorf("the minor unit of the currency %s is not known", currency)
		}
		digits = known
	}
	exact, _ := new(big.Rat).SetString(number)
	if t.Amount.Digits != nil || t.Amount.MinorUnits {
		if !exact.IsInt() {
			return client.Amount{}, fmt.Errorf("argument %s must be a whole number of the smallest unit", path)
		}
		number = fmt.Sprintf("%se-%d", exact.Num(), digits)
	}
	amount, err := spend.ParseAmount(number)
	switch {
	case err != nil:
		return amount, fmt.Errorf("argument %s %w", path, err)
	case exact.Sign() == 0:
		return amount, fmt.Errorf("argument %s is 0, which some servers take for no amount, and then for all that there is", path)
	case t.Amount.Digits == nil:
		_, fraction, _ := strings.Cut(amount.String(), ".")
		if most, known := spend.MinorDigits(currency); known && len(fraction) > most { // the server would round it
			return amount, fmt.Errorf("argument %s must have at most %d fraction digits in %s", path, most, currency)
		}
	}
	return amount, nil
}

const mostDigits = 64 // of a number as it is written; no amount needs as many

// numberOf returns a number as it is written. A string counts as a number if it has only plain
// decimal digits. A number with more digits than a binary float keeps is refused: many servers
// would read another number.
func numberOf(value jsontext.Value) (string, error) {
	switch value.Kind() {
	case '0':
		return string(value), checkDigits(value)
	case '"':
		text, ok := textOf(value)
		plain := jsontext.Value(text)
		if !ok || len(text) > mostDigits || strings.ContainsAny(text, "eE+- \t\r\n") || plain.Kind() != '0' || !plain.IsValid() {
			return "", errors.New("must be a number in plain decimal digits")
		}
		return text, nil
	default:
		return "", fmt.Errorf("must be a number, not %s", policyfile.KindName(value.Kind()))
	}
}

// checkDigits refuses a number with more digits than a binary float keeps.
func checkDigits(number jsontext.Value) error {
	float, err := strconv.ParseFloat(string(number), 64)
	if err == nil && len(number) <= mostDigits && (float != 0 || !strings.ContainsAny(string(number), "123456789")) {
		written, _ := new(big.Rat).SetString(string(number))
		kept, _ := new(big.Rat).SetString(strconv.FormatFloat(float, 'e', -1, 64))
		if written.Cmp(kept) == 0 {
			return nil
		}
	}
	return errors.New("has more digits than programs agree on")
}

// resultAt returns the value at a path of a result: of structuredContent, or without that of the one text, which is JSON; empty if
// there is no text or number. A server may repeat arguments in further texts: what an agent wrote says nothing of the payment.
func resultAt(r *mcp.CallToolResult, path string) string {
	within, _ := r.StructuredContent.(jsontext.Value)
	if r.StructuredContent == nil && len(r.Content) == 1 {
		if text, ok := r.Content[0].(*mcp.TextContent); ok {
			within = jsontext.Value(text.Text)
		}
	}
	if !within.IsValid(lax()) || within.Kind() != '{' {
		return ""
	}
	found, _ := at(within, path) // nil if it fails
	return scalar(found)
}

// reference returns the server's reference for what it did, such as a payment number; empty if it gives none.
func (t *tool) reference(result *mcp.CallToolResult) string {
	if t.Reference == nil {
		return ""
	}
	return resultAt(result, t.Reference.Result)
}

// declined reports whether a result is one of those that the file says mean that nothing moved.
func (t *tool) declined(result *mcp.CallToolResult) bool {
	if t.DeclinedIf == nil {
		return false
	}
	got := resultAt(result, t.DeclinedIf.Result)
	return got != "" && slices.ContainsFunc(t.DeclinedIf.In, func(value jsontext.Value) bool { return got == scalar(value) })
}

// scalar returns the text of a string or a number; empty for another value.
func scalar(value jsontext.Value) string {
	if text, ok := textOf(value); ok {
		return text
	}
	if value.Kind() == '0' {
		return string(value)
	}
	return ""
}

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
		return nil, fmt.Errorf("must be an object, not %s", policyfile.KindName(text.Kind()))
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
