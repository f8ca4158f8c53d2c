package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/fleet"
	"spendgate/hotpath/client"
)

// enforced is a node, a provider and a gateway's file, for gateways that are processes.
type enforced struct {
	*fleet.Dev
	provider *provider
	file     string
	environ  []string
	api      *client.Client // reads all
}

func startEnforced(t *testing.T, more string) *enforced {
	t.Helper()
	dev := fleet.TestDev(t)
	e := &enforced{Dev: dev, provider: newProvider(t)}
	e.provider.schema["required"] = []string{"amount"}
	var err error
	if e.api, err = client.New(client.Options{BaseURL: dev.API, APIKey: dev.Key, AdminKey: dev.AdminKey}); err != nil {
		t.Fatal(err)
	}
	_, err = e.api.CreatePolicy(t.Context(), client.NewPolicy{
		PolicyID: "p", Name: "p", Redeem: "required",
		Rules: []client.Rule{
			{RuleID: "cap", RuleType: "max_amount", Parameters: json.RawMessage(`{"limit":500,"currency":"USD"}`)},
			{RuleID: "ask", RuleType: "escalate_if", Parameters: json.RawMessage(`{"amount_above":400,"approval":{}}`)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	key, err := e.api.CreateKey(t.Context(), client.KeyRequest{Name: "gateway", Grants: client.Grants{Role: "gateway"}})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write(t, folder, "gateway.key", key.APIKey)
	e.file = write(t, folder, "g.yaml", "spendgate: {url: "+dev.API+", key_file: gateway.key}\nagent_id: bot\nupstreams:\n  psp:\n    url: "+
		e.provider.url+"\n    tools:"+refundMapping+more)
	e.environ = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "SPENDGATE_") })
	accept := e.command("gateway", "check", "--accept", e.file)
	if out, err := accept.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return e
}

func (e *enforced) command(args ...string) *exec.Cmd {
	c := exec.Command(e.Binary, args...)
	c.Env = e.environ
	return c
}

// gateway starts a gateway; kill ends it at once.
func (e *enforced) gateway(t *testing.T) (s *sdk.ClientSession, kill func()) {
	t.Helper()
	c := e.command("gateway", e.file)
	s = connect(t, sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil), &sdk.CommandTransport{Command: c})
	return s, func() { _ = c.Process.Kill() }
}

// approve has a person approve the only call that waits for people.
func (e *enforced) approve(t *testing.T) {
	t.Helper()
	person, err := e.api.CreateKey(t.Context(), client.KeyRequest{Name: "ann", Grants: client.Grants{Role: "approver"}})
	if err != nil {
		t.Fatal(err)
	}
	ann, err := client.New(client.Options{BaseURL: e.API, APIKey: person.APIKey})
	if err != nil {
		t.Fatal(err)
	}
	approved := 0
	for waiting, err := range ann.Waiting(t.Context(), client.ApprovalQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ann.Approve(t.Context(), waiting.Approval.ApprovalID, waiting.Approval.ActionHash, ""); err != nil {
			t.Fatal(err)
		}
		approved++
	}
	if approved != 1 {
		t.Fatal(approved)
	}
}

// TestNode: a block moves nothing, an approved escalation moves the money, and an executed call is
// not executed again by any gateway.
func TestNode(t *testing.T) {
	e := startEnforced(t, "")
	s, _ := e.gateway(t)
	wants(t, s, "ch_1", 1000, stateExecuted, "paid")
	wants(t, s, "ch_1", 1000, stateAlready, "Reference: re_1")
	wants(t, s, "ch_1", 60_000, stateRefused, "Next step")
	wants(t, s, "ch_2", 45_000, statePending, "Call this tool again")
	e.approve(t)
	other, _ := e.gateway(t)
	wants(t, other, "ch_2", 45_000, stateExecuted, "paid")
	wants(t, s, "ch_2", 45_000, stateAlready, "re_2")
	e.judge(t)
}

