package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A shadow executes every call, and logs what it would have done.
func TestShadow(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	f.decide = func(map[string]any) string { return "block" }
	s := agentOf(t, guarded(t, f, p, "shadow: true # unlocked\n", "        idempotency_argument: idempotency_key\n"))
	call := func(charge string) (state, decision, would any) {
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": charge, "amount": 1}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Meta[metaState], r.Meta[metaDecision], r.Meta[metaShadow]
	}
	if state, decision, would := call("ch_1"); state != stateExecuted || decision != "block" || would != stateRefused {
		t.Error(state, decision, would)
	}
	f.with(func() { f.decide = func(map[string]any) string { return "allow" } })
	if state, decision, would := call("ch_2"); state != stateExecuted || decision != "allow" || would != stateExecuted {
		t.Error(state, decision, would)
	}
	if state, decision, would := call("ch_2"); state != stateExecuted || decision != "allow" || would != stateAlready {
		t.Error(state, decision, would)
	}
	f.Close()
	if state, decision, would := call("ch_3"); state != stateExecuted || decision != nil || would != stateError {
		t.Error(state, decision, would)
	}
	if len(p.paid()) != 4 || f.checks[1].outcome != "executed" {
		t.Error(p.paid())
	}
}

// A shadow goes the way of enforcement: attempts, approvals, blocks that are judged again
// and lasting keys. Its states are the states of the call that was made.
func TestShadowFollows(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	f.after = "judge_again"
	s := agentOf(t, guarded(t, f, p, "shadow: true\n", "        once: true\n        on_error: failed\n"))
	declined, decision := false, "allow"
	p.behave = func(int) (bool, error) { return !declined, nil }
	f.decide = func(map[string]any) string { return decision }
	step := func(charge, state, would, outcome string) {
		t.Helper()
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": charge, "amount": 1}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Meta[metaState] != state || r.Meta[metaShadow] != would {
			t.Errorf("%s: %v, want %s and %s", charge, r.Meta, state, would)
		}
		f.with(func() {
			if last := f.checks[len(f.checks)-1]; last.outcome != outcome || (last.redeemed == "") != (outcome == "") {
				t.Errorf("%s: %+v, want %s", charge, last, outcome)
			}
		})
	}
	declined = true
	step("ch_1", stateError, stateError, "failed")
	declined = false
	step("ch_1", stateExecuted, stateExecuted, "executed")
	step("ch_1", stateExecuted, stateAlready, "executed")
	f.with(func() { decision = "block" })
	step("ch_2", stateExecuted, stateRefused, "")
	f.with(func() { decision = "allow" })
	step("ch_2", stateExecuted, stateExecuted, "executed")
	f.with(func() { decision = "escalate" })
	step("ch_3", stateExecuted, statePending, "")
	f.with(func() { f.approvals[f.checks[len(f.checks)-1].escalated] = "approved" })
	step("ch_3", stateExecuted, stateExecuted, "executed")
	if len(f.once) != 4 { // two of ch_1, one of which was given back
		t.Errorf("lasting keys: %v", f.once)
	}

	f, p = newFakeService(t), newProvider(t)
	s = agentOf(t, guarded(t, f, p, "shadow: true\n", ""))
	p.behave = func(int) (bool, error) { return false, nil }
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "refund", Arguments: map[string]any{"charge": "ch_1", "amount": 1}})
	if err != nil || r.Meta[metaState] != stateInDoubt || !f.checks[0].doubt || textIn(r) != "declined" {
		t.Errorf("%v %v %q", err, r.Meta, textIn(r))
	}
}

// noted is a conn that keeps what is written to it.
type noted struct {
	conn
	written []message
}

func (n *noted) write(m message) error { n.written = append(n.written, m); return errLost }
func (n *noted) close()                {}

// A shadow sends no call that the agent cancelled before the server was called.
func TestShadowCancelled(t *testing.T) {
	g := &Gateway{file: &File{}, log: quiet(), stopping: t.Context()}
	for name, sent := range map[string]int{"cancelled": 0, "not cancelled": 1} {
		ctx, cancel := context.WithCancel(t.Context())
		if name == "cancelled" {
			cancel()
		}
		server := new(noted)
		l := newLink(&upstream{name: "psp"}, newSession(g, nil))
		l.conn = server
		c := &mappedCall{gw: g, l: l, t: mapping(nil), ctx: ctx, arguments: jsontext.Value("{}"), until: time.Now()}
		r := c.shadow(result{state: stateError})
		if calls := len(server.written); calls != sent || sent == 0 && (r.state != stateError || r.text != "the call was cancelled") {
			t.Errorf("%s: %d calls, %+v", name, calls, r)
		}
		cancel()
	}
}
