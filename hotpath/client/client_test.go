package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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

// A result that a program built or read again is no permission.
func TestOnlyCheckAllows(t *testing.T) {
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

// Full jitter: anything from nothing to a limit that doubles and ends.
func TestBackoff(t *testing.T) {
	for attempt := range 70 {
		if d := backoff(attempt, 0); d < 0 || d > maxBackoff || attempt < 5 && d > firstBackoff<<attempt {
			t.Errorf("attempt %d: %s", attempt, d)
		}
	}
}

// What was never sent is sent again, also where a repetition would act twice.
func TestRefusedConnection(t *testing.T) {
	s := serve(t)
	s.Close()
	c, waits := s.client(t, nil)
	if _, err := c.CreatePolicy(t.Context(), NewPolicy{Name: "n"}); err == nil || len(*waits) != DefaultAttempts-1 {
		t.Errorf("tried %d times more: %v", len(*waits), err)
	}
}

// A client gives up a service that hangs when its context ends.
func TestHung(t *testing.T) {
	done := make(chan struct{})
	s := serve(t, func(http.ResponseWriter) { <-done })
	defer close(done)
	c, _ := s.client(t, nil)
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
