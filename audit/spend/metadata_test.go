package spend

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestParseMetadata(t *testing.T) {
	amount := func(s string) Amount { a, _ := ParseAmount(s); return a }
	f := func(in string, want Metadata) {
		t.Helper()
		var faults Faults
		if got := ParseMetadata(jsontext.Value(in), "metadata", &faults); got != want || faults != nil {
			t.Errorf("%s:\n got %+v %v\nwant %+v", in, got, faults, want)
		}
	}
	f("null", Metadata{})
	f("{}", Metadata{JSON: "{}"})
	f(" { } ", Metadata{JSON: "{}"})
	f(`{"days_since_purchase": 5.0 , "discount_percent":12.50,"country":"de","category":" Toys "}`, Metadata{
		JSON:              `{"days_since_purchase":5.0,"discount_percent":12.50,"country":"de","category":" Toys "}`,
		DaysSincePurchase: 5, HasDaysSincePurchase: true, DiscountPercent: amount("12.5"), HasDiscountPercent: true, Country: "DE",
		Category: " Toys ",
	})
	f(`{"days_since_purchase":0,"discount_percent":-0}`, Metadata{
		JSON:                 `{"days_since_purchase":0,"discount_percent":-0}`,
		HasDaysSincePurchase: true, HasDiscountPercent: true,
	})
	f(`{"days_since_purchase":null,"discount_percent":null,"country":" ","category":""}`,
		Metadata{JSON: `{"days_since_purchase":null,"discount_percent":null,"country":" ","category":""}`})
	// The known keys are keys of the outermost object, however they are spelt.
	f(`{"a":{"country":7},"b":["country",{"category":1}],"c":"\"country\":7,","\u0063ountry":"\u0046R"}`, Metadata{
		JSON: `{"a":{"country":7},"b":["country",{"category":1}],"c":"\"country\":7,","\u0063ountry":"\u0046R"}`, Country: "FR",
	})
	f(`{"Country":7,"":1," category":{}}`, Metadata{JSON: `{"Country":7,"":1," category":{}}`})
	f(`{"category":"}\\\"{","x":"\\"}`, Metadata{JSON: `{"category":"}\\\"{","x":"\\"}`, Category: `}\"{`})
}

