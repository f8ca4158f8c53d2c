package httpapi

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// FuzzDecodeCheck: no body makes the decoder panic, and an accepted body is read as encoding/json
// reads it.
func FuzzDecodeCheck(f *testing.F) {
	for _, body := range []string{
		plainCheck, bareCheck, "", "{", "{}", "[]", "null", with(`"reason_text":"\ud83d\ude00\u0000"`),
		with(`"metadata":{"a":[{}],"a":1}`), `{"amount":1e400,"amount":-0}`, `{"amount":1.0000000000,"currency":"uSd"}`, plainCheck + " x",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sent := string(body)
		a, err := checkOf(string(body))
		if string(body) != sent {
			t.Fatal("the body was changed")
		}
		if err != nil {
			if status := refusalOf(err).status; status != 400 && status != 422 {
				t.Fatalf("%v is a %d", err, status)
			}
			return
		}
		if !json.Valid(body) || !utf8.Valid(body) {
			t.Fatalf("accepted %q", body)
		}
		var want struct {
			AgentID        string `json:"agent_id"`
			PolicyID       string `json:"policy_id"`
			Counterparty   string
			IdempotencyKey string `json:"idempotency_key"`
			Amount         json.Number
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("encoding/json refuses it: %v", err)
		}
		amount, err := spend.ParseAmount(want.Amount.String())
		if a.AgentID != want.AgentID || a.PolicyID != want.PolicyID || a.Counterparty != want.Counterparty ||
			!spend.Blank(want.IdempotencyKey) && a.IdempotencyKey != want.IdempotencyKey || err != nil || a.Amount != amount {
			t.Fatalf("got %+v, want %+v", a, want)
		}
		if strings.ContainsRune(a.AgentID+a.ReasonText+a.Counterparty+a.Metadata.JSON, 0) {
			t.Fatalf("U+0000 in %+v", a)
		}
	})
}

// FuzzDecodeOthers: the other bodies never make anything but a 400 or a 422.
func FuzzDecodeOthers(f *testing.F) {
	for _, body := range []string{
		simplePolicy, simulationOf(2), simulationOf(11), `{"name":"n","rate_limit_rpm":5.0}`, `{"active":false}`, "{", `{"rules":[[]]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var s simulation
		for _, decode := range []func(*reader){
			func(r *reader) { decodePolicy(r, new(audit.Policy), versionBody) },
			func(r *reader) { decodeSimulation(r, &s, true) },
			func(r *reader) { decodeSimulation(r, new(simulation), false) },
			func(r *reader) {
				decodeNewKey(r, new(hotpath.NewKey), keyBounds{defaultMaxRateLimit, time.Now()})
			},
			func(r *reader) {
				decodeKeyChange(r, new(audit.KeyChange), keyBounds{defaultMaxRateLimit, time.Now()})
			},
		} {
			err := readObject(body, decode)
			if err == nil && !json.Valid(body) {
				t.Fatalf("accepted %q", body)
			}
			if err != nil {
				if status := refusalOf(err).status; status != 400 && status != 422 {
					t.Fatalf("%v is a %d", err, status)
				}
			}
		}
	})
}

// FuzzCursor: only what newCursor wrote is taken.
func FuzzCursor(f *testing.F) {
	f.Add(newCursor("\x01\x02\x03", sumOf("keys 1", "")))
	f.Add(newCursor("", filterSum{}))
	f.Add("")
	f.Add(strings.Repeat("A", 38))
	f.Fuzz(func(t *testing.T, s string) {
		if position, ok := parseCursor(s, sumOf("keys 1", "")); ok && newCursor(position, sumOf("keys 1", "")) != s {
			t.Fatalf("%q is read as %v", s, position)
		}
	})
}

// FuzzQuery: a query is accepted or a 422, and an accepted one stays within what a store can be
// asked.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{
		"", "limit=5&cursor=", "from=2026-01-31&to=2026-02-01T00:00:00+02:00", "agent_id=%41+b&decision=block", "a=%zz&&=", "version=7",
		"decision=allow&policy_id=p&before=2026-01-31&to=2026-01-31",
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		var faults spend.Faults
		q, _, err := queryViolations([]byte(query))
		if err != nil && !errors.As(err, &faults) {
			t.Fatal(err)
		}
		if err == nil {
			ends := q.From.UnixMilli() >= 0 && q.To.UnixMilli() <= 1<<48-1 || q.From.IsZero() || q.To.IsZero()
			if q.Limit < 1 || q.Limit > 100 || !utf8.ValidString(q.AgentID) || strings.ContainsRune(q.AgentID, 0) || !ends {
				t.Fatalf("%q gives %+v", query, q)
			}
		}
		checks, _, err := queryChecks([]byte(query))
		if err != nil && !errors.As(err, &faults) {
			t.Fatal(err)
		}
		instants := checks.From.IsZero() || checks.From.UnixMilli() >= 0
		if err == nil && (checks.Limit < 1 || checks.Limit >= checks.Examine || checks.PolicyID != "" && !spend.ValidPolicyID(checks.PolicyID) ||
			!utf8.ValidString(checks.AgentID) || strings.ContainsRune(checks.AgentID, 0) || !instants ||
			checks.Effect != nil && *checks.Effect > spend.Block) {
			t.Fatalf("%q gives %+v", query, checks)
		}
		for _, read := range []func() error{
			func() error { _, _, err := queryPolicies([]byte(query)); return err },
			func() error { _, _, err := queryVersions([]byte(query), "p"); return err },
		} {
			if err := read(); err != nil && !errors.As(err, &faults) {
				t.Fatal(err)
			}
		}
		if version, err := queryVersion([]byte(query)); err == nil && version < 0 {
			t.Fatalf("%q gives version %d", query, version)
		}
	})
}

// FuzzInstant: a time that is accepted is the one that was written.
func FuzzInstant(f *testing.F) {
	for _, s := range []string{
		"2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456789+02:00", "2026-01-31T12:00:00 02:00", "9999-12-31T23:59:59-23:59",
		"x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, ok := parseInstant(s, dayBegin)
		if !ok {
			return
		}
		if again, ok := parseInstant(at.Format("2006-01-02T15:04:05.999999999Z"), dayBegin); at.Year() >= 0 && at.Year() <= 9999 &&
			(!ok || !again.Equal(at)) {
			t.Fatalf("%q is %v, then %v", s, at, again)
		}
		recordable(at)
	})
}
