package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"spendgate/audit/spend"
)

const (
	columnGap = 2
	// leastColumn is how far the columns of a table are narrowed for a terminal: a name is known by as much.
	leastColumn = 8
)

// WriteTable writes a line of headings, and a line of cells for each item, no wider than the terminal.
func WriteTable[T any](w io.Writer, headings []string, all []T, cells func(*T) []string) error {
	rows := [][]string{headings}
	for i := range all {
		row := cells(&all[i])
		for j, cell := range row {
			row[j] = spend.Printable(cell)
		}
		rows = append(rows, row)
	}
	fit(rows, terminalWidth(w))
	out := NewTable(w)
	for _, row := range rows {
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	return out.Flush()
}

// NewTable returns a writer that aligns columns when it is flushed.
func NewTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, columnGap, ' ', 0) }

// terminalWidth returns how many characters a line of a terminal has; 0 if w is none.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// fit cuts cells so that lines have at most width characters, the widest columns first. The first column stays: it
// has identifiers, which are copied. A width of 0 is any.
func fit(rows [][]string, width int) {
	widths, line := make([]int, len(rows[0])), -columnGap
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		line += widths[i] + columnGap
	}
	if width == 0 {
		return
	}
	for ; line > width; line-- {
		widest := 0
		for i := 1; i < len(widths); i++ {
			if widths[i] > leastColumn && (widest == 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest == 0 {
			break
		}
		widths[widest]--
	}
	for _, row := range rows {
		for i, cell := range row {
			if runes := []rune(cell); len(runes) > widths[i] {
				row[i] = string(runes[:widths[i]-1]) + "…"
			}
		}
	}
}
