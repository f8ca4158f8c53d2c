package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCheck(t *testing.T) {
	var c Checker
	f := func(text string) {
		t.Helper()
		if err := c.Check(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"{}", "[]", `""`, "0", "null", "true", "false", " { } ", "\t[\r\n]", "[[],[[]],{}]", `{"":{},"a":[{}]}`, `{ "a" : 1 , "b" : [ 1 , 2 ] } `,
		"-0", "10", "1.0", "0.5", "-1.25e+10", "1E-9", "0e0", "1e00", strings.Repeat("9", 1000),
		`"é\u00e9😀\ud83d\ude00\uD83D\uDE00\"\\\/\b\f\n\r\t"`, `"\u0001"`, `"\uffff\ufdd0"`, "\"\x7f\u2028\"", `"\\u0000"`, "\"\U0010ffff\"",
		`{"a":1,"A":1,"aa":1,"":1}`, `{"a":{"a":{"a":1}},"b":{"a":1}}`, `[{"a":1},{"a":1}]`,
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), manyNames(fewNames + 2), manyNames(500),
	} {
		f(text)
	}
}

func TestCheckRefuses(t *testing.T) {
	var c Checker
	f := func(text string, want error) {
		t.Helper()
		err := c.Check(text)
		syntax, ok := errors.AsType[*SyntaxError](err)
		if wanted, isSyntax := errors.AsType[*SyntaxError](want); isSyntax {
			if !ok || syntax.Offset != wanted.Offset {
				t.Errorf("%.80q: %v, want %v", text, err, want)
			}
		} else if !errors.Is(err, want) {
			t.Errorf("%.80q: %v, want %v", text, err, want)
		}
	}
	at := func(offset int) error { return &SyntaxError{offset} }
	f("", ErrEmpty)
	f(" \n\t\r", ErrEmpty)
	for _, text := range []string{"{", "[", `"`, `"a`, `"\`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, "[1", "[1,", "-", "1.", "1e", "1e+", "t", "nul", "[[]", `"a\"`} {
		f(text, ErrTruncated)
	}
	for _, text := range []string{"{}{}", "1 2", "null null", "[] 0", `{}""`} {
		f(text, ErrTrailing)
	}
	f("{}x", at(2))
	f("{}]", at(2))
	f("{},", at(2))
	f("01", ErrTrailing)
	f("-01", ErrTrailing)
	f("[01]", at(2))
	for text, offset := range map[string]int{
		"x": 0, "+1": 0, ".5": 0, "-x": 1, "-.5": 1, "1.x": 2, "[1.]": 3, "[1e]": 3, "[1e+]": 4, "[1ee5]": 3, "0x1": 1, "NaN": 0, "nulL": 3, "tRue": 1, "fals3": 4,
		"[,]": 1, "[1,]": 3, "[1 2]": 3, "[1}": 2, "[}": 1, "{,}": 1, `{"a":1,}`: 7, `{"a":}`: 5, `{"a",1}`: 4, `{"a" 1}`: 5, "{1:1}": 1, "{a:1}": 1, `{"a":1]`: 6, "{]": 1,
		"[/**/]": 1, "'a'": 0, "\ufeff{}": 0, "\x00": 0, "[\x00]": 1, "{}\x00": 2, "[1\v]": 2, "[1\u00a0]": 2, "\"\x00\"": 1, "\"a\n\"": 2, "\"\x1f\"": 1,
		`"\x"`: 1, `"\U0041"`: 1, "\"\\\x00\"": 1, `"\u12"`: 1, `"\u12g4"`: 1, "\"\\u00\x100\"": 1, "\"\\u004\x01\"": 1, `"\u 041"`: 1, `"\u+041"`: 1, `"\u00é"`: 1,
		`"\ud800"`: 1, `"a\udc00 x"`: 2, `"\ud800\u0041"`: 1, `"\ud800\ud800"`: 1, `"\ud800\"`: 1, `"\ud800\n"`: 1, `"\ud83dude00"`: 1,
		"\"\xff\"": 1, "\"a\xc0\x80\"": 2, "\"\xed\xa0\x80\"": 1, "\"\xf4\x90\x80\x80\"": 1, "\"\xe2\x82\"": 1, "\"é\xc3": 3,
	} {
		f(text, at(offset))
	}
	for _, text := range []string{`"\u0000"`, `"a\\\u0000b"`, `{"\u0000":1}`, `[{"a":["\u0000"]}]`} {
		f(text, ErrNUL)
	}
	for _, text := range []string{
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"\/":1,"/":2}`, `{"":1,"":2}`, `{"x":[{"a":1,"b":{},"a":1}]}`, `{"a":{"b":1},"a":1}`, `{"a":1,"b":{"c":1},"c":1,"b":1}`,
		`{"😀":1,"\ud83d\ude00":1}`,
	} {
		f(text, ErrDuplicateName)
	}
	// Names are told apart however many there are, and wherever the two stand.
	for _, n := range []int{1, 2, fewNames - 1, fewNames, fewNames + 1, fewNames + 2, 500} {
		text := strings.TrimSuffix(manyNames(n), "}")
		f(text+`,"name0":1}`, ErrDuplicateName)
		f(text+`,"name`+strconv.Itoa(n-1)+`":1}`, ErrDuplicateName)
		f(text+`,"name`+strconv.Itoa(n)+`":{"name0":1,"name`+strconv.Itoa(n)+`":1},"name`+strconv.Itoa(n+1)+`":1,"name`+strconv.Itoa(n+1)+`":1}`, ErrDuplicateName)
	}
	f(strings.Repeat("[", maxDepth+1)+strings.Repeat("]", maxDepth+1), at(maxDepth))
	f(strings.Repeat(`{"a":`, maxDepth+1), at(5*maxDepth))
}

// manyNames is an object with n members.
func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"name` + strconv.Itoa(i) + `":` + strconv.Itoa(i))
	}
	return "{" + b.String()[1:] + "}"
}

