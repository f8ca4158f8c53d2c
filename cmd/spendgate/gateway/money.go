package gateway

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
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

// required is like at, but fails if the argument is absent or null.
func required(arguments jsontext.Value, path string) (jsontext.Value, error) {
	value, err := at(arguments, path)
	if err == nil && value == nil {
		err = fmt.Errorf("argument %s is missing", path)
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
		value := from.Value
		if from.Argument != "" {
			if value, err = at(arguments, from.Argument); err != nil {
				return a, err
			}
		}
		if value == nil {
			continue
		}
		if a.Metadata == nil {
			a.Metadata = make(map[string]any)
		}
		a.Metadata[name] = value
	}
	return a, nil
}

// currency returns the currency's ISO 4217 code, in upper case.
func (t *tool) currency(arguments jsontext.Value) (string, error) {
	value := t.Currency.Value
	if t.Currency.Argument != "" {
		var err error
		if value, err = required(arguments, t.Currency.Argument); err != nil {
			return "", err
		}
	}
	text, ok := textOf(value)
	if !ok || len(text) != 3 || strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) }) {
		return "", errors.New("the currency must be three letters")
	}
	return strings.ToUpper(text), nil
}

// counterparty returns who gets the money. Text that could be mistaken for other text is refused.
func (t *tool) counterparty(arguments jsontext.Value) (string, error) {
	path := t.Counterparty.Argument
	value, err := required(arguments, path)
	if err != nil {
		return "", err
	}
	text, ok := textOf(value)
	if !ok {
		return "", fmt.Errorf("argument %s must be text, not %s", path, kindOf(value))
	}
	return text, checkVisible(path, text)
}

// checkVisible refuses text that people could take for another one.
func checkVisible(path, text string) error {
	if spend.Blank(text) {
		return fmt.Errorf("argument %s is blank", path)
	}
	if fault := spend.VisibleFault(text); fault != "" {
		return fmt.Errorf("argument %s %s", path, fault)
	}
	return nil
}

// amount returns the amount in the currency's major unit.
func (t *tool) amount(arguments jsontext.Value, currency string) (client.Amount, error) {
	path := t.Amount.Argument
	value, err := required(arguments, path)
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
		return "", fmt.Errorf("must be a number, not %s", kindOf(value))
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
func resultAt(result jsontext.Value, path string) string {
	var r struct {
		Structured jsontext.Value `json:"structuredContent"`
		Content    []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	_ = json.Unmarshal(result, &r, lax()) // what cannot be read has no such value
	within := r.Structured
	if len(within) == 0 && len(r.Content) == 1 && r.Content[0].Type == "text" {
		within = jsontext.Value(r.Content[0].Text)
	}
	if !within.IsValid(lax()) || within.Kind() != '{' {
		return ""
	}
	found, err := at(within, path)
	if text, ok := textOf(found); err == nil && ok {
		return text
	} else if err == nil && found.Kind() == '0' {
		return string(found)
	}
	return ""
}

// reference returns the server's reference for what it did, such as a payment number; empty if it gives none.
func (t *tool) reference(result jsontext.Value) string {
	if t.Reference == nil {
		return ""
	}
	return resultAt(result, t.Reference.Result)
}

// declined reports whether a result is one of those that the file says mean that nothing moved.
func (t *tool) declined(result jsontext.Value) bool {
	if t.DeclinedIf == nil {
		return false
	}
	got := resultAt(result, t.DeclinedIf.Result)
	for _, value := range t.DeclinedIf.In {
		text, ok := textOf(value)
		if !ok {
			text = string(value)
		}
		if got != "" && got == text {
			return true
		}
	}
	return false
}
