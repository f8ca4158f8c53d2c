package httpapi

import (
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

func TestQueryViolations(t *testing.T) {
	f := func(query, want string) {
		t.Helper()
		got := ""
		if _, _, err := queryViolations([]byte(query)); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	f("", "")
	f("&", "")
	f("agent_id=&action_type=+&decision=%20%09&from&to=&limit=&cursor=", "")
	f("agent_id=a%2Fb+c&action_type=refund&decision=block&from=2026-01-01&to=2026-01-01&limit=100", "")
	f("limit=0", "limit must be")
	f("limit=101", "limit must be")
	f("limit=-1", "limit must be")
	f("limit=%2B5", "limit must be")
	f("limit=1.0", "limit must be")
	f("limit=99999999999999999999999", "limit must be")
	f("action_type=Refund", "action_type must be")
	f("decision=allow", "decision must be")
	f("agent_id="+strings.Repeat("a", 257), "agent_id must be at most")
	f("Limit=5", "Limit is not a known query parameter")
	f("limit=5&limit=5", "limit must be given once")
	f("limit=&limit=", "limit must be given once")
	f("limit=5&%6Cimit=5", "limit must be given once")
	for _, broken := range []string{
		"agent_id=%", "agent_id=%2", "agent_id=%zz", "agent_id=%ff", "agent_id=%00", "agent_id=\xff", "%=1", "agent_id=%ed%a0%80",
	} {
		f(broken, "query must be well-formed")
	}
	f("policy_id=a%20b", "policy_id must be 1-128 characters")
	f("from=2026-01-02&to=2026-01-01", "from must not be after to")
	f("from=2026-01-01T00:00:00.001Z&to=2026-01-01T00:00:00Z", "from must not be after to")
	f("from=x&to=2026-01-01&cursor=zz&limit=0&x=1", "x is not a known query parameter; from must be an RFC 3339 time")
	f("cursor=zz", "cursor must be")
	f(strings.Repeat("&x=1", 5000), "x is not a known query parameter")

	q, _, err := queryViolations([]byte("agent_id=a%2Fb+c%2B&policy_id=p&action_type=spend&decision=escalate&limit=7"))
	if err != nil || q.AgentID != "a/b c+" || q.PolicyID != "p" || q.ActionType != spend.Spend || q.Effect != spend.Escalate || q.Limit != 7 ||
		!q.From.IsZero() || !q.To.IsZero() {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestQueryRange(t *testing.T) {
	f := func(query string, from, to string) {
		t.Helper()
		q, _, err := queryViolations([]byte(query))
		if err != nil {
			t.Errorf("%s: %v", query, err)
			return
		}
		show := func(at time.Time) string {
			if at.IsZero() {
				return ""
			}
			return at.Format(time.RFC3339Nano)
		}
		if show(q.From) != from || show(q.To) != to {
			t.Errorf("%s: %s to %s, want %s to %s", query, show(q.From), show(q.To), from, to)
		}
	}
	f("from=2026-01-31&to=2026-01-31", "2026-01-31T00:00:00Z", "2026-01-31T23:59:59.999Z")
	f("from=2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z", "")
	f("to=2026-01-31T12:00:00.5Z", "", "2026-01-31T12:00:00.5Z")
	f("from=2026-01-31T12:00:00&to=2026-01-31T12:00:00.123456", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123Z") // Python's isoformat
	f("from=2026-01-31T00:30:00%2B02:00", "2026-01-30T22:30:00Z", "")
	f("from=2026-01-31T00:30:00+02:00&to=2026-01-31T00:30:00-02:30", "2026-01-30T22:30:00Z", "2026-01-31T03:00:00Z")
	// Records are whole milliseconds: from rounds up, to rounds down.
	f("from=2026-01-31T12:00:00.0001Z&to=2026-01-31T12:00:00.0009Z", "2026-01-31T12:00:00.001Z", "2026-01-31T12:00:00Z")
	f("from=2026-01-31T12:00:00.001000000Z", "2026-01-31T12:00:00.001Z", "")
	// The ends of time do not turn into "no filter".
	f("from=0001-01-01&to=0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z")
	f("to=9999-12-31", "", "9999-12-31T23:59:59.999Z")
	f("from=0000-01-01T00:00:00%2B14:00", "1970-01-01T00:00:00Z", "")
	f("to=9999-12-31T23:59:59-14:00", "", "10000-01-01T13:59:59Z")
}

func TestParseInstantRefuses(t *testing.T) {
	for _, s := range []string{
		"2026-1-31", "2026-02-29", "2026-13-01", "20260131", "2026-01-31T", "2026-01-31T12:00Z", "2026-01-31T12:00:00.",
		"2026-01-31T24:00:00Z", "2026-01-31T12:60:00Z", "2026-01-31T12:00:60Z", "2026-01-31t12:00:00z", "2026-01-31 12:00:00Z",
		"2026-01-31T1:00:00Z00",
		"2026-01-31T12:00:00,5Z", "2026-01-31T12:00:00.Z", "2026-01-31T12:00:00+0200", "2026-01-31T12:00:00+24:00", "2026-01-31T12:00:00+02:60",
		"-2026-01-31T12:00:00Z", "1769860800", "now", "2026-W05", "2026-01-31T12:00:00Z ", "02026-01-31",
	} {
		if at, ok := parseInstant(s, dayBegin); ok {
			t.Errorf("%q is read as %v", s, at)
		}
	}
}

func TestQueryVersion(t *testing.T) {
	f := func(query string, want int, ok bool) {
		t.Helper()
		if got, err := queryVersion([]byte(query)); got != want && ok || (err == nil) != ok {
			t.Errorf("%s: %d, %v", query, got, err)
		}
	}
	f("", 0, true)
	f("version=", 0, true)
	f("version=1", 1, true)
	f("version=0012", 12, true)
	f("version=2147483648", math.MaxInt32, true)
	f("version=99999999999999999999999999", math.MaxInt32, true)
	for _, bad := range []string{"0", "00", "-1", "1.0", "1e3", "x", "%2B1", "1+", "1&version=1", "1&x=1"} {
		f("version="+bad, 0, false)
	}
}

func TestCursor(t *testing.T) {
	position := testID(instant)
	q, filters, err := queryViolations([]byte("agent_id=a&from=2026-01-01"))
	must.Do(t, err)
	cursor := newCursor(string(position[:]), filters)
	if url.QueryEscape(cursor) != cursor {
		t.Errorf("%q needs escaping", cursor)
	}
	if got, ok := parseCursor(cursor, filters); !ok || got != string(position[:]) {
		t.Errorf("came back as %v, %v", got, ok)
	}
	// The same filters, spelt otherwise, and another limit.
	next, _, err := queryViolations([]byte("limit=3&from=2026-01-01T01:00:00%2B01:00&agent_id=%61&cursor=" + cursor))
	if err != nil || next.Before != position || next.From != q.From {
		t.Errorf("%+v, %v", next, err)
	}
	for _, other := range []string{
		"", "agent_id=a", "agent_id=b&from=2026-01-01", "agent_id=a&from=2026-01-02", "agent_id=a&to=2026-01-01",
		"agent_id=a&from=2026-01-01&decision=block", "agent_id=a&from=2026-01-01&action_type=spend",
	} {
		if _, _, err := queryViolations([]byte(other + "&cursor=" + cursor)); err == nil {
			t.Errorf("the cursor is taken with %q", other)
		}
	}
	ofKeys := sumOf("keys 1", "")
	if _, _, err := queryBefore([]byte("cursor="+cursor), ofKeys); err == nil {
		t.Error("the cursor is taken for keys")
	}
	keys := newCursor(string(position[:]), ofKeys)
	if limit, before, err := queryBefore([]byte("cursor="+keys), ofKeys); err != nil || before != position || limit != 20 {
		t.Errorf("keys: %v, %d, %v", before, limit, err)
	}
	// Every damage of one character.
	for i := range cursor {
		for _, c := range []byte("A9-_=%z") {
			damaged := []byte(cursor)
			if damaged[i] = c; string(damaged) == cursor {
				continue
			}
			if _, ok := parseCursor(string(damaged), filters); ok {
				t.Errorf("%s is taken for %s", damaged, cursor)
			}
		}
	}
	for _, s := range []string{"", cursor + "A", cursor[1:], cursor + "=", cursor[:len(cursor)-1], " " + cursor} {
		if _, ok := parseCursor(s, filters); ok {
			t.Errorf("%q is taken for %s", s, cursor)
		}
	}
}
