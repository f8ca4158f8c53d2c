package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
	"spendgate/hotpath/wire"
)

func TestCheck(t *testing.T) {
	s := serve(t, says(200, allowed, "Idempotent-Replayed: true"))
	c, _ := s.client(t, nil)
	a := action(t)
	a.IdempotencyKey, a.ReasonText = "order-1", "1 < 2 & so on"
	a.Metadata = map[string]any{"discount_percent": json.Number("12.345678901234567"), "n": 1}
	r := must.Get(c.Check(t.Context(), a))(t)
	if !r.Allowed() || !r.Replayed || r.PolicyVersion != 3 || r.ReasonCode != "" || string(r.Body) != allowed ||
		r.Timestamp.String() != "2026-01-02T03:04:05.600Z" {
		t.Errorf("%+v", r)
	}
	want := seen{
		"POST", "/v1/checks", apiKey, "",
		`{"agent_id":"a","policy_id":"p","action_type":"refund","amount":42.5,"currency":"USD","counterparty":"c",` +
			`"reason_text":"1 < 2 & so on","idempotency_key":"order-1","metadata":{"discount_percent":12.345678901234567,"n":1}}`,
	}
	if len(s.sent()) != 1 || s.sent()[0] != want {
		t.Errorf("sent %+v", s.sent())
	}
}

// Only a complete answer with status 200 and the decision allow allows an action.
func TestNothingElseAllows(t *testing.T) {
	change := func(part, instead string) respond {
		if !strings.Contains(allowed, part) {
			t.Fatalf("no %s in the answer", part)
		}
		return says(200, strings.Replace(allowed, part, instead, 1))
	}
	for name, answer := range map[string]respond{
		"500":                 refuses(500, "internal_error"),
		"503 with an allow":   says(503, allowed),
		"201 with an allow":   says(201, allowed),
		"202 with an allow":   says(202, allowed),
		"redirect":            says(302, allowed, "Location: /v1/checks"),
		"no answer":           hangsUp,
		"truncated":           truncates,
		"garbage":             says(200, "<html>allow</html>"),
		"empty":               says(200, ""),
		"null":                says(200, "null"),
		"array":               says(200, "["+allowed+"]"),
		"half":                says(200, allowed[:len(allowed)-1]),
		"two":                 says(200, allowed+allowed),
		"unknown decision":    change(`"allow"`, `"maybe"`),
		"empty decision":      change(`"allow"`, `""`),
		"null decision":       change(`"allow"`, "null"),
		"upper case":          change(`"allow"`, `"ALLOW"`),
		"no string":           change(`"allow"`, "true"),
		"another name's case": change(`"decision"`, `"Decision"`),
		"no decision":         change(`"decision":"allow",`, ""),
		"two decisions":       change(`"decision":"allow"`, `"decision":"block","decision":"allow"`),
		"no check_id":         change(`"check_id":"chk_1",`, ""),
		"other check_id":      change(`"chk_1"`, `"viol_1"`),
		"no version":          change(`"policy_version":3,`, ""),
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, answer)
			c, _ := s.client(t, nil)
			r, err := c.Check(t.Context(), action(t))
			undecided, ok := errors.AsType[*UndecidedError](err)
			if r != nil || r.Allowed() || !ok {
				t.Fatalf("%+v, %v", r, err)
			}
			for _, request := range s.sent() {
				if request.idempotencyKey(t) != undecided.IdempotencyKey {
					t.Errorf("sent %s, the error names %s", request.body, undecided.IdempotencyKey)
				}
			}
		})
	}
	for _, decision := range []string{"block", "escalate"} {
		c, _ := serve(t, change(`"allow"`, `"`+decision+`"`)).client(t, nil)
		if r, err := c.Check(t.Context(), action(t)); err != nil || r.Allowed() || r.Decision.String() != decision {
			t.Errorf("%+v, %v", r, err)
		}
	}
	// Nor does an allow with any Outcome header.
	for header, want := range map[string]CheckOutcome{
		"executed":                         {"executed", false},
		"executed;release=pending":         {"executed", true},
		" failed; release=pending ":        {"failed", true},
		"voided":                           {"voided", false},
		"":                                 {UnknownOutcome, false},
		"Executed":                         {UnknownOutcome, false},
		"none":                             {UnknownOutcome, false},
		`"voided"`:                         {UnknownOutcome, false},
		"voided;":                          {UnknownOutcome, false},
		"voided;release=done":              {UnknownOutcome, false},
		"failed, executed":                 {UnknownOutcome, false},
		"failed;release=pending;more":      {UnknownOutcome, false},
		"failed ;release=pending":          {UnknownOutcome, false},
		"executed\nOutcome: failed":        {UnknownOutcome, false},
		"executed;release=pending;release": {UnknownOutcome, false},
	} {
		headers := strings.Split("Idempotent-Replayed: true\nOutcome: "+header, "\n")
		c, _ := serve(t, says(200, allowed, headers...)).client(t, nil)
		if r, err := c.Check(t.Context(), action(t)); err != nil || r.Allowed() || r.Outcome != want || r.Decision != Allow || !r.Replayed ||
			!strings.HasPrefix(r.NextStep, "Do not carry the action out") || string(r.Body) != allowed {
			t.Errorf("%q: %+v, %v", header, r, err)
		}
		if r, err := c.GetCheck(t.Context(), "chk_1"); err != nil || r.Allowed() || r.Outcome != want {
			t.Errorf("%q: %+v, %v", header, r, err)
		}
	}
	// A result that a program built or read again is no permission either.
	var read Result
	if err := json.Unmarshal([]byte(allowed), &read); err != nil || read.Decision != Allow {
		t.Fatal(err, read)
	}
	c, _ := serve(t, says(200, allowed)).client(t, nil)
	again, err := c.GetCheck(t.Context(), "chk_1")
	if err != nil || again.Decision != Allow {
		t.Fatal(err, again)
	}
	for _, r := range []*Result{nil, {}, {Result: wire.Result{Decision: Allow}}, &read, again} {
		if r.Allowed() {
			t.Errorf("%+v allows", r)
		}
	}
	if zero := Decision(0); zero == Allow || zero.String() != "" {
		t.Error("the zero value is a decision")
	}
}

