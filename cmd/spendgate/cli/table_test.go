package cli

import (
	"slices"
	"strings"
	"testing"
)

// A table is as wide as the terminal: the widest columns are cut, never the first, which is copied.
func TestTablesFit(t *testing.T) {
	rows := func() [][]string {
		return [][]string{
			{"ID", "NAME", "COUNTERPARTY"}, {strings.Repeat("i", 36), "éé", strings.Repeat("ü", 40)}, {"i", strings.Repeat("n", 30), "c"},
		}
	}
	for width, want := range map[int][3]int{0: {36, 30, 40}, 200: {36, 30, 40}, 100: {36, 30, 30}, 80: {36, 20, 20}, 20: {36, 8, 8}} {
		got := rows()
		fit(got, width)
		var widths [3]int
		for i := range widths {
			for _, row := range got {
				widths[i] = max(widths[i], len([]rune(row[i])))
			}
		}
		if widths != want || !slices.Equal(got[0], rows()[0]) && width > 20 {
			t.Errorf("%d characters: columns of %v, want %v: %q", width, widths, want, got)
		}
	}
}