func TestParseMetadataFaults(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		var faults Faults
		ParseMetadata(jsontext.Value(in), "m", &faults)
		if got := faults.Error(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for _, in := range []string{"[]", `"x"`, "1", "true"} {
		f(in, "m must be an object")
	}
	for _, days := range []string{"-1", "1.5", `"3"`, "true", "[]", "1e30"} {
		f(`{"days_since_purchase":`+days+`}`, "m.days_since_purchase must be an integer of 0 or more, with at most 18 digits")
	}
	for percent, want := range map[string]error{
		"-1": ErrNegative, `"3"`: ErrNotNumber, "{}": ErrNotNumber, "1e-30": ErrTooManyDigits, "33.3333333333333": ErrTooManyDigits,
	} {
		f(`{"discount_percent":`+percent+`}`, "m.discount_percent "+want.Error())
	}
	for _, country := range []string{"7", `"DEU"`, `"d1"`, "[]"} {
		f(`{"country":`+country+`}`, "m.country must be a two-letter country code")
	}
	f(`{"category":7,"country":7}`, "m.category must be a string; m.country must be a two-letter country code")
	nested := func(n int) string { return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}" }
	f(nested(MaxMetadataDepth), "")
	f(nested(MaxMetadataDepth+1), "m must be at most 8 levels deep")
	f(`{"a":"[[[[[[[[[[{{{{{{"}`, "")
	sized := func(n int) string { return `{"a":"` + strings.Repeat("x", n-8) + `"}` }
	f(sized(MaxMetadataBytes), "")
	f(strings.Repeat(" ", 1<<20)+sized(MaxMetadataBytes), "") // as compact JSON
	f(sized(MaxMetadataBytes+1), "m must be at most 16 KiB as compact JSON")
	for _, in := range []string{"{", `{"a":1,"a":2}`, `{"a":"\ud800"}`, "{} {}", ""} {
		f(in, "m must be well-formed JSON without duplicate names")
	}
}

// Numbers are compared by meaning, so those whose meaning is costly to compare
// are refused wherever they are.
func TestLongExponents(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		var faults Faults
		m := ParseMetadata(jsontext.Value(in), "m", &faults)
		if got := faults.Error(); got != want || (m.JSON == "") != (want != "") {
			t.Errorf("%s: %q, %q, want %q", in, m.JSON, got, want)
		}
		faults = nil
		if CompactObject(in, "m", &faults); faults.Error() != want {
			t.Errorf("%s: %q, want %q", in, faults.Error(), want)
		}
	}
	const problem = " must have an exponent of at most 4 digits"
	f(`{"a":1e9999,"b":[-1E-9999,1e+00009999,"1e10000000"],"1e10000000":0}`, "")
	f(`{"a":1e10000000}`, "m.a"+problem)
	f(`{"a":10e9999999}`, "m.a"+problem)
	f(`{"a":1E-10000}`, "m.a"+problem)
	f(`{"a":0e10000}`, "m.a"+problem)
	f(`{"x":{"1":2},"a.b":[7,{"\u0063":[[],[1,-2.5e+010000]]}],"z":1e99999}`, "m.a.b[1].c[1][1]"+problem)
	f(`{"`+strings.Repeat("n", 100)+`":1e99999}`, "m."+strings.Repeat("n", 64)+"..."+problem)
	f(`{"discount_percent":1e99999}`, "m.discount_percent"+problem)
	f(`{"a":1e`+strings.Repeat("9", 10000)+`}`, "m.a"+problem)
}

func TestParseMetadataLeavesItsInputAlone(t *testing.T) {
	in := []byte(` { "country" : "de" } `)
	var faults Faults
	m := ParseMetadata(in, "m", &faults)
	if string(in) != ` { "country" : "de" } ` {
		t.Errorf("the input became %q", in)
	}
	for i := range in {
		in[i] = 'x'
	}
	if m.JSON != `{"country":"de"}` || m.Country != "DE" {
		t.Errorf("the metadata became %+v", m)
	}
}

// FuzzParseMetadata: the text is what jsontext compacts it to, and the known
// keys are what jsontext reads. No text, well-formed or not, is a panic.
func FuzzParseMetadata(f *testing.F) {
	for _, s := range []string{
		"{}", "null", "{", `{"country":"DE"}`, ` { "category" : "a\"b" , "x" : [ 1 , { } ] } `, `{"\u0063ountry":"\u0044E","a":{"b":"}"}}`,
		`{"days_since_purchase":1e1,"discount_percent":12.5}`, `{"a":"\\","b":"\\\""}`, `{"":""}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var faults Faults
		m := ParseMetadata(jsontext.Value(s), "m", &faults)
		if !jsontext.Value(s).IsValid() || m.JSON == "" {
			return
		}
		compact := jsontext.Value(s).Clone()
		if err := compact.Compact(); err != nil || !bytes.Equal(compact, []byte(m.JSON)) {
			t.Fatalf("%q is compacted to %q, want %q", s, m.JSON, compact)
		}
		want, wantFaults := decodedMetadata(compact)
		if m != want || !reflect.DeepEqual(faults, wantFaults) {
			t.Fatalf("%q:\n got %+v %v\nwant %+v %v", s, m, faults, want, wantFaults)
		}
	})
}

// decodedMetadata reads the known keys with a decoder.
func decodedMetadata(raw jsontext.Value) (Metadata, Faults) {
	m := Metadata{JSON: string(raw)}
	var faults Faults
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.ReadToken()
	for dec.PeekKind() == '"' {
		name, _ := dec.ReadToken()
		key := name.String()
		value, _ := dec.ReadValue()
		m.read(key, string(value), "m", &faults)
	}
	return m, faults
}
