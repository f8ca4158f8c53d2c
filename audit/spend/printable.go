package spend

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable returns a text of others as a terminal may show it: s itself, or Quote of s if it has
// characters that show nothing or control the terminal.
func Printable(s string) string {
	strange := func(r rune) bool { return !strconv.IsPrint(r) }
	if _, i := FirstUnseen(s); i < 0 && utf8.ValidString(s) && !strings.ContainsFunc(s, strange) {
		return s
	}
	return Quote(s)
}

// Quote returns s between quotation marks, with escapes for what strconv.Quote escapes and for all
// other characters that show nothing.
func Quote(s string) string {
	b := []byte{'"'}
	var seen sight
	from := 0
	plain := func(to int) {
		quoted := strconv.Quote(s[from:to])
		b = append(b, quoted[1:len(quoted)-1]...)
	}
	for i, r := range s {
		if !seen.unseen(r) {
			continue
		}
		plain(i)
		escape := strconv.QuoteRuneToASCII(r)
		b = append(b, escape[1:len(escape)-1]...)
		from = i + utf8.RuneLen(r)
	}
	plain(len(s))
	return string(append(b, '"'))
}

// AppendPrintableJSON appends a JSON text of the same meaning that a terminal may show. Only strings
// contain characters outside of ASCII, and package json does not escape DEL.
func AppendPrintableJSON(dst, text []byte) []byte {
	var seen sight
	for _, r := range string(text) {
		hidden := seen.unseen(r) || !strconv.IsPrint(r)
		if r == '"' {
			seen.base = false // a mark at the start of a string
		}
		switch {
		case r == '\n' || !hidden:
			dst = utf8.AppendRune(dst, r)
		case r > 0xffff:
			r -= 0x10000
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
	}
	return dst
}
