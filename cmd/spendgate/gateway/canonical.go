package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// canonical writes JSON so that equal values are equal bytes: members in the order
// of their names, text with the fewest escapes, numbers as digits and exponent.
// Numbers keep all digits, unlike in RFC 8785. It fails on names given twice and on
// text that is not Unicode.
func canonical(value jsontext.Value) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(value))
	out, err := appendCanonical(nil, d)
	if err != nil {
		return nil, err
	}
	if d.PeekKind() != 0 {
		return nil, fmt.Errorf("something follows the value")
	}
	return out, nil
}

func appendCanonical(out []byte, d *jsontext.Decoder) ([]byte, error) {
	switch d.PeekKind() {
	case '{':
		return appendMembers(out, d)
	case '[':
		_, err := d.ReadToken()
		out = append(out, '[')
		for i := 0; err == nil && d.PeekKind() != ']'; i++ {
			if i > 0 {
				out = append(out, ',')
			}
			out, err = appendCanonical(out, d)
		}
		if err != nil {
			return nil, err
		}
		_, err = d.ReadToken()
		return append(out, ']'), err
	default:
		return appendToken(out, d)
	}
}

func appendToken(out []byte, d *jsontext.Decoder) ([]byte, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '"':
		return jsontext.AppendQuote(out, token.String())
	case '0':
		return append(out, plainNumber(token.String())...), nil
	default:
		return append(out, token.String()...), nil
	}
}

func appendMembers(out []byte, d *jsontext.Decoder) ([]byte, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	members := make(map[string][]byte)
	var names []string
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		value, err := appendCanonical(nil, d)
		if err != nil {
			return nil, err
		}
		members[name] = value
		names = append(names, name)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	slices.Sort(names)
	out = append(out, '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = jsontext.AppendQuote(out, name); err != nil {
			return nil, err
		}
		out = append(append(out, ':'), members[name]...)
	}
	return append(out, '}'), nil
}

// plainNumber writes a JSON number as its significant digits and an exponent of
// ten: 42.5, 42.50 and 4.25e1 become 425e-1. A number whose exponent is too long to be
// read stays as it is.
func plainNumber(s string) string {
	digits, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	sign := ""
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		sign, digits = "-", rest
	}
	scale := 0
	if exponent != "" {
		var err error
		if scale, err = strconv.Atoi(exponent); err != nil {
			return s
		}
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	scale -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	scale += len(digits) - len(trimmed)
	if trimmed == "" {
		return "0"
	}
	if scale == 0 {
		return sign + trimmed
	}
	return sign + trimmed + "e" + strconv.Itoa(scale)
}

// hashOf returns the SHA-256 of a value's canonical form, in hex.
func hashOf(value jsontext.Value) (string, error) {
	text, err := canonical(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
