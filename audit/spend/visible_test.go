package spend

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"spendgate/bench/must"
)

// The console passes the same cases.
func TestUnseen(t *testing.T) {
	text := must.Get(os.ReadFile("testdata/visible.json"))(t)
	var cases []struct {
		Text   string
		Unseen []string
	}
	must.Do(t, json.Unmarshal(text, &cases))
	for _, c := range cases {
		var unseen []string
		var seen sight
		for _, r := range c.Text {
			if seen.unseen(r) {
				unseen = append(unseen, fmt.Sprintf("%U", r))
			}
		}
		if !slices.Equal(unseen, c.Unseen) {
			t.Errorf("%q: %v, want %v", c.Text, unseen, c.Unseen)
		}
		if first, at := FirstUnseen(c.Text); at >= 0 != (len(c.Unseen) > 0) || at >= 0 && fmt.Sprintf("%U", first) != c.Unseen[0] {
			t.Errorf("%q: first %U at %d", c.Text, first, at)
		}
	}
}

func TestVisibleFault(t *testing.T) {
	for s, want := range map[string]string{
		"Ann": "", "Ann Lee": "", "Zoë": "", "Zoe\u0308": "", "a b  c": "", "株式会社": "",
		"Ann\ufe0f":           "must not have the character U+FE0F, which shows nothing",
		"\u0301Ann":           "must not have the character U+0301, which shows nothing",
		"Ann\t":               "must not have the character U+0009, which shows nothing",
		" Ann":                "must not have white space around it",
		"Ann\u00a0":           "must not have white space around it",
		"Ann\u00a0Lee":        "must not have the character U+00A0, which looks like a space",
		"\u3000Ann\u2003Lee ": "must not have white space around it",
	} {
		if got := VisibleFault(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
		if plainASCII(s) && want != "" {
			t.Errorf("%q is plain", s)
		}
	}
	if !plainASCII("Ann Lee~!") {
		t.Error("plain text is not plain")
	}
}

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "Ann Lee": "Ann Lee", "Zoë 渡辺 😀": "Zoë 渡辺 😀", `say "hi"`: `say "hi"`,
		"Zoë\u202e":           `"Zoë\u202e"`,
		"Zoë\ufe0f":           `"Zoë\ufe0f"`,
		"\u2800\"\n":          `"\u2800\"\n"`,
		"\u0301\u0302a\u0301": `"\u0301\u0302a` + "\u0301" + `"`,
		"a\U000e0041":         `"a\U000e0041"`,
		"\x1b[2J":             `"\x1b[2J"`,
		"a\xff":               `"a\xff"`,
		"a\u00a0b":            `"a\u00a0b"`,
		"\ue000":              `"\ue000"`,
	} {
		got := Printable(s)
		if got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
		if back, err := strconv.Unquote(got); got != s && (err != nil || back != s) {
			t.Errorf("%q: %s is %q, %v", s, got, back, err)
		}
	}
}

// A terminal shows all of a JSON text of everything that nobody sees, and it means the same.
func TestAppendPrintableJSON(t *testing.T) {
	var all []string
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if Unseen(r) || unicode.Is(unicode.Mn, r) && r < 0x400 {
			all = append(all, string(r)+"é")
		}
	}
	text := must.Get(json.MarshalIndent(all, "", "  "))(t)
	printable := string(AppendPrintableJSON(nil, text))
	if i := strings.IndexFunc(printable, func(r rune) bool { return r != '\n' && Unseen(r) || unicode.Is(unicode.M, r) }); i >= 0 {
		t.Errorf("%q is printed", printable[i:i+8])
	}
	var back []string
	if err := json.Unmarshal([]byte(printable), &back); err != nil || !slices.Equal(back, all) {
		t.Errorf("it means another text: %v", err)
	}
}