// After a lost connection, a 5xx and a 429 the same request is sent again, with one
// idempotency key.
func TestCheckIsRepeatedUnderOneKey(t *testing.T) {
	s := serve(t, hangsUp, refuses(500, "internal_error", "Retry-After: 1"), refuses(429, "rate_limit_exceeded", "Retry-After: 7"),
		says(200, allowed))
	c, waits := s.client(t, nil)
	r, err := c.Check(t.Context(), action(t))
	if err != nil || !r.Allowed() || len(s.sent()) != 4 {
		t.Fatal(err, r, s.sent())
	}
	for _, request := range s.sent()[1:] {
		if request != s.sent()[0] {
			t.Errorf("sent %v, then %v", s.sent()[0], request)
		}
	}
	s.sent()[0].idempotencyKey(t)
	w := *waits
	if len(w) != 3 || w[0] > firstBackoff || w[1] < time.Second || w[1] > time.Second+2*firstBackoff || w[2] < 7*time.Second ||
		w[2] > 7*time.Second+4*firstBackoff {
		t.Errorf("waited %v", w)
	}
	if _, err := c.Check(t.Context(), action(t)); err != nil || s.sent()[4].idempotencyKey(t) == s.sent()[0].idempotencyKey(t) {
		t.Errorf("two checks under one key: %v", s.sent())
	}
}

// The service treats a blank key as none, so it would not recognize a retry.
func TestBlankKeyIsNone(t *testing.T) {
	s := serve(t, hangsUp, says(200, allowed))
	c, _ := s.client(t, nil)
	a := action(t)
	a.IdempotencyKey = " \t"
	if _, err := c.Check(t.Context(), a); err != nil || strings.TrimSpace(s.sent()[0].idempotencyKey(t)) == "" || s.sent()[1] != s.sent()[0] {
		t.Error(err, s.sent())
	}
}

