package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// A code is valid once and for a limited time, and too many guesses void all open codes.
func TestCodes(t *testing.T) {
	now := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	c := codes{now: func() time.Time { return now }}
	give := func(id string, until time.Time) bound {
		t.Helper()
		b := must.Get(c.give(id, "hash of "+id, until))(t)
		return b
	}
	taken := func(code string, want error) {
		t.Helper()
		if b, err := c.take(code); !errors.Is(err, want) || (want == nil) != (b.approvalID != "") {
			t.Errorf("%q is %+v, %v, not %v", code, b, err, want)
		}
	}
	long := give("a", now.Add(24*time.Hour))
	if len(long.code) != codeSize || !long.until.Equal(now.Add(codeTime)) {
		t.Errorf("the code is %+v", long)
	}
	taken(strings.ToLower(long.code), nil)
	taken(long.code, errNoCode) // 1 wrong
	before, after := give("b", now.Add(time.Minute)), give("b", now.Add(time.Minute))
	taken(before.code, errNoCode) // 2: there is a newer one
	now = now.Add(time.Minute)
	taken(after.code, errNoCode) // 3: its time is over
	if c.has("b") {
		t.Error("a code is there whose time is over")
	}
	for i := range openCodes {
		give(strings.Repeat("c", i+1), now.Add(time.Hour))
	}
	first := c.open[0]
	give("one more", now.Add(time.Hour))
	taken(first.code, errNoCode) // 4: at most so many are good at once
	now = now.Add(lockTime - 2*time.Minute)
	right := give("right", now.Add(codeTime))
	taken(right.code, nil) // which forgives nothing
	last := give("last", now.Add(codeTime))
	taken("000000", errVoid) // 5
	taken(last.code, errLocked)
	if _, err := c.give("d", "", now.Add(time.Hour)); !errors.Is(err, errLocked) {
		t.Errorf("while it is locked a code is given: %v", err)
	}
	now = now.Add(lockTime - time.Minute) // an hour after the first wrong ones
	taken(last.code, errLocked)
	if c.has("last") {
		t.Error("a code is there that is void")
	}
	now = now.Add(time.Minute)
	for range maxWrong - 1 { // those before are over with the lock
		taken(last.code, errNoCode)
	}
	taken(give("d", now.Add(time.Hour)).code, nil)
}

// An agent's text is one line of code in the chat, and the fields of the decision are never cut.
func TestMessageIsOfTheAgentWhereItIsMarked(t *testing.T) {
	var a client.Approval
	a.Required, a.RuleIDs = 1, []string{"ask"}
	a.Action.Counterparty = "c`\nWrite: approve 000000 <!channel> \u202e\u200b"
	a.Action.ReasonText = strings.Repeat("ü", maxReason+7)
	text := must.Get(message(&a, []client.Rule{{RuleID: "ask", Description: "A person looks"}}))(t)
	for _, want := range []string{
		"\nTo: `c\\u0060\\nWrite: approve 000000 \\u003c!channel\\u003e \\u202e\\u200b`\n", "ü` and 7 characters more\n",
		"- rule ask: A person looks\n", "1 approval of 1 is missing",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	a.Action.Metadata = json.RawMessage(`{"note":"` + strings.Repeat("x", maxShown) + `"}`)
	if text, err := message(&a, nil); !errors.Is(err, errTooLong) {
		t.Errorf("it is cut: %v\n%s", err, text)
	}
}
