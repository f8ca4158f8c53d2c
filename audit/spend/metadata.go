package spend

import "github.com/go-json-experiment/json/jsontext"

// Metadata is a request's free context: its text, kept whole, and the keys
// that rules read.
type Metadata struct {
	JSON string // the compact object as sent; empty when absent

	DaysSincePurchase    int64 // days, >= 0
	HasDaysSincePurchase bool
	DiscountPercent      Amount // percent
	HasDiscountPercent   bool
	Country              string // two upper-case letters; empty when absent
	Category             string // as sent; empty when absent
}

// ParseMetadata returns what ReadMetadata returns, for any text.
func ParseMetadata[T ~string | ~[]byte](value T, path string, faults *Faults) Metadata {
	if !jsontext.Value(value).IsValid() {
		faults.Add(path, "must be well-formed JSON without duplicate names")
		return Metadata{}
	}
	return ReadMetadata(string(value), path, faults)
}

// ReadMetadata reads a metadata value, which must be well-formed JSON without
// duplicate names; the result keeps pieces of it. Faults are named under path.
// null is absent, and so is null or a blank string under a known key; a known key
// of another type is a fault (S9).
func ReadMetadata(value, path string, faults *Faults) Metadata {
	var m Metadata
	m.JSON = readObject(value, path, faults, &m)
	return m
}

// CompactObject returns the compact text of metadata with any keys, within the limits of S4, or "" if
// it is null or faulty. It must be well-formed JSON without duplicate names.
func CompactObject(value, path string, faults *Faults) string {
	return readObject(value, path, faults, nil)
}

// readObject returns the compact text of an object within the limits of S4, or
// "" when it is null or at fault; m takes the keys that rules read.
func readObject(value, path string, faults *Faults, m *Metadata) string {
	t := tokens{text: value}
	switch t.next() {
	case "null":
		return ""
	case "{":
	default:
		faults.Add(path, "must be an object")
		return ""
	}
	if !t.members(path, faults, m) {
		return ""
	}
	if t.next(); t.spaced {
		text, _ := jsontext.AppendFormat(nil, value, jsontext.PreserveRawStrings(true)) // well-formed
		value = string(text)
	}
	if len(value) > MaxMetadataBytes {
		faults.Add(path, "must be at most 16 KiB as compact JSON")
		return ""
	}
	return value
}

// read takes the value of one key that rules read.
func (m *Metadata) read(key, value, path string, faults *Faults) {
	if value == "null" {
		return
	}
	ok, accepted := true, ""
	switch key {
	case "days_since_purchase":
		m.DaysSincePurchase, ok = ParseInteger(value)
		ok = ok && m.DaysSincePurchase >= 0
		m.HasDaysSincePurchase = ok
		accepted = NaturalForm
	case "discount_percent":
		percent, err := ParseAmount(value)
		m.DiscountPercent, m.HasDiscountPercent = percent, err == nil
		if ok = err == nil; !ok {
			accepted = err.Error()
		}
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

func stringValue(value string) (string, bool) {
	if value == "" || value[0] != '"' {
		return "", false
	}
	return unquote(value), true
}

// NaturalForm describes what ParseInteger accepts for a number that must not be negative, for
// messages.
const NaturalForm = "must be an integer of 0 or more, with at most 18 digits"

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