func TestRetriesEnd(t *testing.T) {
	s := serve(t, refuses(500, "internal_error"))
	c, waits := s.client(t, func(o *Options) { o.Attempts = 3 })
	_, err := c.Check(t.Context(), action(t))
	refused, ok := errors.AsType[*Error](err)
	if !ok || refused.Status != 500 || len(s.sent()) != 3 || len(*waits) != 2 || !strings.Contains(err.Error(), "attempt 3 of 3") {
		t.Error(err, s.sent())
	}
	// A Retry-After longer than MaxWait is returned at once.
	s = serve(t, refuses(429, "rate_limit_exceeded", "Retry-After: 17"))
	c, _ = s.client(t, func(o *Options) { o.MaxWait = 16 * time.Second })
	_, err = c.Check(t.Context(), action(t))
	if refused, ok := errors.AsType[*Error](err); !ok || refused.RetryAfter != 17*time.Second || len(s.sent()) != 1 {
		t.Error(err, s.sent())
	}
	if _, undecided := errors.AsType[*UndecidedError](err); undecided {
		t.Error("a check that was not looked at may have been decided")
	}
	// So is one that ends after the context.
	c, _ = s.client(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.Check(ctx, action(t)); ctx.Err() != nil || len(s.sent()) != 2 {
		t.Error(err, ctx.Err(), s.sent())
	}
	// Full jitter: anything from nothing to a limit that doubles and ends.
	for attempt := range 70 {
		if d := backoff(attempt, 0); d < 0 || d > maxBackoff || attempt < 5 && d > firstBackoff<<attempt {
			t.Errorf("attempt %d: %s", attempt, d)
		}
	}
}

func TestRefusalsAreNotRepeated(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 405, 409, 413, 422} {
		s := serve(t, refuses(status, "some_code"))
		c, _ := s.client(t, nil)
		_, err := c.Check(t.Context(), action(t))
		refused, ok := errors.AsType[*Error](err)
		_, undecided := errors.AsType[*UndecidedError](err)
		if !ok || undecided || len(s.sent()) != 1 ||
			!reflect.DeepEqual(*refused, Error{Status: status, Code: "some_code", Message: "because", RequestID: "req_1"}) {
			t.Errorf("%d: %v after %d requests", status, err, len(s.sent()))
		}
	}
	// A refusal after a lost answer says nothing about the lost one.
	s := serve(t, hangsUp, refuses(401, "api_key_inactive"))
	c, _ := s.client(t, nil)
	if _, err := c.Check(t.Context(), action(t)); len(s.sent()) != 2 {
		t.Error(s.sent())
	} else if _, undecided := errors.AsType[*UndecidedError](err); !undecided {
		t.Errorf("a check that may be recorded counts as refused: %v", err)
	}
}

// A request that would act twice is sent again only if it cannot have been carried out.
func TestWritesAreNotRepeated(t *testing.T) {
	writes := map[string]func(*Client) error{
		"policy": func(c *Client) error { _, err := c.CreatePolicy(t.Context(), NewPolicy{Name: "n"}); return err },
		"key":    func(c *Client) error { _, err := c.CreateKey(t.Context(), KeyRequest{Name: "n"}); return err },
	}
	for name, write := range writes {
		for _, answer := range []respond{hangsUp, truncates, refuses(500, "internal_error"), says(502, "<html>"), says(429, "<html>")} {
			s := serve(t, answer)
			c, _ := s.client(t, nil)
			if err := write(c); err == nil || len(s.sent()) != 1 {
				t.Errorf("%s: %v after %d requests", name, err, len(s.sent()))
			}
		}
		s := serve(t, refuses(429, "rate_limit_exceeded"), refuses(422, "validation_error"))
		c, _ := s.client(t, nil)
		if err := write(c); err == nil || len(s.sent()) != 2 {
			t.Errorf("%s: %v after %d requests", name, err, len(s.sent()))
		}
		s.Close()
		c, waits := s.client(t, nil)
		if err := write(c); err == nil || len(*waits) != DefaultAttempts-1 {
			t.Errorf("%s: a refused connection is tried %d times more", name, len(*waits))
		}
	}
	s := serve(t, hangsUp, says(200, `{"key_id":"key_1","active":false}`))
	c, _ := s.client(t, nil)
	if k, err := c.UpdateKey(t.Context(), "key_1", KeyChange{Active: new(false)}); err != nil || k.Active || len(s.sent()) != 2 {
		t.Error(k, err, s.sent())
	}
}

