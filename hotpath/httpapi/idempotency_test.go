package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"spendgate/audit/spend"
)

// The header stands for the body's idempotency_key, bare or quoted (S58).
func TestIdempotencyKeyHeader(t *testing.T) {
	s := start(t, nil)
	keyless := without("idempotency_key")
	for n := range 12 { // an empty value may be nil, by where it stands
		c := s.dial()
		c.send(post(strings.Repeat("X-Other: 1\r\n", n)+"Idempotency-Key:\r\nIdempotency-Key: a\r\n"+length(keyless), keyless))
		c.receive().is(t, fmt.Sprintf("an empty one behind %d headers, then another", n), 422)
	}
	long := strings.Repeat("é", spend.MaxIdempotencyKey)
	f := func(body string, status int, want string, headers ...string) {
		t.Helper()
		lines := "Idempotency-Key: " + strings.Join(headers, "\r\nIdempotency-Key: ") + "\r\n"
		before := len(s.fake.checked)
		c := s.dial()
		c.send(post(lines+length(body), body))
		a := c.receive()
		if a.status != status || status == 422 && !strings.Contains(a.body, want) || len(s.fake.checked)-before != (1-status/422) {
			t.Errorf("%.80q: %d %s", headers, a.status, a.body)
		} else if status == 200 && s.fake.checked[before].IdempotencyKey != want {
			t.Errorf("%.80q: key is %q", headers, s.fake.checked[before].IdempotencyKey)
		}
	}
	for value, want := range map[string]string{
		"order-1": "order-1", `"order-1"`: "order-1", ` "a \"b\" \\ c" `: `a "b" \ c`, `a"b`: `a"b`, `"a, b"`: "a, b", "é": "é", "'x'": "'x'",
		"": "", "  ": "", `""`: "", `"  "`: "", long: long,
	} {
		f(keyless, 200, want, value)
	}
	for _, value := range []string{"order-99-refund-1", `"order-99-refund-1"`, "", `""`} {
		f(plainCheck, 200, "order-99-refund-1", value)
	}
	for value, want := range map[string]string{
		`"order-1`: "RFC 8941", `"a"b"`: "RFC 8941", `"a";b=1`: "RFC 8941", `"a\n"`: "RFC 8941", `"a\"`: "RFC 8941", `"`: "RFC 8941",
		`"é"`: "RFC 8941", "\xff": "UTF-8", "a\tb": "control", "a\u0085b": "control", long + "x": "255", "k1, k2": "one key",
		"k1,k2": "one key", `"k1", "k2"`: "RFC 8941",
	} {
		f(keyless, 422, want, value)
	}
	f(plainCheck, 422, "Idempotency-Key", "another")
	f(plainCheck, 422, "Idempotency-Key", "Order-99-refund-1")
	f(keyless, 422, "once", "a", "a")
	f(keyless, 422, "once", "", "a")
	f(`{"idempotency_key":1,`+keyless[1:], 422, "idempotency_key must be a string", "a")

	// Other routes take no key, and so refuse none.
	for _, path := range []string{"/v1/violations", "/v1/policies", "/health"} {
		s.do("GET", path, "", `Idempotency-Key: "`).is(t, path, 200)
	}
	if a := s.do("POST", "/v1/simulate", `{"policy_id":"refunds-eu","actions":[`+plainCheck+`]}`, "Idempotency-Key: another"); a.status !=
		200 {
		t.Errorf("a simulation: %d %s", a.status, a.body)
	}
}
