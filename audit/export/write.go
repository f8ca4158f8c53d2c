package export

import (
	"encoding/csv"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Format is the format of a file.
type Format string

// The formats.
const (
	CSV   Format = "csv"   // RFC 4180 with \n, a header, and texts that no spreadsheet takes for a formula
	JSONL Format = "jsonl" // one object per line, with texts as they were recorded
)

// lines writes a line for each value of a type with these columns.
type lines[T any] struct {
	columns []column[T]
	w       io.Writer
	table   *csv.Writer // nil for JSONL
	cells   []string
	line    []byte
}

func newLines[T any](w io.Writer, f Format, columns []column[T]) (*lines[T], error) {
	l := &lines[T]{columns: columns, w: w}
	if f == JSONL {
		return l, nil
	}
	l.table = csv.NewWriter(w)
	return l, l.table.Write(namesOf(columns))
}

func (l *lines[T]) row(r *T) error {
	if l.table == nil {
		return l.object(r)
	}
	l.cells = l.cells[:0]
	for _, c := range l.columns {
		one := c.value(r)
		switch {
		case one.absent:
			one.text = ""
		case one.kind != numeric:
			one.text = defuse(one.text)
		}
		l.cells = append(l.cells, one.text)
	}
	return l.table.Write(l.cells)
}

func (l *lines[T]) flush() error {
	if l.table == nil {
		return nil
	}
	l.table.Flush()
	return l.table.Error()
}

// formulas are the characters that spreadsheets take for the beginning of a formula, also in full
// width, and the apostrophe, so that the prepended apostrophe can be removed again.
const formulas = "=+-@\t\r\n＝＋－＠'"

// defuse returns the text with an apostrophe before it if a spreadsheet could take it for a formula.
func defuse(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size > 0 && strings.ContainsRune(formulas, first) {
		return "'" + text
	}
	return text
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
