package policy

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"spendgate/audit/spend"
)

// names is a set of names that compares in one Unicode form, without regard to case (S11) and to
// surrounding white space. Its texts are folded.
type names struct{ set }

func newNames(entries []string) names {
	folded := make([]string, len(entries))
	for i, entry := range entries {
		folded[i] = string(fold(nil, strings.TrimSpace(entry)))
	}
	return names{newSet(folded)}
}

// shortName is how many bytes a name usually has at most. Clearing a buffer of
// that size costs next to nothing.
const shortName = 64

// longestName is how many bytes a text can have that is an entry of a list in some form: a letter decomposes to three.
const longestName = spend.MaxIdentifier * utf8.UTFMax * 3

// has reports whether the set contains a name. It does not allocate unless the name has letters that decompose: the name is
// folded on the stack, and folding makes none longer.
func (n *names) has(s string) bool {
	s = strings.TrimSpace(s)
	if len(s) > shortName {
		return n.hasLong(s)
	}
	var buf [shortName]byte
	return contains(&n.set, fold(buf[:0], s))
}

// fold adds a name without regard to case, decomposed: some letters compose with their marks in one case alone.
func fold(dst []byte, s string) []byte {
	if norm.NFD.QuickSpanString(s) < len(s) {
		s = norm.NFD.String(s)
	}
	return spend.AppendFold(dst, s)
}

func (n *names) hasLong(s string) bool {
	if len(s) > longestName {
		return false // more code points than an entry may have
	}
	var buf [longestName]byte
	return contains(&n.set, fold(buf[:0], s))
}