// A Checker that has refused a text is as good as new.
func TestCheckerIsReused(t *testing.T) {
	var c Checker
	for _, text := range []string{`{"a":[{"b":`, `{"a":1,"a":1}`, `[[[[x`, strings.TrimSuffix(manyNames(100), "}")} {
		if err := c.Check(text); err == nil {
			t.Fatalf("%q is taken", text)
		}
		if err := c.Check(`{"a":{"b":1,"name0":1},"b":[]}`); err != nil {
			t.Errorf("after %q: %v", text, err)
		}
		if err := c.Check("]"); err == nil {
			t.Errorf("after %q: a bracket closes nothing", text)
		}
	}
}

func TestMembersAndElements(t *testing.T) {
	f := func(object, want string) {
		t.Helper()
		var got []string
		for m := MembersOf(object); m.Next(); {
			got = append(got, m.Name+"="+m.Value)
		}
		if text := strings.Join(got, ";"); text != want {
			t.Errorf("%s: %s, want %s", object, text, want)
		}
	}
	f("{}", "")
	f(" { } ", "")
	f(`{"a":1}`, "a=1")
	f(" \n{ \"a\" : 1 , \"\\u0062\":\t[ 1, {\"x\":2} ] ,\"\":\"},\\\"\" }", `a=1;b=[ 1, {"x":2} ];="},\""`)
	f(`{"a":{},"b":[],"c":null,"d":-1e5,"e":"\\","f":{"g":{"h":[[]]}}}`, `a={};b=[];c=null;d=-1e5;e="\\";f={"g":{"h":[[]]}}`)
	g := func(array, want string) {
		t.Helper()
		var got []string
		for e := ElementsOf(array); e.Next(); {
			got = append(got, e.Value)
		}
		if text := strings.Join(got, ";"); text != want {
			t.Errorf("%s: %s, want %s", array, text, want)
		}
	}
	g("[]", "")
	g(" [ ] ", "")
	g(`[1]`, "1")
	g(" [ 1 , \"a,]\" , [ [ ] ] , { \"]\" : 1 },true\n] ", `1;"a,]";[ [ ] ];{ "]" : 1 };true`)
}

func TestCompact(t *testing.T) {
	f := func(value, want string, wantDepth int) {
		t.Helper()
		if got, depth := Compact(value); got != want || depth != wantDepth {
			t.Errorf("%s: %s, %d, want %s, %d", value, got, depth, want, wantDepth)
		}
	}
	f("{}", "{}", 1)
	f(" 1 ", "1", 0)
	f(`{"a": [ 1, {"b c":"\" [[["} ] , "d":{}}`, `{"a":[1,{"b c":"\" [[["}],"d":{}}`, 3)
	f(`[[],[],[[]]]`, `[[],[],[[]]]`, 3)
	f("\n\r\t [ ] ", "[]", 1)
	f(strings.Repeat(" ", 100)+"[1]"+strings.Repeat(" ", 100), "[1]", 1)
	compact := `{"a":[1,2],"b":" x "}`
	if n := testing.AllocsPerRun(10, func() { Compact(compact) }); n != 0 {
		t.Errorf("a compact value takes %v allocations", n)
	}
}

