package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// again returns the first answer as a replay, with headers about later reports.
func again(headers, body string) string {
	return "200 Idempotent-Replayed: true" + headers + "\n\n" + body
}

// TestRedeemed: the answer of a redeemed check never says to carry it out.
func TestRedeemed(t *testing.T) {
	for _, header := range []string{"rdm_1", "rdm_1;in_doubt", "rdm_1; in_doubt", "7"} {
		session := connect(t, newServer(t, serve(t, again("\nRedeemed: "+header, allowed)), io.Discard, nil))
		got := callTool(t, session, checkAction, fmt.Sprintf(arguments, `1,"idempotency_key":"k"`))
		got.check(t, false, "\nRedeemed: somebody carries this action out, or has. Do not carry it out.\n",
			"\nNext step: Do not carry the action out")
		for _, invitation := range []string{"Proceed", `"proceed":true`, "Decision: allow"} {
			if strings.Contains(got.text+got.structured, invitation) {
				t.Errorf("%s: %q in %s", header, invitation, got.text)
			}
		}
	}
}

// TestRedeemRequired: an allow that must be redeemed first does not say to carry it out, neither at
// first nor in a replay, and keeps the service's next step (S74).
func TestRedeemRequired(t *testing.T) {
	first := strings.Replace(allowed, `"next_step":"Proceed."`, `"next_step":"Do not carry this out before the check is redeemed"`, 1)
	if first == allowed {
		t.Fatal("the answer has another next step")
	}
	for _, answer := range []string{"200 Redeem: required\n\n" + first, again("\nRedeem: required", first)} {
		session := connect(t, newServer(t, serve(t, answer), io.Discard, nil))
		got := callTool(t, session, checkAction, fmt.Sprintf(arguments, `1,"idempotency_key":"k"`))
		got.check(t, false, "\nDecision: allow. Whoever moves the money redeems the check first", "\nNext step: Do not carry this out before",
			`"proceed":false`, `"redeem_required":true`)
	}
}

// TestPaymentNextStep: of a payment the next step is for whoever moves the money, as the tool does not redeem (S84).
func TestPaymentNextStep(t *testing.T) {
	of := strings.Replace(allowed, `"next_step":"Proceed."`, `"next_step":"Ask again with redeem."`, 1)
	of = strings.TrimSuffix(of, "}") + `,"payment":{"payment_key":"k","state":"open","attempt":1,"proceed":false}}`
	session := connect(t, newServer(t, serve(t, "200 Redeem: required\n\n"+of), io.Discard, nil))
	got := callTool(t, session, checkAction, fmt.Sprintf(arguments, `1,"payment_key":"k"`))
	got.check(t, false, "Payment k: open. Decision: allow.",
		"\nNext step: Do not carry this out yourself. Whoever moves the money asks under the ", `"proceed":false`)
}

// members has the members of a check's answer that say whether to act.
type members struct {
	Proceed        bool
	Outcome        string
	ReleasePending bool `json:"release_pending"`
	Replayed       bool
	NextStep       string `json:"next_step"`
}

// members returns the members, which must be the same in the structured content and in the first
// text.
func (c called) members(t *testing.T) (m members) {
	t.Helper()
	var first members
	text, _, _ := strings.Cut(c.text, "\n")
	if err := errors.Join(json.Unmarshal([]byte(c.structured), &m), json.Unmarshal([]byte(text), &first)); err != nil || m != first {
		t.Fatal(err, c.text)
	}
	return m
}

// Whatever was reported about a check, no part of its answer says to carry it out.
func TestReportedChecksAreOver(t *testing.T) {
	escalated := strings.Replace(allowed, `"allow"`, `"escalate"`, 1)
	for header, want := range map[string]members{
		"executed":                 {Outcome: "executed"},
		"executed;release=pending": {Outcome: "executed", ReleasePending: true},
		"failed":                   {Outcome: "failed"},
		"voided; release=pending":  {Outcome: "voided", ReleasePending: true},
		"reversed":                 {Outcome: "unknown"},
	} {
		for _, body := range []string{allowed, escalated} {
			session := connect(t, newServer(t, serve(t, again("\nOutcome: "+header, body)), io.Discard, nil))
			got := callTool(t, session, checkAction, fmt.Sprintf(arguments, `1,"idempotency_key":"k"`))
			got.check(t, false, "\nOutcome: "+want.Outcome+". This check is over: do not carry the action out.\n",
				"\nNext step: Do not carry the action out")
			m := got.members(t)
			if want.Replayed, want.NextStep = true, m.NextStep; m != want || !strings.HasPrefix(m.NextStep, "Do not carry the action out") {
				t.Errorf("%s: %+v", header, m)
			}
			for _, invitation := range []string{"Proceed", `"proceed":true`, "Decision: allow", "carry out exactly"} {
				if strings.Contains(got.text+got.structured, invitation) {
					t.Errorf("%s: %q in %s", header, invitation, got.text)
				}
			}
		}
	}
}

// A replayed allow, on which an earlier call may have acted, says so and how to find out, and is none to go ahead. An allow
// that only the client itself received before does not.
func TestReplayedAllow(t *testing.T) {
	replayed := again("", allowed)
	session := connect(t, newServer(t, serve(t, replayed, replayed, "lost", replayed), io.Discard, nil))
	for _, test := range []struct {
		more     string
		replayed bool
	}{{`,"idempotency_key":"k"`, true}, {"", false}, {"", false}, {"", true}} {
		got := callTool(t, session, checkAction, fmt.Sprintf(arguments, "1"+test.more))
		if got.isError {
			continue // the response was lost
		}
		m := got.members(t)
		found := strings.Contains(got.text, "Decision: allow. An earlier call was answered so: the action may have been carried out since.\n") &&
			strings.HasPrefix(m.NextStep, "Find out whether the action was carried out under this check: ask the payment system for chk_1,")
		if m.Proceed == test.replayed || m.Replayed != test.replayed || found != test.replayed ||
			strings.Contains(got.text, "Proceed.") == test.replayed || strings.Contains(strings.ToLower(got.text), "do not") {
			t.Errorf("%+v: %s", test, got.text)
		}
	}
}

// The endpoint's own text is kept, except where the headers know better.
func TestVerdictStandsFirst(t *testing.T) {
	later := strings.Replace(allowed, "{", `{"later":1.10,"proceed":true,"outcome":"x",`, 1)
	got := callTool(t, connect(t, newServer(t, serve(t, again("\nOutcome: voided", later)), io.Discard, nil)), checkAction,
		fmt.Sprintf(arguments, "1"))
	if !strings.HasPrefix(got.text, `{"proceed":false,"outcome":"voided","release_pending":false,"replayed":`) ||
		strings.Count(got.text, `"proceed"`) != 1 || !strings.Contains(got.text, `"later":1.10`) {
		t.Error(got.text)
	}
}
