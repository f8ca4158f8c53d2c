package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"spendgate/cmd/spendgate/cli/clitest"
)

// freezeID is what names a freeze in a text.
func freezeID(t *testing.T, text string) string {
	t.Helper()
	id := regexp.MustCompile("frz_[0-9a-f]{32}").FindString(text)
	if id == "" {
		t.Fatalf("no freeze in %s", text)
	}
	return id
}

// TestFreezeCommands: an operator stops an agent, sees what is frozen, and releases it: with the admin key, or an API key (S87).
func TestFreezeCommands(t *testing.T) {
	s := &story{devNode: startDev(t), checks: make(map[string]string)}
	s.agent = s.newKey(t, `"role": "agent", "principal": "bot-1"`)
	s.call(t, s.newKey(t, `"role": "full", "principal": "eve"`), "POST", "/v1/policies", storyPolicy, 201)
	s.ask(t, "c-1", "10", "")
	cli := func(key string, args ...string) clitest.Result {
		environ := []string{"SPENDGATE_API_URL=" + s.url, "SPENDGATE_API_KEY=" + key, "SPENDGATE_ADMIN_KEY=" + s.admin, "HOME=" + s.folder}
		return runWith(t, environ, "", args...)
	}
	frozen := cli("", "freeze", "--agent", "bot", "--reason", "it loops")
	frozen.Check(t, 0, "1 checks of the last 24 hours, of 1 principals", "")
	if got := s.ask(t, "c-2", "10", ""); got["reason_code"] != "frozen" {
		t.Errorf("the agent: %v", got)
	}
	nobody := cli("", "freeze", "--counterparty", "nobody", "--reason", "r", "--until", "2999-01-01T00:00:00Z")
	if !strings.Contains(nobody.Stderr, "WARNING: no check") {
		t.Error(nobody.Stdout) // a pipe would hide it
	}
	cli("", "freezes").Has(t, 0, "agent bot", "counterparty nobody", "2999-01-01T00:00:00Z", "it loops")
	soon := time.Now().Add(2 * time.Hour).UTC().Format("2006-01-02T15:")
	cli("", "freeze", "--counterparty", "soon", "--reason", "r", "--until", "2h").Has(t, 0, soon)
	cli("", "freeze", "--counterparty", "c", "--reason", "r", "--until", "-2h").Check(t, 2, "", "how long from now")
	ann := s.newKey(t, `"role": "approver", "principal": "ann"`)
	cli(ann, "thaw", freezeID(t, frozen.Stdout), "--note", "mended").Check(t, 0, " released", "")
	if got := s.ask(t, "c-3", "10", ""); got["decision"] != "allow" {
		t.Errorf("after the release: %v", got)
	}
	if got := cli(ann, "freezes").Stdout; strings.Contains(got, "agent bot") {
		t.Errorf("still active: %s", got)
	}
	cli(ann, "freezes", "--ended").Check(t, 0, "agent bot", "")
	for _, wrong := range []string{
		"freeze", "freeze --reason r", "freeze --agent a", "freeze --agent a --all --reason r", "freeze --agent= --reason r", "thaw",
		"thaw frz_1", "thaw --note n",
	} {
		cli(ann, strings.Fields(wrong)...).Check(t, 2, "", "Try: spendgate ")
	}
}