// A client gives up a service that hangs, by the timeout of attempts and by the context.
func TestHung(t *testing.T) {
	done := make(chan struct{})
	s := serve(t, func(http.ResponseWriter) { <-done })
	defer close(done)
	c, _ := s.client(t, func(o *Options) { o.AttemptTimeout, o.Attempts = 20*time.Millisecond, 2 })
	if r, err := c.Check(t.Context(), action(t)); !errors.Is(err, context.DeadlineExceeded) || r.Allowed() {
		t.Error(r, err)
	}
	c, _ = s.client(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	r, err := c.Check(ctx, action(t))
	if _, undecided := errors.AsType[*UndecidedError](err); !undecided || !errors.Is(err, context.Canceled) || r.Allowed() {
		t.Error(r, err)
	}
}

func TestOnlyTheRightKeyIsSent(t *testing.T) {
	s := serve(t, refuses(404, "check_not_found"))
	c, _ := s.client(t, nil)
	_, _ = c.GetCheck(t.Context(), "a/b?c")
	_, _ = collect(c.AllKeys(t.Context()))
	_, _ = c.Self(t.Context())
	want := []seen{
		{method: "GET", uri: "/v1/checks/a%2Fb%3Fc", key: apiKey},
		{method: "GET", uri: "/v1/keys?limit=100", admin: adminKey},
		{method: "GET", uri: "/v1/keys/self", key: apiKey},
	}
	if !slices.Equal(s.sent(), want) {
		t.Errorf("%+v", s.sent())
	}
}

// No text that a program might log contains a key.
func TestKeysStaySecret(t *testing.T) {
	s := serve(t, refuses(401, "unauthorized"))
	o := Options{BaseURL: s.URL, APIKey: apiKey, AdminKey: adminKey}
	c := must.Get(New(o))(t)
	_, refused := c.Check(t.Context(), action(t))
	s.Close()
	_, lost := collect(c.AllKeys(t.Context()))
	_, bad := New(Options{BaseURL: s.URL, APIKey: apiKey + "\n"})
	_, user := New(Options{BaseURL: "http://user:" + apiKey + "@host"})
	if refused == nil || lost == nil || bad == nil || user == nil {
		t.Fatal(refused, lost, bad, user)
	}
	for _, v := range []any{o, &o, c, *c, refused, lost, bad, user, NewKey{wire.NewKey{KeyID: "key_1", APIKey: apiKey}}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, apiKey) || strings.Contains(text, adminKey) {
				t.Errorf("%s of %T: %s", verb, v, text)
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, base := range []string{"http://host/v1", "", "localhost:8080", "ftp://host", "http://", "http://host?x=1", "http://host/#x"} {
		if _, err := New(Options{BaseURL: base}); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
}

func TestPages(t *testing.T) {
	violation := func(n int) string {
		return fmt.Sprintf(`{"violation_id":"viol_%d","amount":%d.10,"decision":"block"}`, n, n)
	}
	first := `{"data":[` + violation(1) + `,` + violation(2) + `],"pagination":{"next_cursor":"c&2","has_more":true,"total_count":3}}`
	last := `{"data":[` + violation(3) + `],"pagination":{"next_cursor":null,"has_more":false,"total_count":3}}`
	query := ViolationQuery{AgentID: "a b", ActionType: Refund, Decision: Block, From: "2026-01-01", To: "2026-01-02", Limit: 2}

	s := serve(t, says(200, first), says(200, last))
	c, _ := s.client(t, nil)
	var got []string
	for v, err := range c.AllViolations(t.Context(), query) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, v.ViolationID+" "+v.Amount.String())
	}
	if fmt.Sprint(got) != "[viol_1 1.1 viol_2 2.1 viol_3 3.1]" {
		t.Error(got)
	}
	filters := "action_type=refund&agent_id=a+b&"
	if s.sent()[0].uri != "/v1/violations?"+filters+"decision=block&from=2026-01-01&limit=2&to=2026-01-02" ||
		s.sent()[1].uri != "/v1/violations?"+filters+"cursor=c%262&decision=block&from=2026-01-01&limit=2&to=2026-01-02" {
		t.Error(s.sent())
	}

	// A listing that breaks off or runs in a circle says so.
	for _, second := range []respond{refuses(422, "validation_error"), says(200, first)} {
		c, _ := serve(t, says(200, first), second).client(t, nil)
		var count int
		var failure error
		for _, err := range c.AllViolations(t.Context(), query) {
			count, failure = count+1, err
		}
		if count != 3 || failure == nil {
			t.Error(count, failure)
		}
	}
}
