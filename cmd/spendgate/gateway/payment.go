package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"

	"spendgate/audit/spend"
	"spendgate/hotpath/client"
)

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
		return "", fmt.Errorf("argument %s is %s: a payment is named by text, a number, true or false", path, kindOf(value))
	default:
		return "", nil
	}
}
