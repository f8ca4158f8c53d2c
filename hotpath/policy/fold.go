package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"spendgate/hotpath/spend"
)

// names is a set of names that compares without regard to case (S11) and to
// surrounding white space. Its texts are folded.
type names struct{ set }

func newNames(entries []string) names {
	folded := make([]string, len(entries))
	for i, entry := range entries {
		folded[i] = string(appendFold(nil, strings.TrimSpace(entry)))
	}
	return names{newSet(folded)}
}

// shortName is how many bytes a name usually has at most. Clearing a buffer of
// that size costs next to nothing.
const shortName = 64

// longestName is how many bytes an entry of a list can have.
const longestName = spend.MaxIdentifier * utf8.UTFMax

// has reports whether the set contains a name. It does not allocate: the name is
// folded on the stack, and folding makes none longer.
func (n *names) has(s string) bool {
	s = strings.TrimSpace(s)
	if len(s) > shortName {
		return n.hasLong(s)
	}
	var buf [shortName]byte
	return contains(&n.set, appendFold(buf[:0], s))
}

func (n *names) hasLong(s string) bool {
	if len(s) > longestName {
		return false // more code points than an entry may have
	}
	var buf [longestName]byte
	return contains(&n.set, appendFold(buf[:0], s))
}

// appendFold appends the folded form of s. Two strings have the same one
// exactly when strings.EqualFold holds.
func appendFold(dst []byte, s string) []byte {
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

// foldRune returns the least of a code point's case variants. Being the least it
// is never longer in UTF-8; for a letter of ASCII it is the capital.
func foldRune(r rune) rune {
	least := r
	for variant := unicode.SimpleFold(r); variant != r; variant = unicode.SimpleFold(variant) {
		least = min(least, variant)
	}
	return least
}
