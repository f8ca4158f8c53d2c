package spend

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// blanks show nothing, but no property of Unicode says so: the blanks of Braille, Khitan, hieroglyphs
// and music, and the place of an object.
const blanks = "\u2800\ufffc\U00016fe4\U00013441\U00013442\U0001d159"

// Unseen reports whether r shows nothing, or only moves what is around it: controls, format characters,
// Default_Ignorable_Code_Point, noncharacters and blanks that are no white space. The console has the
// same in assets/lib/visible.js; testdata/visible.json holds the two together.
func Unseen(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point) || strings.ContainsRune(blanks, r)
}

// sight reads a text and tells which of its characters show nothing.
type sight struct {
	base bool // there is a character on which a combining mark can stand
}

// unseen reports whether r, the next character, shows nothing, or is a combining mark on nothing.
func (s *sight) unseen(r rune) bool {
	mark := r >= utf8.RuneSelf && unicode.Is(unicode.M, r)
	unseen := Unseen(r)
	hidden := unseen || mark && !s.base
	switch {
	case unicode.IsSpace(r):
		s.base = false
	case !mark && !unseen:
		s.base = true
	}
	return hidden
}

// FirstUnseen returns the first character of s that shows nothing, and its index, or -1. Combining
// marks at the start, and after white space, show nothing that people know to be part of the text.
func FirstUnseen(s string) (rune, int) {
	var seen sight
	for i, r := range s {
		if seen.unseen(r) {
			return r, i
		}
	}
	return 0, -1
}

// UnseenFault says what is wrong with a text that has a character which shows nothing. It returns "" for any
// other text.
func UnseenFault(s string) string {
	if r, i := FirstUnseen(s); i >= 0 {
		return fmt.Sprintf("must not have the character %U, which shows nothing", r)
	}
	return ""
}

// VisibleFault says what is wrong with a text that identifies who pays or who is paid, if it differs
// from another one by what people do not see. It returns "" for any other text.
func VisibleFault(s string) string {
	if fault := UnseenFault(s); fault != "" {
		return fault
	}
	if s != strings.TrimSpace(s) {
		return "must not have white space around it"
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return r != ' ' && unicode.IsSpace(r) }); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return fmt.Sprintf("must not have the character %U, which looks like a space", r)
	}
	return ""
}
