package policy

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// limitNames are the parameters that a description may repeat as a number.
var limitNames = []string{"limit", "max_count", "max_days", "max_percent", "amount_above", "window_minutes", "rolling_minutes"}

// otherNumber returns a number of the rule's description that is none of its parameters, if one of the
// rule's limits is missing there: it probably was that limit once. It is empty if there is none.
func (w *warned) otherNumber() string {
	var own []spend.Amount
	var limits [][]spend.Amount // each in all units
	for _, m := range w.given.members {
		numbers := numbersIn(m.value, strings.HasSuffix(m.name, "_minutes"))
		if own = append(own, numbers...); slices.Contains(limitNames, m.name) {
			limits = append(limits, numbers)
		}
	}
	other := ""
	for text, values := range writtenNumbers(w.description) {
		has := func(n spend.Amount) bool { return slices.Contains(values, n) }
		if other == "" && !slices.ContainsFunc(own, has) {
			other = text
		}
		limits = slices.DeleteFunc(limits, func(limit []spend.Amount) bool { return slices.ContainsFunc(limit, has) })
	}
	if len(limits) == 0 {
		return ""
	}
	return other
}

// numbersIn returns all numbers of a parameter; of minutes also as whole hours, days and weeks.
func numbersIn(value jsontext.Value, minutes bool) (numbers []spend.Amount) {
	d := jsontext.NewDecoder(bytes.NewReader(value))
	for token, err := d.ReadToken(); err == nil; token, err = d.ReadToken() {
		if token.Kind() != jsontext.KindNumber {
			continue
		}
		if n, err := spend.ParseAmount(token.String()); err == nil {
			numbers = append(numbers, n)
		}
		whole, ok := spend.ParseInteger(token.String())
		if !minutes || !ok {
			continue
		}
		for _, unit := range []int64{60, 24 * 60, 7 * 24 * 60} {
			if n, err := spend.ParseAmount(strconv.FormatInt(whole/unit, 10)); whole%unit == 0 && err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	return numbers
}

// A number as people write it: 500, 1,000.50, 1.000,50, 1 000, 10k.
var numberForm = regexp.MustCompile(`([0-9]+(?:[.,'’][0-9]+|[ \x{a0}\x{202f}][0-9]{3}\b)*)([kKmM]?)`)

// writtenNumbers returns the numbers of a text, with what each may mean. What is part of a word, a date,
// a time or a name such as #3 is no number.
func writtenNumbers(text string) func(yield func(text string, values []spend.Amount) bool) {
	return func(yield func(string, []spend.Amount) bool) {
		for _, at := range numberForm.FindAllStringSubmatchIndex(text, -1) {
			before, _ := utf8.DecodeLastRuneInString(text[:at[0]])
			after, _ := utf8.DecodeRuneInString(text[at[1]:])
			if joins(before) || joins(after) {
				continue
			}
			power := map[string]string{"k": "e3", "m": "e6"}[strings.ToLower(text[at[4]:at[5]])]
			if !yield(text[at[0]:at[1]], meanings(text[at[2]:at[3]], power)) {
				return
			}
		}
	}
}

// joins reports whether a character beside digits makes them part of something else.
func joins(r rune) bool {
	return unicode.IsLetter(r) || strings.ContainsRune("#§:/-_", r) && r != utf8.RuneError
}

// meanings returns a number with its separators as those of thousands, and with the last one as the
// decimal point.
func meanings(digits, power string) (values []spend.Amount) {
	groups := strings.FieldsFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	numbers := []string{strings.Join(groups, "")}
	if last := len(groups) - 1; last > 0 {
		numbers = append(numbers, strings.Join(groups[:last], "")+"."+groups[last])
	}
	for _, number := range numbers {
		if n, err := spend.ParseAmount(number + power); err == nil {
			values = append(values, n)
		}
	}
	return values
}
