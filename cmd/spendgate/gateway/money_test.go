package gateway

import (
	"errors"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
	"spendgate/hotpath/client/pay"
)

// TestStates: each end of a call.
func TestStates(t *testing.T) {
	for _, e := range eras() {
		t.Run(e.version+"/"+e.transport, func(t *testing.T) {
			t.Parallel()
			s, p := newService(t), newProvider(t)
			listen := ""
			if e.transport == "http" {
				listen = "listen: 127.0.0.1:0\n"
			}
			a := e.reach(t, guarded(t, s, p, listen, ""), agentClient())
			wants(t, a, "ch_1", 1000, stateExecuted, "paid", "note", "one")
			wants(t, a, " ch_1", 1000, stateError, "white space")
			wants(t, a, "ch_1", 1000, stateAlready, "Reference: re_1", "note", "two")
			wants(t, a, "ch_1", 2000, stateAlready, "another amount")
			wants(t, a, "ch_2", 60_000, stateRefused, "Next step")
			wants(t, a, "ch_3", 45_000, statePending, "Call this tool again")
			s.approve(t, true)
			wants(t, a, "ch_3", 45_000, stateExecuted, "paid")
			wants(t, a, "ch_4", 45_000, statePending, "")
			s.approve(t, false)
			wants(t, a, "ch_4", 45_000, stateDenied, "Denied by people")
			p.behave = func(int) (bool, string, error) { return false, "card_declined", nil }
			wants(t, a, "ch_5", 1000, stateError, "Declined")
			p.behave = nil
			wants(t, a, "ch_5", 1000, stateExecuted, "paid")
			p.behave = func(int) (bool, string, error) { return true, "", errors.New("timeout") }
			wants(t, a, "ch_6", 1000, stateInDoubt, "In doubt")
			wants(t, a, "ch_6", 1000, stateInDoubt, "In doubt")
			p.behave = func(int) (bool, string, error) { return true, "unknown_error", nil }
			wants(t, a, "ch_7", 1000, stateInDoubt, "the server said that it failed")
			if got := strings.Join(p.paid(), ", "); got != "ch_1 1000, ch_3 45000, ch_5 1000, ch_6 1000, ch_7 1000" {
				t.Error(got)
			}
			s.became(t, "executed", "block", "escalate", "executed", "escalate", "failed", "executed", "in_doubt", "in_doubt")
		})
	}
}

// TestFrozen: an agent is told that people stopped it, and why (S87).
func TestFrozen(t *testing.T) {
	s, p := newService(t), newProvider(t)
	a := agentOver(t, guarded(t, s, p, "", ""))
	frozen, err := s.api.CreateFreeze(t.Context(), client.NewFreeze{Scope: client.FreezeScope{PolicyID: s.policy}, Reason: "it loops"})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, a, "ch_1", 1000, stateRefused, frozen.FreezeID+": it loops")
	refused := &client.Error{Code: client.CodeFrozen, Message: "frozen by frz_1: it loops"}
	open := new(mappedCall).said(pay.Result{State: pay.Error, Err: refused})
	if open.state != stateRefused || !open.isError || !strings.Contains(open.text, "Refused: frozen by frz_1: it loops. Nothing was") {
		t.Errorf("of a payment that was allowed before: %+v", open)
	}
	if got := p.paid(); len(got) > 0 {
		t.Errorf("paid: %v", got)
	}
}

// TestInProgress: a call that meets another one does not read that the outcome is to be found out.
func TestInProgress(t *testing.T) {
	r := pay.Result{State: pay.InDoubt, InProgress: true, Check: new(client.Result)}
	if e := new(mappedCall).said(r); e.state != stateInDoubt || !strings.HasPrefix(e.text, "In progress: another call may still be ") {
		t.Errorf("%+v", e)
	}
}

// TestOffered: an agent sees the tools that are on, a mapped one without the argument that the gateway fills.
func TestOffered(t *testing.T) {
	s, p := newService(t), newProvider(t)
	a := agentOver(t, guarded(t, s, p, "", withKey))
	var names []string
	for tool, err := range a.Tools(t.Context(), nil) {
		must.Do(t, err)
		names = append(names, tool.Name)
		if schema := string(encode(tool.InputSchema)); strings.Contains(schema, "idempotency_key") {
			t.Error(schema)
		}
	}
	if got := strings.Join(names, " "); got != "look refund" {
		t.Error(got)
	}
	if r, err := a.CallTool(t.Context(), &sdk.CallToolParams{Name: "wipe"}); err != nil || !r.IsError || len(p.paid()) != 0 {
		t.Error(r, err)
	}
}
