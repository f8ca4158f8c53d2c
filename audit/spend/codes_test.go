package spend

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/currency"
	"golang.org/x/text/language"
)

func TestParseCodes(t *testing.T) {
	for in, want := range map[string]string{"usd": "USD", "EuR": "EUR", "XXX": "XXX"} {
		if got, ok := ParseCurrency(in); !ok || got != want {
			t.Errorf("%s: %s, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "US", "USDT", "U D", "12A", "U$D", "é1", "[\\]", "@@@", "```", "{|}", "ſſ"} {
		if got, ok := ParseCurrency(in); ok {
			t.Errorf("%q is the currency %s", in, got)
		}
	}
	if got, ok := ParseCountry("de"); !ok || got != "DE" {
		t.Errorf("de: %s, %v", got, ok)
	}
	for _, in := range []string{"", "D", "DEU", "D1", "é", "  "} {
		if got, ok := ParseCountry(in); ok {
			t.Errorf("%q is the country %s", in, got)
		}
	}
}

// The lists are compared with those of another origin. That of x/text is of 2017, and has codes of the past, too.
func TestCodesAreOfISO(t *testing.T) {
	of := strings.Fields(countries)
	if !slices.IsSorted(of) || len(slices.Compact(slices.Clone(of))) != 249+1 {
		t.Errorf("%d countries, or not sorted: ISO 3166-1 has 249, and XK is added", len(of))
	}
	for _, code := range of {
		if r, err := language.ParseRegion(code); err != nil || !r.IsCountry() || r.Canonicalize().String() != code {
			t.Error(code, "is no country")
		}
	}
	added := strings.Fields("SLE UYW VED VES XAD XCG ZWG MRU STN")
	for code := range strings.FieldsSeq(currencies + " " + unitless) {
		if _, err := currency.ParseISO(code); err != nil && !slices.Contains(added, code) {
			t.Error(code, "is no currency")
		}
	}
	for code := range strings.FieldsSeq("UK EL ZZ XX SU AN CS GBR D A") {
		if CountryAssigned(code) {
			t.Error(code, "is assigned")
		}
	}
	for code := range strings.FieldsSeq("EUO BTC HRK BGN usd US USDX EDA") {
		if CurrencyAssigned(code) {
			t.Error(code, "is assigned")
		}
	}
	if CurrencyAssigned("") || CurrencyAssigned("D A") || CountryAssigned("") || CountryAssigned("D ") {
		t.Error("what is no code is assigned")
	}
	if !CurrencyAssigned("XAU") || !CountryAssigned("XK") {
		t.Error("a code is missing")
	}
}

func TestMinorDigits(t *testing.T) {
	for code, want := range map[string]int{"USD": 2, "JPY": 0, "BHD": 3, "CLF": 4, "ISK": 0, "HUF": 2, "XAF": 0, "UGX": 0, "TND": 3} {
		if got, known := MinorDigits(code); !known || got != want {
			t.Error(code, got, known)
		}
	}
	for _, code := range []string{"", "XXX", "XAU", "usd", "US", "D A", "EDA", "USDX", "BTC"} {
		if _, known := MinorDigits(code); known {
			t.Error(code, "is known")
		}
	}
}
