package spend

import (
	"strings"
	"testing"
)

func TestValidName(t *testing.T) {
	for _, s := range []string{"bot", "Ann Lee", "ann@example.com", "team:payments", "Zoë", "渡辺", strings.Repeat("é", 128)} {
		if !ValidName(s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{
		"", " ", " bot", "bot ", "bot\u00a0", "bo\u200bt", "bot\u202e", "\ufeffbot", "bo\tt", "bo\nt", "bo\x00t", "bo\u2028t",
		"bot\ufe0f", "bo\u034ft", "bot\u2800", "\u0301bot", "Ann \u0301",
		"Zoe\u0308", "ｂｏｔ", "ﬁn", strings.Repeat("é", 129),
	} {
		if ValidName(s) {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestFoldName(t *testing.T) {
	for _, pair := range [][2]string{
		{"botA", "BOTa"},
		{"Zoë", "ZOË"},
		{"K", "\u212a"},
		{"σ", "ς"},
		{"ｂｏｔ", "Bot"},
		{"Straße", "STRASSE"},
		{"ẞ", "ss"},
		{"ﬃ", "FFI"},
		{"ΐ", "Ϊ́"},
		{"ǰ", "J̌"},
		{"ꭰ", "Ꭰ"},
	} {
		if FoldName(pair[0]) != FoldName(pair[1]) || !SameName(pair[0], pair[1]) || LowerName(pair[0]) != LowerName(pair[1]) {
			t.Errorf("%q and %q are two", pair[0], pair[1])
		}
	}
	for name, folded := range map[string]string{"bot": "BOT", "Zoë": "ZOË", "σς": "ΣΣ", "Straße": "STRASSE"} { // as they are on record
		if FoldName(name) != folded {
			t.Errorf("%q is %q, want %q", name, FoldName(name), folded)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		if LowerName("team:till-7") != "team:till-7" || !SameName("Team:Till-7", "team:tILL-7") {
			t.Error("a name is two")
		}
	}); n > 0 {
		t.Errorf("comparing names of ASCII allocates %v times", n)
	}
	if FoldName("bot1") == FoldName("bot2") {
		t.Error("two names are one")
	}
}

// What differs only by its form counts once, and text of ASCII costs nothing.
func TestNFC(t *testing.T) {
	composed := Action{AgentID: "Zoë", Counterparty: "Łódź Café"}
	decomposed := Action{AgentID: "Zoe\u0308", Counterparty: "Ło\u0301dz\u0301 Cafe\u0301"}
	if FingerprintOf(&composed, Spend) != FingerprintOf(&decomposed, Spend) {
		t.Error("one payment has two fingerprints")
	}
	if one := SubjectOf("Zoë", "a"); SubjectOf("Zoe\u0308", "a") != one || one != `["Zoë","a"]` {
		t.Errorf("a budget counts twice: %s", one)
	}
	if RequestSHA(&composed) == RequestSHA(&decomposed) {
		t.Error("two requests are one")
	}
	if n := testing.AllocsPerRun(100, func() {
		if NFC("team:till-7") != "team:till-7" || NFC("Zoë") != "Zoë" {
			t.Error("a normal text is changed")
		}
	}); n > 0 {
		t.Errorf("a normal text allocates %v times", n)
	}
}
