package httpapi

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

const (
	headerPrefer  = "Prefer"
	headerApplied = "Preference-Applied"
)

// preferred offers the values of a preference of RFC 7240 in their order, until take
// takes one, and reports whether it took one.
func preferred(headers [][]byte, name string, take func(value string) bool) bool {
	for _, header := range headers {
		for rest := string(header); rest != ""; {
			var preference string
			preference, rest = cutUnquoted(rest, ',')
			preference, _ = cutUnquoted(preference, ';') // from its parameters
			given, value, _ := strings.Cut(preference, "=")
			if strings.EqualFold(strings.TrimSpace(given), name) && take(strings.Trim(strings.TrimSpace(value), `"`)) {
				return true
			}
		}
	}
	return false
}

// preferredWait returns the first preference wait, in whole seconds.
func preferredWait(headers [][]byte) (wait time.Duration, asked bool) {
	asked = preferred(headers, "wait", func(value string) bool {
		seconds, err := strconv.ParseUint(value, 10, 31)
		wait = min(time.Duration(seconds)*time.Second, maxWait)
		return err == nil || errors.Is(err, strconv.ErrRange)
	})
	if !asked {
		wait = 0
	}
	return wait, asked
}

// prefersText reports whether a request prefers amounts as strings.
func (x *exchange) prefersText() bool {
	text := false
	preferred(x.ctx.Request.Header.PeekAll(headerPrefer), "amounts", func(value string) bool {
		text = value == "string"
		return true // of several the first counts (RFC 7240, 2)
	})
	return text
}

// applied says that a preference was followed, after others.
func (x *exchange) applied(preference string) {
	h := &x.ctx.Response.Header
	if others := h.Peek(headerApplied); others != nil {
		preference = string(others) + ", " + preference
	}
	h.Set(headerApplied, preference)
}

// waited says that the answer was held as long as was asked, if that was of use.
func (x *exchange) waited(wait time.Duration) {
	x.applied("wait=" + strconv.Itoa(int(wait/time.Second)))
}

// cutUnquoted cuts s at the first separator that is in no quoted string.
func cutUnquoted(s string, separator byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '\\' && quoted:
			i++
		case s[i] == separator && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
