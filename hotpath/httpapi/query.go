package httpapi

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// The sizes of a page.
const (
	defaultPage = 20
	maxPage     = 100
)

// parameter is one name and value of a query, decoded.
type parameter struct{ name, value string }

// parameters takes a query apart, strictly (S22): a faulty escape, a name that
// is not known or appears twice is a fault. Blank values are left out.
func parameters(query []byte, faults *spend.Faults, known ...string) map[string]string {
	if len(query) == 0 {
		return nil
	}
	values, seen := make(map[string]string, len(known)), make(map[string]bool, len(known))
	for part := range strings.SplitSeq(string(query), "&") {
		if part == "" {
			continue
		}
		p, ok := decodeParameter(part)
		switch {
		case len(*faults) >= maxFaults:
			return values
		case !ok:
			faults.Add("query", "must be well-formed: name=value, percent-encoded UTF-8")
			continue
		case !slices.Contains(known, p.name):
			faults.Add(spend.NameShown(p.name), "is not a known query parameter")
			continue
		case seen[p.name]:
			faults.Add(p.name, "must be given once")
			continue
		}
		seen[p.name] = true
		if !spend.Blank(p.value) {
			values[p.name] = p.value
		}
	}
	return values
}

func decodeParameter(part string) (parameter, bool) {
	name, value, _ := strings.Cut(part, "=")
	name, ok := unescape(name, true)
	if !ok {
		return parameter{}, false
	}
	value, ok = unescape(value, true)
	return parameter{name, value}, ok
}

// unescape decodes percent-encoding, and + as a space in a query. It refuses
// what is not an escape, is not UTF-8 or holds U+0000.
func unescape(s string, query bool) (string, bool) {
	if strings.ContainsAny(s, "%+\x00") {
		b := make([]byte, 0, len(s))
		for i := 0; i < len(s); i++ {
			c := s[i]
			switch {
			case c == '+' && query:
				c = ' '
			case c == '%':
				if i+2 >= len(s) || !hexDigit(s[i+1]) || !hexDigit(s[i+2]) {
					return "", false
				}
				n, _ := strconv.ParseUint(s[i+1:i+3], 16, 8)
				c, i = byte(n), i+2
			}
			if c == 0 {
				return "", false
			}
			b = append(b, c)
		}
		s = string(b)
	}
	return s, utf8.ValidString(s)
}

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// queryVersion reads ?version=; 0 is the latest. A version that no policy can
// have is math.MaxInt32, which none will ever reach.
func queryVersion(query []byte) (int, error) {
	var faults spend.Faults
	s, given := parameters(query, &faults, "version")["version"]
	if !given {
		return 0, faults.Err()
	}
	n, ok := wholeNumber(s)
	if !ok || n < 1 {
		faults.Add("version", "must be an integer of 1 or more")
	}
	return n, faults.Err()
}

// wholeNumber reads decimal digits; what exceeds math.MaxInt32 becomes it.
func wholeNumber(s string) (int, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	s = strings.TrimLeft(s[:len(s)-1], "0") + s[len(s)-1:]
	if len(s) > 10 {
		return math.MaxInt32, true
	}
	n, _ := strconv.Atoi(s)
	return min(n, math.MaxInt32), true
}

// queryViolations reads the query of GET /v1/violations (interface, 4.5).
func queryViolations(query []byte) (audit.ViolationQuery, filterSum, error) {
	var faults spend.Faults
	q := audit.ViolationQuery{Limit: defaultPage}
	values := parameters(query, &faults, "agent_id", "action_type", "decision", "from", "to", "limit", "cursor")
	q.AgentID = values["agent_id"]
	spend.CheckLength(&faults, "agent_id", q.AgentID, spend.MaxIdentifier)
	if s, given := values["action_type"]; given {
		var ok bool
		if q.ActionType, ok = spend.ParseActionType(s); !ok {
			faults.Add("action_type", actionTypeForm)
		}
	}
	if s, given := values["decision"]; given {
		var ok bool
		if q.Effect, ok = spend.ParseEffect(s); !ok || q.Effect == spend.Allow {
			faults.Add("decision", "must be block or escalate")
		}
	}
	q.From, q.To = queryRange(values, &faults)
	filters := violationFilters(&q)
	q.Limit, q.Before = queryPageBefore(values, filters, &faults)
	return q, filters, faults.Err()
}

// queryKeys reads the query of GET /v1/keys.
func queryKeys(query []byte) (limit int, before spend.ID, filters filterSum, err error) {
	var faults spend.Faults
	filters = keyFilters()
	limit, before = queryPageBefore(parameters(query, &faults, "limit", "cursor"), filters, &faults)
	return limit, before, filters, faults.Err()
}

// queryPage reads limit and cursor. The cursor of a query that is at fault
// already is not judged: it may only be of other filters for that reason.
func queryPage(values map[string]string, filters filterSum, faults *spend.Faults) (limit int, position string) {
	limit = defaultPage
	otherwise := len(*faults) > 0
	if s, given := values["limit"]; given {
		var ok bool
		if limit, ok = wholeNumber(s); !ok || limit < 1 || limit > maxPage {
			faults.Add("limit", "must be an integer of 1 to 100")
		}
	}
	if s, given := values["cursor"]; given && !otherwise {
		var ok bool
		if position, ok = parseCursor(s, filters); !ok {
			faults.Add("cursor", cursorForm)
		}
	}
	return limit, position
}

const cursorForm = "must be the next_cursor of a page with the same filters"

// queryPageBefore is queryPage of a listing whose positions are IDs.
func queryPageBefore(values map[string]string, filters filterSum, faults *spend.Faults) (limit int, before spend.ID) {
	limit, position := queryPage(values, filters, faults)
	if position != "" && len(position) != len(before) {
		faults.Add("cursor", cursorForm)
	}
	copy(before[:], position)
	return limit, before
}
