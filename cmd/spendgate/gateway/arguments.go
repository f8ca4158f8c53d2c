package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"

	"spendgate/audit/spend"
	"spendgate/hotpath/client"
)

// at returns the value of the argument at a path, whose dots separate nested names; nil if
// it is absent or null. A member whose name differs only by case is refused: the server
// could take it for the named one.
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
		if similar := slices.IndexFunc(o, func(m member) bool { return strings.EqualFold(m.name, name) }); value == nil && similar >= 0 {
			return nil, fmt.Errorf("argument %s is written %q", path, o[similar].name)
		}
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

// action reads the action of a call. schema is the schema of the tool's arguments.
func (t *tool) action(agent string, arguments, schema jsontext.Value) (client.Action, error) {
	a := client.Action{AgentID: agent, PolicyID: t.PolicyID, ActionType: client.ActionType(t.ActionType)}
	if strings.TrimSpace(agent) == "" {
		return a, errors.New("it is not known which agent calls")
	}
	var err error
	if a.Currency, err = t.currency(arguments); err != nil {
		return a, err
	}
	if a.Amount, err = t.amount(arguments, schema, a.Currency); err != nil {
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
		return "", fmt.Errorf("the currency must be three letters, not %s", excerpt(value))
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
func (t *tool) amount(arguments, schema jsontext.Value, currency string) (client.Amount, error) {
	path := t.Amount.Argument
	value, err := required(arguments, path)
	if err != nil {
		return client.Amount{}, err
	}
	number, err := numberOf(value, typesAt(schema, path))
	if err != nil {
		return client.Amount{}, fmt.Errorf("argument %s %w", path, err)
	}
	if t.Amount.MinorUnits {
		digits, known := spend.MinorDigits(currency)
		if !known {
			return client.Amount{}, fmt.Errorf("the minor unit of the currency %s is not known", currency)
		}
		mantissa, exponent := splitNumber(plainNumber(number))
		if exponent < 0 {
			return client.Amount{}, fmt.Errorf("argument %s must be a whole number of minor units, not %s", path, excerpt(value))
		}
		number = mantissa + "e" + strconv.Itoa(exponent-digits)
	}
	amount, err := client.ParseAmount(number)
	switch {
	case err != nil:
		return amount, fmt.Errorf("argument %s: %w", path, err)
	case plainNumber(number) == "0":
		return amount, fmt.Errorf("argument %s is 0, which some servers take for no amount, and then for all that there is", path)
	}
	return amount, nil
}

func splitNumber(plain string) (mantissa string, exponent int) {
	mantissa, power, _ := strings.Cut(plain, "e")
	exponent, _ = strconv.Atoi(power) // of plainNumber; without one it is 0
	return mantissa, exponent
}

// numberOf returns a number as it is written. A string counts as a number if it has only plain
// decimal digits and the tool's schema does not rule strings out. A number with more digits
// than a binary float keeps is refused: many servers would read another number.
func numberOf(value jsontext.Value, types []string) (string, error) {
	switch value.Kind() {
	case '0':
		return string(value), cmp.Or(checkType(value, types), checkDigits(value))
	case '"':
		if err := checkType(value, types); err != nil {
			return "", err
		}
		text, ok := textOf(value)
		if !ok || strings.ContainsAny(text, "eE+- \t\r\n") || jsontext.Value(text).Kind() != '0' || !jsontext.Value(text).IsValid() {
			return "", fmt.Errorf("must be a number in plain decimal digits, not %s", excerpt(value))
		}
		return text, nil
	default:
		return "", fmt.Errorf("must be a number, not %s", kindOf(value))
	}
}

// checkDigits refuses a number with more digits than a binary float keeps.
func checkDigits(number jsontext.Value) error {
	float, err := strconv.ParseFloat(string(number), 64)
	if err != nil || plainNumber(strconv.FormatFloat(float, 'e', -1, 64)) != plainNumber(string(number)) {
		return fmt.Errorf("has more digits than programs agree on: %s", excerpt(number))
	}
	return nil
}

// excerpt returns a value for a message, shortened.
func excerpt(value jsontext.Value) string {
	const most = 40
	if len(value) > most {
		return strings.ToValidUTF8(string(value[:most]), "") + "..."
	}
	return string(value)
}

// identity returns what all attempts of the same call have in common: a hash of the
// server, the tool, the agent and the arguments that make two calls the same. Numbers
// are compared by value, text in its normal form NFC, and the amount as it was understood.
func (t *tool) identity(upstream, name, agent string, a client.Action, arguments jsontext.Value) (string, error) {
	understood := map[string]jsontext.Value{t.Amount.Argument: jsontext.Value(a.Amount.String())}
	if t.Currency.Argument != "" {
		understood[t.Currency.Argument] = quote(a.Currency)
	}
	o, err := parseObject(arguments)
	if err != nil {
		return "", fmt.Errorf("arguments %w", err)
	}
	same := o.text()
	if t.IdempotencyArgument != "" {
		same = o.without(t.IdempotencyArgument).text()
	}
	if t.Same == nil {
		for path, value := range understood {
			same = placed(same, path, value)
		}
	} else if same, err = t.named(arguments, understood); err != nil {
		return "", err
	}
	text, err := canonical(encode([]any{upstream, name, agent, same}))
	if err != nil {
		return "", fmt.Errorf("arguments cannot be understood: %w", err)
	}
	sum := sha256.Sum256(append([]byte("spendgate gateway 1\n"), norm.NFC.Bytes(text)...))
	return "gw-" + base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// named returns the arguments that the file names, by their paths.
func (t *tool) named(arguments jsontext.Value, understood map[string]jsontext.Value) (jsontext.Value, error) {
	var named object
	for _, path := range t.Same {
		value, err := at(arguments, path)
		if err != nil {
			return nil, err
		}
		if known := understood[path]; known != nil {
			value = known
		}
		if value != nil {
			named = named.with(path, value)
		}
	}
	if named == nil {
		return nil, fmt.Errorf("none of the arguments %s is given, which say what payment this is", strings.Join(t.Same, ", "))
	}
	return named.text(), nil
}

// lasting returns the identity of a payment that is made only once, whichever agent calls.
// It is kept longer than anybody remembers how a value was spelt. So all arguments of same
// are needed; text that can be spelt in another way is refused, as are objects and lists; and
// a whole number is the same as text and as a number.
func (t *tool) lasting(upstream, name string, a client.Action, arguments jsontext.Value) (string, error) {
	for _, path := range t.Same {
		value, err := required(arguments, path)
		if err != nil {
			return "", fmt.Errorf("%w, and once needs all of same", err)
		}
		if kind := value.Kind(); kind == '{' || kind == '[' {
			// Values inside it can be spelt in several ways: {"id": 77} and {"id": "77"} would be two payments.
			return "", fmt.Errorf("argument %s is %s, and once needs text, a number, true or false: same must name such a value inside it, "+
				"by its path", path, kindOf(value))
		}
		text, ok := textOf(value)
		if !ok {
			continue
		}
		if err := checkVisible(path, text); err != nil {
			return "", err
		}
		if !norm.NFKC.IsNormalString(text) {
			return "", fmt.Errorf("argument %s has characters that are others in their plain form", path)
		}
		if number := jsontext.Value(text); number.Kind() == '0' && number.IsValid() && !strings.ContainsAny(text, ".eE ") {
			arguments = placed(arguments, path, number)
		}
	}
	return t.identity(upstream, name, "", a, arguments)
}

// placed returns an object with the value at an existing path replaced.
func placed(text jsontext.Value, path string, value jsontext.Value) jsontext.Value {
	name, rest, inside := strings.Cut(path, ".")
	if inside {
		o, err := parseObject(text)
		if err != nil || o.get(name) == nil {
			return text
		}
		value = placed(o.get(name), rest, value)
	}
	return replaced(text, name, value)
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
	return append(o.without(t.IdempotencyArgument), member{t.IdempotencyArgument, quote(key)}).text(), nil
}

// reference returns the server's reference for what it did, such as a payment number; empty if it gives none.
func (t *tool) reference(result jsontext.Value) string {
	if t.Reference == nil {
		return ""
	}
	var r struct {
		Structured jsontext.Value `json:"structuredContent"`
		Content    []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	_ = json.Unmarshal(result, &r, lax()) // what cannot be read has no reference
	within := []jsontext.Value{r.Structured}
	var texts []jsontext.Value
	for _, c := range r.Content {
		if text := jsontext.Value(c.Text); c.Type == "text" && text.IsValid(lax()) && text.Kind() == '{' {
			texts = append(texts, text)
		}
	}
	if len(texts) == 1 {
		within = append(within, texts[0])
	}
	for _, value := range within {
		found, err := at(value, t.Reference.Result)
		if text, ok := textOf(found); err == nil && ok {
			return text
		} else if err == nil && found.Kind() == '0' {
			return string(found)
		}
	}
	return ""
}
