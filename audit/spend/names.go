package spend

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// NameForm describes what ValidName accepts, for messages.
const NameForm = "must be 1-128 characters in Unicode's form NFKC, without characters that show nothing and white space around them"

// ValidName reports whether s may name a principal, an owner or a group: two names that
// look the same are then the same (S62).
func ValidName(s string) bool {
	if Blank(s) || TooLong(s, MaxPrincipal) || !norm.NFKC.IsNormalString(s) {
		return false
	}
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	if unicode.IsSpace(first) || unicode.IsSpace(last) {
		return false
	}
	_, unseen := FirstUnseen(s)
	return unseen < 0
}

// FoldName returns a text that is equal for two names of principals, owners or groups exactly when
// they are the same name (S62): Unicode's full case folding, in which ß is ss, between NFKC. Of the
// remaining case variants the least is used, as in the record.
func FoldName(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	folded := cases.Fold().String(norm.NFKC.String(s))
	return string(AppendFold(nil, norm.NFKC.String(folded)))
}

// LowerName is FoldName in small letters, as counters of budgets have it.
func LowerName(s string) string {
	if !isASCII(s) {
		s = FoldName(s)
	}
	return strings.ToLower(s)
}

// SameName reports whether two names of principals, owners or groups are the same one.
func SameName(a, b string) bool {
	if isASCII(a) && isASCII(b) {
		return strings.EqualFold(a, b)
	}
	return a == b || FoldName(a) == FoldName(b)
}

// NFC returns s in Unicode's form NFC, in which fingerprints, subjects of budgets and lists of rules
// compare: what looks the same then counts as one, and the record has it as it was sent (S17, S33).
func NFC(s string) string {
	if isASCII(s) || norm.NFC.QuickSpanString(s) == len(s) { // IsNormalString allocates
		return s
	}
	return norm.NFC.String(s)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// AppendFold appends the form of s in Unicode's simple case folding, as lists of rules compare. Two
// strings have the same form exactly when strings.EqualFold holds.
func AppendFold(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			return appendFoldRunes(dst, s[i:])
		}
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

func appendFoldRunes(dst []byte, s string) []byte {
	for _, r := range s {
		dst = utf8.AppendRune(dst, foldRune(r))
	}
	return dst
}

// foldRune returns the least of a code point's case variants. It is never longer in UTF-8 than the
// others; for an ASCII letter it is the capital.
func foldRune(r rune) rune {
	least := r
	for variant := unicode.SimpleFold(r); variant != r; variant = unicode.SimpleFold(variant) {
		least = min(least, variant)
	}
	return least
}
