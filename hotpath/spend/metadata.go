package spend

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Metadata is a request's free context: its text, kept whole, and the keys
// that rules read (interface, section 2.3).
type Metadata struct {
	JSON string // the compact object as sent; empty when absent

	DaysSincePurchase    int64 // days, >= 0
	HasDaysSincePurchase bool
	DiscountPercent      Amount // percent
	HasDiscountPercent   bool
	Country              string // two upper-case letters; empty when absent
	Category             string // as sent; empty when absent
}

// ParseMetadata reads a metadata value that is known to be well-formed JSON.
// Faults are named under path. null is absent, and so is null or a blank
// string under a known key; a known key of another type is a fault (S9).
func ParseMetadata(raw jsontext.Value, path string, faults *Faults) Metadata {
	var m Metadata
	switch raw.Kind() {
	case 'n':
		return m
	case '{':
	default:
		faults.Add(path, "must be an object")
		return m
	}
	if err := raw.Compact(); err != nil || len(raw) > MaxMetadataBytes {
		faults.Add(path, "must be at most 16 KiB as compact JSON")
		return m
	}
	if depth(raw) > MaxMetadataDepth {
		faults.Add(path, "must be at most 8 levels deep")
		return m
	}
	m.JSON = string(raw)
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.ReadToken() // the opening brace
	for dec.PeekKind() == '"' {
		name, _ := dec.ReadToken()
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			break // not reached: the text was checked
		}
		m.read(key, value, path, faults)
	}
	return m
}

// read takes the value of one key that rules know.
func (m *Metadata) read(key string, value jsontext.Value, path string, faults *Faults) {
	if value.Kind() == 'n' {
		return
	}
	ok, accepted := true, ""
	switch key {
	case "days_since_purchase":
		m.DaysSincePurchase, ok = ParseInteger(string(value))
		ok = ok && m.DaysSincePurchase >= 0
		m.HasDaysSincePurchase = ok
		accepted = "must be an integer of 0 or more"
	case "discount_percent":
		percent, err := ParseAmount(string(value))
		m.DiscountPercent, m.HasDiscountPercent = percent, err == nil
		ok, accepted = err == nil, "must be a number of 0 or more"
	case "country":
		var text string
		if text, ok = stringValue(value); ok && !Blank(text) {
			m.Country, ok = ParseCountry(text)
		}
		accepted = "must be a two-letter country code"
	case "category":
		if m.Category, ok = stringValue(value); Blank(m.Category) {
			m.Category = ""
		}
		accepted = "must be a string"
	}
	if !ok {
		faults.Add(path+"."+key, accepted)
	}
}

func stringValue(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, v)
	return string(text), err == nil
}

// depth is how deep objects and arrays nest; a flat object has depth 1.
func depth(raw jsontext.Value) int {
	deepest, open, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}

// ParseInteger reads a JSON number that is a whole number of at most 18
// digits, however it is spelt: 5, 5.0 and 5e0 are one integer (S8).
func ParseInteger(s string) (int64, bool) {
	n, ok := scanNumber(s)
	if !ok {
		return 0, false
	}
	if n.isZero() {
		return 0, true
	}
	a, err := n.amount()
	if err != nil || a.scale != 0 {
		return 0, false
	}
	v := int64(a.coef)
	if n.negative {
		v = -v
	}
	return v, true
}

func itoa(n int) string { return strconv.Itoa(n) }
