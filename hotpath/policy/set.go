package policy

import (
	"slices"
	"strings"
)

// set is a set of texts that does not change: one string of all of them, sorted,
// and where each ends. It takes little more than its JSON did; a map would take
// eight times that.
type set struct {
	text string
	ends []uint32
}

func newSet(entries []string) set {
	entries = slices.Compact(slices.Sorted(slices.Values(entries)))
	s := set{text: strings.Join(entries, ""), ends: make([]uint32, len(entries))}
	end := 0
	for i, entry := range entries {
		end += len(entry)
		s.ends[i] = uint32(end) //nolint:gosec // a policy is at most 1 MiB
	}
	return s
}

// at returns the i-th text.
func (s *set) at(i int) string {
	start := uint32(0)
	if i > 0 {
		start = s.ends[i-1]
	}
	return s.text[start:s.ends[i]]
}

// contains reports whether the set has a text. It does not allocate.
func contains[T string | []byte](s *set, text T) bool {
	low, high := 0, len(s.ends)
	for low < high {
		middle := int(uint(low+high) / 2)
		switch at := s.at(middle); {
		case string(text) == at:
			return true
		case string(text) < at:
			high = middle
		default:
			low = middle + 1
		}
	}
	return false
}

// size returns how many bytes the set refers to.
func (s *set) size() int { return len(s.text) + 4*len(s.ends) }
