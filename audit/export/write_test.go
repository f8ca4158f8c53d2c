package export

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"
	"unicode/utf8"

	"spendgate/bench/must"
)

// undefuse does what docs/audit/auditors.md says: it takes away an apostrophe in each place where there may be one.
func undefuse(text string) string {
	var b strings.Builder
	for text != "" {
		text = strings.TrimPrefix(text, "'")
		n := strings.IndexAny(text, apart) + 1
		if n == 0 {
			n = len(text)
		}
		b.WriteString(text[:n])
		text = text[n:]
	}
	return b.String()
}

// A spreadsheet that separates by semicolons or tabs, and does not know the quotes of a cell within a line, shows no
// formula; whoever separates by commas reads the recorded text, but for the apostrophes.
func TestTextsAreNoFormulas(t *testing.T) {
	columns := []column[string]{
		{"text", func(s *string) cell { return cell{text: *s} }},
		{"json", func(s *string) cell { return cell{text: *s, kind: object} }},
		{"number", func(*string) cell { return cell{text: "1.50", kind: numeric} }},
		{"none", func(*string) cell { return cell{absent: true} }},
	}
	f := func(s, want string) {
		var b bytes.Buffer
		l, err := newLines(&b, CSV, false, columns)
		if err == nil {
			err = l.row(&s)
		}
		must.Do(t, err)
		line := b.String()[len("text,json,number,none\n"):]
		quoted := `"` + strings.ReplaceAll(want, `"`, `""`) + `"`
		if line != quoted+","+quoted+",1.50,\n" {
			t.Errorf("%q: %s", s, line)
		}
		for _, cell := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(apart, r) })[1:] {
			if beginsFormula(cell) {
				t.Errorf("%q: the cell %s", s, cell)
			}
		}
		read := csv.NewReader(&b)
		read.FieldsPerRecord = -1
		rows, err := read.ReadAll()
		if err != nil || undefuse(rows[1][0]) != strings.ReplaceAll(s, "\r\n", "\n") {
			t.Errorf("%q: read as %q, %v", s, rows, err)
		}
	}
	f("acme", "acme")
	f("=1+1", "'=1+1")
	f("＝1+1", "'＝1+1")
	f(" =1+1", "' =1+1")
	f("a=1", "a=1")
	f("-", "'-")
	f("'quoted", "''quoted")
	f("\t=1", "'\t'=1")
	f("x;=1+1", "x;'=1+1")
	f("x; =1+1;+2", "x;' =1+1;'+2")
	f(`x;"=1+1;`, `x;'"=1+1;`)
	f("x;'=1", "x;''=1")
	f("x;y", "x;y")
	f("two\n-lines\r@x", "two\n'-lines\r'@x")
	f("Größe; ok", "Größe; ok")
}

func FuzzTextsComeBack(f *testing.F) {
	f.Add("x;'=1\t'\n;;'")
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) && undefuse(defuse(s)) != s {
			t.Errorf("%q is %q", s, defuse(s))
		}
	})
}

func TestByteOrderMark(t *testing.T) {
	columns := []column[string]{{"a", func(s *string) cell { return cell{text: *s} }}}
	for format, want := range map[Format]string{CSV: "\ufeffa\n", JSONL: ""} {
		var b bytes.Buffer
		if _, err := newLines(&b, format, true, columns); err != nil || b.String() != want {
			t.Errorf("%s: %q, %v", format, b.String(), err)
		}
	}
}
