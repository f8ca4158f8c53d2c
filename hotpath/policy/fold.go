package policy

import (
	"strings"
	"unicode/utf8"

	"spendgate/audit/spend"
)

// names is a set of names that compares in NFC, without regard to case (S11) and to
// surrounding white space. Its texts are folded.
type names struct{ set }

func newNames(entries []string) names {
	folded := make([]string, len(entries))
	for i, entry := range entries {
		folded[i] = string(spend.AppendFold(nil, spend.NFC(strings.TrimSpace(entry))))
	}
	return names{newSet(folded)}
}

// shortName is how many bytes a name usually has at most. Clearing a buffer of
// that size costs next to nothing.
const shortName = 64

// longestName is how many bytes an entry of a list can have in NFC, which makes three of some characters.
const longestName = spend.MaxIdentifier * utf8.UTFMax * 3

// has reports whether the set contains a name. It does not allocate unless the name is in another
// form than NFC: the name is folded on the stack, and folding makes none longer.
func (n *names) has(s string) bool {
	s = spend.NFC(strings.TrimSpace(s))
	if len(s) > shortName {
		return n.hasLong(s)
	}
	var buf [shortName]byte
	return contains(&n.set, spend.AppendFold(buf[:0], s))
}

func (n *names) hasLong(s string) bool {
	if len(s) > longestName {
		return false // more code points than an entry may have
	}
	var buf [longestName]byte
	return contains(&n.set, spend.AppendFold(buf[:0], s))
}
