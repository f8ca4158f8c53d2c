package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/cmd/spendgate/policyfile"
	"spendgate/config"
	"spendgate/hotpath/client"
)

func draw(seed uint64, run string, count int) []step {
	return script(rand.New(rand.NewPCG(seed, 0)), run, count)
}

func TestScriptIsRepeatable(t *testing.T) {
	if !reflect.DeepEqual(draw(7, "r", 200), draw(7, "r", 200)) {
		t.Error("one seed, two scripts")
	}
	if reflect.DeepEqual(draw(7, "r", 200), draw(8, "r", 200)) {
		t.Error("two seeds, one script")
	}
}

// For every seed only duplicates repeat an action, and the API accepts every check.
func TestScript(t *testing.T) {
	for seed := range uint64(50) {
		steps := draw(seed, "r", 200)
		kinds, seen, inferred := make(map[kind]int), make(map[string]bool), 0
		for i, s := range steps {
			kinds[s.kind]++
			if s.action.Amount.IsZero() {
				t.Fatalf("no amount: %+v", s.action)
			}
			if s.action.ActionType == "" && s.action.ReasonText == "" {
				t.Fatalf("neither type nor text: %+v", s.action)
			}
			if s.action.ActionType == "" {
				inferred++
			}
			// The type is left out: the classifier may take it for any.
			fingerprint := fmt.Sprint(s.action.AgentID, "|", s.action.Amount, "|", s.action.Counterparty)
			switch first := steps[s.of].action; s.kind {
			case fresh:
				if seen[fingerprint] {
					t.Fatalf("seed %d, #%d is a duplicate and should be fresh", seed, i+1)
				}
			case replay:
				if !reflect.DeepEqual(first, s.action) || s.action.IdempotencyKey == "" {
					t.Fatalf("seed %d, #%d is no replay of #%d", seed, i+1, s.of+1)
				}
			case duplicate:
				if !seen[fingerprint] || s.action.IdempotencyKey != "" {
					t.Fatalf("seed %d, #%d is no duplicate of #%d", seed, i+1, s.of+1)
				}
			case misuse:
				if first.Amount == s.action.Amount || first.IdempotencyKey != s.action.IdempotencyKey {
					t.Fatalf("seed %d, #%d does not misuse the key of #%d", seed, i+1, s.of+1)
				}
			}
			seen[fingerprint] = true
		}
		if len(steps) != 200 || kinds[replay] < 5 || kinds[duplicate] < 5 || inferred < 20 {
			t.Errorf("seed %d: %d steps, kinds %v, %d inferred", seed, len(steps), kinds, inferred)
		}
	}
}

// A real node has the policies but one, and decides as the demo is to show.
func TestPlay(t *testing.T) {
	node := fleet.TestDev(t)
	files := must.Get(policyfile.Read("../../deploy/policies", nil))(t)
	files = append(files, policyfile.Policy{
		Source: "another", Body: bytes.Replace(files[0].Body, []byte(`"policy_id":"`), []byte(`"policy_id":"not-`), 1),
	})
	out := must.Get(os.Create(filepath.Join(t.TempDir(), "out")))(t)
	settings := config.Client{APIURL: node.API, AdminKey: config.Secret(node.AdminKey)}
	for i := range 2 { // the second time the node has all policies
		must.Do(t, play(t.Context(), settings, files, fmt.Sprint(i), newTable(out), draw(seed, "r", count)))
	}
	printed := must.Get(os.ReadFile(out.Name()))(t)
	for _, want := range []string{
		" 200  ", "replay of #", "200 actions in", "escalate", "vendor_not_on_allowlist", "validation_error", "decision",
	} {
		if !strings.Contains(string(printed), want) {
			t.Errorf("no %q in\n%s", want, printed)
		}
	}
	waiting := 0
	for _, err := range approver(t, settings).AllApprovals(t.Context(), client.ApprovalQuery{Status: client.ApprovalPending}) {
		if waiting++; err != nil {
			t.Fatal(err)
		}
	}
	if waiting < 2 || !strings.Contains(string(printed), fmt.Sprintf("%d approvals wait", waiting)) {
		t.Errorf("%d approvals wait; printed\n%s", waiting, printed)
	}
	t.Chdir(t.TempDir())
	if err := play(t.Context(), config.Client{APIURL: node.API}, files, "r", newTable(out), nil); err == nil ||
		!strings.Contains(err.Error(), "make run") {
		t.Error(err)
	}
}

// approver makes a key that reads approvals.
func approver(t *testing.T, settings config.Client) *client.Client {
	t.Helper()
	admin := must.Get(client.New(client.Options{BaseURL: settings.APIURL, AdminKey: string(settings.AdminKey)}))(t)
	k := must.Get(admin.CreateKey(t.Context(), client.KeyRequest{Name: "ann", Grants: client.Grants{Role: "approver"}}))(t)
	return must.Get(client.New(client.Options{BaseURL: settings.APIURL, APIKey: k.APIKey}))(t)
}