// TestNodeGivesBack: a payment that another agent's call made takes from budgets once, however
// often it is asked for, and a call that had no room is judged again.
func TestNodeGivesBack(t *testing.T) {
	e := startEnforced(t, onceMore)
	budget := func(limit int) {
		t.Helper()
		_, err := e.api.CreatePolicy(t.Context(), client.NewPolicy{PolicyID: "p", Name: "p", Redeem: "required", Rules: []client.Rule{
			{RuleID: "day", RuleType: "budget", Parameters: json.RawMessage(fmt.Sprintf(`{"limit":%d,"currency":"USD","window":"day"}`, limit))},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	budget(25)
	text, err := os.ReadFile(e.file)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := e.gateway(t)
	wants(t, a, "ch_1", 1000, stateExecuted, "paid")
	if err := os.WriteFile(e.file, []byte(strings.Replace(string(text), "agent_id: bot", "agent_id: other", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	b, _ := e.gateway(t)
	for range 3 {
		wants(t, b, "ch_1", 1000, stateAlready, "Reference: re_1")
	}
	c, _ := e.gateway(t) // forgets nothing
	wants(t, c, "ch_1", 1000, stateAlready, "Reference: re_1")
	used, err := e.api.Budgets(t.Context(), client.BudgetQuery{PolicyID: "p"})
	if err != nil || len(used.Data) != 1 || used.Data[0].Used.String() != "10" || used.Data[0].Count != 1 {
		t.Errorf("%+v %v", used, err)
	}
	wants(t, b, "ch_2", 2000, stateRefused, "budget_exceeded")
	budget(30)
	wants(t, b, "ch_2", 2000, stateExecuted, "paid")
	e.judge(t)
}

// TestNodeApprovedWithoutRoom: a call that people approved, and for which a budget had no room then, goes on when
// there is room, with that approval, through any gateway.
func TestNodeApprovedWithoutRoom(t *testing.T) {
	e := startEnforced(t, "")
	budget := func(limit int) {
		t.Helper()
		_, err := e.api.CreatePolicy(t.Context(), client.NewPolicy{PolicyID: "p", Name: "p", Rules: []client.Rule{
			{RuleID: "ask", RuleType: "escalate_if", Parameters: json.RawMessage(`{"amount_above":400,"approval":{}}`)},
			{RuleID: "day", RuleType: "budget", Parameters: json.RawMessage(fmt.Sprintf(`{"limit":%d,"currency":"USD","window":"day"}`, limit))},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	budget(500)
	s, _ := e.gateway(t)
	wants(t, s, "ch_1", 45_000, statePending, "")
	wants(t, s, "ch_2", 10_000, stateExecuted, "paid")
	e.approve(t)
	for range 3 {
		wants(t, s, "ch_1", 45_000, stateRefused, "budget_exceeded")
	}
	budget(1000)
	other, _ := e.gateway(t)
	wants(t, other, "ch_1", 45_000, stateExecuted, "paid")
	wants(t, s, "ch_1", 45_000, stateAlready, "re_2")
	e.judge(t)
}

// TestNodeKilled kills gateways and the node at any step of calls. Each call is made twice at once.
func TestNodeKilled(t *testing.T) {
	for name, more := range map[string]string{"without a key": "", "with a key": "        idempotency_argument: idempotency_key\n"} {
		t.Run(name, func(t *testing.T) {
			e := startEnforced(t, more)
			e.provider.slow = 25 * time.Millisecond
			const rounds = 12
			states := make(map[string]int)
			for i := range rounds {
				charge := fmt.Sprintf("ch_%d", i)
				a, killA := e.gateway(t)
				b, killB := e.gateway(t)
				var calls sync.WaitGroup
				for _, s := range []*sdk.ClientSession{a, b} {
					calls.Go(func() { refund(t, s, charge, 100) })
				}
				time.Sleep(rand.N(60 * time.Millisecond))
				killA()
				if i%3 == 0 {
					if err := e.Kill(); err != nil {
						t.Fatal(err)
					}
					if err := e.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(rand.N(60 * time.Millisecond))
				if i%2 == 0 {
					killB()
				}
				calls.Wait()
				last, _ := e.gateway(t)
				state, text := refund(t, last, charge, 100)
				states[state]++
				if allowed := []string{stateExecuted, stateAlready, stateInDoubt}; !slices.Contains(allowed, state) {
					t.Errorf("%s ends as %s: %s", charge, state, text)
				}
				if state == stateInDoubt && more != "" {
					t.Errorf("%s: the provider takes a key, and it is in doubt", charge)
				}
			}
			t.Log(states)
			e.judge(t)
		})
	}
}

// judge compares the provider's ledger with the record: nothing is paid twice or without a
// redemption, every executed check was paid, and every check in doubt is listed.
func (e *enforced) judge(t *testing.T) {
	t.Helper()
	paid := make(map[string]int)
	for _, entry := range e.provider.paid() {
		paid[strings.Fields(entry)[0]]++
	}
	doubts := make(map[string]bool)
	for c, err := range e.api.AllChecks(context.Background(), client.CheckQuery{PolicyID: "p", Outcome: "in_doubt"}) {
		if err != nil {
			t.Fatal(err)
		}
		doubts[c.CheckID] = true
	}
	redeemed := make(map[string]int)
	for c, err := range e.api.AllChecks(context.Background(), client.CheckQuery{PolicyID: "p"}) {
		if err != nil {
			t.Fatal(err)
		}
		charge := c.Action.Counterparty
		if c.Redemption != nil {
			redeemed[charge]++
		}
		switch {
		case c.Outcome != nil && c.Outcome.Status == outcomeExecuted && paid[charge] != 1:
			t.Errorf("%s was executed, and paid %d times", charge, paid[charge])
		case c.Redemption != nil && c.Outcome == nil && !doubts[c.CheckID]:
			t.Errorf("%s is redeemed without an outcome, and not in doubt", charge)
		}
	}
	for charge, n := range paid {
		if n != 1 || redeemed[charge] < 1 {
			t.Errorf("%s was paid %d times, by %d redemptions", charge, n, redeemed[charge])
		}
	}
}
