package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"

	"spendgate/audit/spend"
)

// checkSame refuses arguments of same that a server could read as those of another payment:
// numbers that not all programs read alike, values of another type than the tool's schema says, and
// text with characters that show nothing.
func (t *tool) checkSame(arguments, schema jsontext.Value) error {
	for _, path := range t.Same {
		value, err := at(arguments, path)
		if err != nil {
			return err
		}
		if value == nil {
			continue
		}
		if err := checkType(value, typesAt(schema, path)); err != nil {
			return fmt.Errorf("argument %s %w", path, err)
		}
		if value.Kind() == '0' {
			if err := checkDigits(value); err != nil {
				return fmt.Errorf("argument %s %w", path, err)
			}
		}
		if text, ok := textOf(value); ok {
			if r, i := spend.FirstUnseen(spaced(text)); i >= 0 {
				return fmt.Errorf("argument %s must not have the character %U, which shows nothing", path, r)
			}
		}
	}
	return nil
}

// spaced returns a text whose lines and tabs are spaces.
func spaced(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return ' '
		}
		return r
	}, text)
}

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
	for i, argument := range t.Same {
		read[fmt.Sprintf("same[%d]", i)] = argument
	}
	return read
}

// checkSpelling refuses an argument that a server could take for one that the gateway reads:
// order_total for orderTotal, and "order.total" for the total in an order. Such an argument is
// accepted if the tool's schema has it, and its value is the same or is read as well.
func (t *tool) checkSpelling(arguments, schema jsontext.Value) error {
	paths := append(slices.Sorted(maps.Values(t.reads())), t.IdempotencyArgument)
	for _, path := range paths {
		within, known := arguments, []jsontext.Value{schema}
		names := strings.Split(path, ".")
		for i, name := range names {
			o, err := parseObject(within)
			if err != nil { // the reader of the value reports what is wrong
				break
			}
			properties := propertiesOf(schema, known)
			for _, m := range o {
				n := spelt(m.name, names[i:])
				if n == 0 || n == 1 && strings.EqualFold(m.name, name) {
					continue
				}
				if properties[m.name] == nil {
					return fmt.Errorf("argument %s is written %q, which the tool's schema does not have: call again without that", path, m.name)
				}
				other := strings.Join(append(slices.Clone(names[:i]), m.name), ".")
				meant, _ := at(within, strings.Join(names[i:i+n], ".")) // the reader of the value reports what is wrong
				if equalForm(m.value) != equalForm(meant) && !isRead(paths, other) {
					return fmt.Errorf("argument %s is also written %q, with another value that is not judged: call again with %[1]s alone", path, m.name)
				}
			}
			within, known = o.get(name), properties[name]
		}
	}
	return nil
}

// checkCurrency refuses a call that names another currency than the one that is judged, beside the amount or around
// it, since the server may take the call's.
func (t *tool) checkCurrency(arguments jsontext.Value, judged string) error {
	within := arguments
	for name := range strings.SplitSeq(t.Amount.Argument, ".") {
		o, err := parseObject(within)
		if err != nil { // the reader of the amount reports what is wrong
			return nil
		}
		for _, m := range o {
			if text, _ := textOf(m.value); isCurrency(m.name) && m.value.Kind() != 'n' && !strings.EqualFold(text, judged) {
				return fmt.Errorf("argument %s is %s, and the call has the currency %s: call again without that", m.name, excerpt(m.value), judged)
			}
		}
		within = o.get(name)
	}
	return nil
}

// isCurrency reports whether an argument's name says that it is a currency.
func isCurrency(name string) bool { return nearly(name, "currency") || nearly(name, "currency code") }

// isRead reports whether an argument is one that is read, or has one inside.
func isRead(paths []string, argument string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return path == argument || strings.HasPrefix(path, argument+".") })
}

// spelt returns how many names at the start of a path, joined by dots, the given name may be
// another spelling of; 0 if it is not one.
func spelt(name string, path []string) int {
	for n := range path {
		if nearly(name, strings.Join(path[:n+1], ".")) {
			return n + 1
		}
	}
	return 0
}

// nearly reports whether some programs read two names as one.
func nearly(a, b string) bool {
	plain := plainName(a)
	return plain != "" && plain == plainName(b)
}

// plainName returns the letters and digits of a name, case folded. They are the same for names
// that some programs read as one.
func plainName(name string) string {
	return folded(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, norm.NFKC.String(name)))
}

// checkType refuses a value of another type than a tool's schema says. types are empty if it does not say.
func checkType(value jsontext.Value, types []string) error {
	if len(types) == 0 || slices.ContainsFunc(types, func(name string) bool { return isOf(value, name) }) {
		return nil
	}
	return fmt.Errorf("must be %s, as the tool's schema says, not %s", strings.Join(types, " or "), excerpt(value))
}

// isOf reports whether a value is of a type of JSON Schema. Of 7.5, which is no integer, programs make 7 or 8.
func isOf(value jsontext.Value, name string) bool {
	switch value.Kind() {
	case '0':
		_, exponent := splitNumber(plainNumber(string(value)))
		return name == "number" || name == "integer" && exponent >= 0
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
