package checkreport

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// printer lays out sections of labelled lines.
type printer struct{ out strings.Builder }

func (p *printer) section(title string) { p.out.WriteString("\n" + title + "\n") }

// line prints a value that is known to be printable.
func (p *printer) line(label, value string) { fmt.Fprintf(&p.out, "  %-19s %s\n", label, value) }

// text prints a value from a request or a policy, or - if it is absent.
func (p *printer) text(label, value string) {
	if value == "" {
		value = "-"
	} else {
		value = printable(value)
	}
	p.line(label, value)
}

// printable returns a text that is safe on a terminal's line: unchanged, or quoted if it has
// characters that show nothing, or could be taken for a quoted, absent or blank text.
func printable(s string) string {
	if s == "" || s == "-" || s[0] == '"' || s[0] == ' ' || s[len(s)-1] == ' ' {
		return spend.Quote(s)
	}
	return spend.Printable(s)
}

// printableJSON returns a JSON text on one line; any other text is quoted.
func printableJSON(s string) string {
	compact, err := jsontext.AppendFormat(nil, s, jsontext.PreserveRawStrings(true))
	if err != nil {
		return spend.Quote(s)
	}
	return string(spend.AppendPrintableJSON(nil, compact))
}

// maxShown bounds how much of a list is printed.
const maxShown = 400

func clip(s string) string {
	if utf8.RuneCountInString(s) <= maxShown {
		return s
	}
	return string([]rune(s)[:maxShown]) + "... (all of it: --json)"
}
