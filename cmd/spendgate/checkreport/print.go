package checkreport

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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
// unprintable characters or could be taken for a quoted, absent or blank text.
func printable(s string) string {
	strange := s == "" || s == "-" || s[0] == '"' || s[0] == ' ' || s[len(s)-1] == ' ' || !utf8.ValidString(s) ||
		strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
	if strange {
		return strconv.Quote(s) // escapes every character that strconv.IsPrint rejects
	}
	return s
}

// printableJSON returns a JSON text on one line; any other text is quoted.
func printableJSON(s string) string {
	compact, err := jsontext.AppendFormat(nil, s, jsontext.PreserveRawStrings(true))
	if err != nil {
		return strconv.Quote(s)
	}
	return string(escape(compact))
}

// maxShown bounds how much of a list is printed.
const maxShown = 400

func clip(s string) string {
	if utf8.RuneCountInString(s) <= maxShown {
		return s
	}
	return string([]rune(s)[:maxShown]) + "... (all of it: --json)"
}

// escape makes a JSON text printable. Only strings contain characters outside of ASCII, and package
// json does not escape DEL.
func escape(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