// FuzzCheck: what is taken and what is refused is what two other readers take
// and refuse, and the values are theirs.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-2.5e+3,{"b":"\ud83d\ude00\"é"}],"\u0061b":null}`, `{"a":1,"a":2}`, `"\u0000"`, "\"\\u00\x100\"", `"\ud800"`, "\"\xff\"", "[1,]", `{"a":01}`, "{}{}", " [ ] ",
		"1e5", "[[[[", `{"a" : {"b" : [ ] } , "c":"\\"}`, "", "nul", manyNames(fewNames + 3), `[{"a":1},{"a":1}]`, "\"\x7f\u2028\"",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "[")+strings.Count(text, "{") > maxDepth {
			return // how deep is deep is everybody's own
		}
		var c Checker
		err := c.Check(text)
		// jsontext takes U+0000; encoding/json takes that, duplicate names,
		// lone surrogates and what is not UTF-8.
		if want := jsontext.Value(text).IsValid(); want != (err == nil) && !errors.Is(err, ErrNUL) {
			t.Fatalf("%q: %v, jsontext says %v", text, err, want)
		}
		if err != nil {
			if errors.Is(err, ErrNUL) && !strings.Contains(text, `\u0000`) {
				t.Fatalf("%q: %v", text, err)
			}
			MembersOf(text).walk()
			Compact(text)
			return
		}
		if !json.Valid([]byte(text)) || !utf8.ValidString(text) {
			t.Fatalf("%q is taken", text)
		}
		compareCompact(t, text)
		compareValue(t, strings.Trim(text, " \n\t\r"))
	})
}

// walk goes where a broken text leads.
func (m Members) walk() {
	for m.Next() {
		for e := ElementsOf(m.Value); e.Next(); {
			Unquote(e.Value)
		}
	}
}

func compareCompact(t *testing.T, text string) {
	t.Helper()
	want := jsontext.Value(text).Clone()
	if err := want.Compact(); err != nil {
		t.Fatal(err)
	}
	if got, _ := Compact(text); got != string(want) {
		t.Fatalf("%q: compact %q, want %q", text, got, want)
	}
}

// compareValue reads a value in pieces, and by encoding/json.
func compareValue(t *testing.T, value string) {
	t.Helper()
	switch Kind(value) {
	case '{':
		want := make(map[string]json.RawMessage)
		unmarshal(t, value, &want)
		got := 0
		for m := MembersOf(value); m.Next(); got++ {
			if raw, ok := want[m.Name]; !ok || !bytes.Equal(raw, []byte(m.Value)) {
				t.Fatalf("%q: %q is %q, want %q", value, m.Name, m.Value, raw)
			}
			compareValue(t, m.Value)
		}
		if got != len(want) {
			t.Fatalf("%q: %d members, want %d", value, got, len(want))
		}
	case '[':
		var want []json.RawMessage
		unmarshal(t, value, &want)
		got := 0
		for e := ElementsOf(value); e.Next(); got++ {
			if got >= len(want) || !bytes.Equal(want[got], []byte(e.Value)) {
				t.Fatalf("%q: element %d is %q of %q", value, got, e.Value, want)
			}
			compareValue(t, e.Value)
		}
		if got != len(want) {
			t.Fatalf("%q: %d elements, want %d", value, got, len(want))
		}
	case '"':
		var want string
		unmarshal(t, value, &want)
		if got := Unquote(value); got != want {
			t.Fatalf("%q is read as %q, want %q", value, got, want)
		}
	case '0':
		var want json.Number
		if unmarshal(t, value, &want); want.String() != value {
			t.Fatalf("number %q is %q", value, want)
		}
	case 't', 'f', 'n':
	default:
		t.Fatalf("%q is of no kind", value)
	}
}

func unmarshal(t *testing.T, value string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(value), v); err != nil {
		t.Fatalf("%q: %v", value, err)
	}
}
