package export

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Format is the format of a file.
type Format string

// The formats.
const (
	CSV   Format = "csv"   // RFC 4180 with \n, a header, all texts in quotes, and none that a spreadsheet takes for a formula
	JSONL Format = "jsonl" // one object per line, with texts as they were recorded
)

// bom is the byte order mark, without which Excel does not take a CSV file for UTF-8.
const bom = "\ufeff"

// lines writes a line for each value of a type with these columns.
type lines[T any] struct {
	columns []column[T]
	format  Format
	w       io.Writer
	line    []byte
}

// newLines writes the header of a CSV file, after a byte order mark if it shall have one.
func newLines[T any](w io.Writer, f Format, mark bool, columns []column[T]) (*lines[T], error) {
	l := &lines[T]{columns: columns, format: f, w: w}
	if f == JSONL {
		return l, nil
	}
	header := strings.Join(namesOf(columns), ",") + "\n"
	if mark {
		header = bom + header
	}
	_, err := io.WriteString(w, header)
	return l, err
}

func (l *lines[T]) row(r *T) error {
	if l.format == JSONL {
		return l.object(r)
	}
	b := l.line[:0]
	for i, c := range l.columns {
		if i > 0 {
			b = append(b, ',')
		}
		switch one := c.value(r); {
		case one.absent:
		case one.kind == numeric:
			b = append(b, one.text...)
		default:
			b = append(append(append(b, '"'), strings.ReplaceAll(defuse(one.text), `"`, `""`)...), '"')
		}
	}
	l.line = append(b, '\n')
	_, err := l.w.Write(l.line)
	return err
}

const (
	// formulas are the characters that spreadsheets take for the beginning of a formula, also in full
	// width: quotes around a cell change nothing about that.
	formulas = "=+-@＝＋－＠"
	// apart are the characters that begin another cell where a spreadsheet separates by them, the
	// semicolon in many countries. Excel does so even within the quotes of a cell that is not the first of its line.
	apart = ";\t\r\n"
)

// defuse returns the text with an apostrophe wherever a spreadsheet could see the beginning of a
// formula: at the text's beginning, and behind a character of apart. An apostrophe in such a place gets
// another, so whoever takes away one in each of them has the recorded text.
func defuse(text string) string {
	if !strings.ContainsAny(text, formulas+apart+"'") {
		return text
	}
	var b strings.Builder
	first := true
	for rest := text; rest != ""; {
		if strings.HasPrefix(rest, "'") || beginsFormula(rest) || first && strings.ContainsRune(apart, rune(rest[0])) && rest[0] != ';' {
			b.WriteByte('\'')
		}
		first = false
		n := strings.IndexAny(rest, apart) + 1
		if n == 0 {
			n = len(rest)
		}
		b.WriteString(rest[:n])
		rest = rest[n:]
	}
	return b.String()
}

// beginsFormula reports whether a text begins with a formula, perhaps after what a spreadsheet skips.
func beginsFormula(text string) bool {
	text = strings.TrimLeftFunc(text, func(r rune) bool { return r == '"' || unicode.IsSpace(r) })
	r, size := utf8.DecodeRuneInString(text)
	return size > 0 && strings.ContainsRune(formulas, r)
}

func (l *lines[T]) object(r *T) error {
	b := append(l.line[:0], '{')
	for i, c := range l.columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), c.name...), '"', ':')
		one := c.value(r)
		switch value := jsontext.Value(one.text); {
		case one.absent:
			b = append(b, "null"...)
		case one.kind == text, !value.IsValid():
			b, _ = jsontext.AppendQuote(b, one.text) // it is valid UTF-8, or is made so
		default:
			b, _ = jsontext.AppendFormat(b, value, jsontext.PreserveRawStrings(true)) // it was valid
		}
	}
	l.line = append(b, '}', '\n')
	_, err := l.w.Write(l.line)
	return err
}
