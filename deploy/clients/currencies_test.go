package clients_test

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"spendgate/audit/spend"
)

// Each client has the service's currencies with their digits, and the console those that have not two.
func TestCurrencies(t *testing.T) {
	letters := strings.Split("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "")
	want := map[string]int{}
	for _, a := range letters {
		for _, b := range letters {
			for _, c := range letters {
				if digits, known := spend.MinorDigits(a + b + c); known {
					want[a+b+c] = digits
				}
			}
		}
	}
	notTwo := maps.Clone(want)
	maps.DeleteFunc(notTwo, func(_ string, digits int) bool { return digits == 2 })
	token := regexp.MustCompile(`\b[0-9]\b|\b[A-Z]{3}\b`)
	list := regexp.MustCompile(`(?s)\nconst minorDigits[^=]*= \[\n(.*?)\n\];\n`)
	for file, of := range map[string]struct {
		table *regexp.Regexp
		want  map[string]int
	}{
		"python/src/spendgate/wire.py":              {regexp.MustCompile(`(?s)\n_DIGITS = \{\n(.*?)\n\}\n`), want},
		"typescript/src/amount.ts":                  {list, want},
		"../../hotpath/console/assets/lib/words.js": {list, notTwo},
	} {
		found := of.table.FindStringSubmatch(sources(t, file))
		if found == nil {
			t.Fatal(file, "has no table")
		}
		has, digits := map[string]int{}, 0
		for _, word := range token.FindAllString(found[1], -1) {
			if len(word) == 1 {
				digits = int(word[0] - '0')
			} else {
				has[word] = digits
			}
		}
		if !maps.Equal(has, of.want) {
			t.Errorf("%s has %v, the service %v", file, has, of.want)
		}
	}
}
