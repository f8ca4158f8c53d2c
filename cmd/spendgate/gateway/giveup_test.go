package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A report that gives back and gets no answer may be recorded or not, and another gateway may repeat
// the call meanwhile. The agent is told that it is in doubt, and the next same call finds the outcome.
func TestUnansweredGiveBack(t *testing.T) {
	for _, test := range []struct {
		before, repeated bool // the report is lost before it has an effect; another gateway repeats the call
		state, checkID   string
	}{
		{true, false, stateExecuted, "chk_1"},
		{true, true, stateAlready, "chk_1"},
		{false, false, stateExecuted, "chk_2"},
	} {
		t.Run(fmt.Sprintf("before %t, repeated %t", test.before, test.repeated), func(t *testing.T) {
			t.Parallel()
			f, p := newFakeService(t), newProvider(t)
			p.behave = func(n int) (bool, error) {
				if n == 1 {
					return false, errors.New("broken")
				}
				return true, nil
			}
			f.broken = func(path string) (bool, bool) {
				report := strings.HasSuffix(path, "/outcome") && strings.HasPrefix(path, "POST")
				return report && test.before, report
			}
			more := keyMore + "        on_error: failed\n"
			first := agentOf(t, guarded(t, f, p, "", more))
			wantsMeta(t, first, stateInDoubt, "chk_1", "Another call may be carrying the action out")
			if p.paid() != nil {
				t.Error(p.paid())
			}
			f.with(func() { f.broken = nil })
			if test.repeated {
				wantsMeta(t, agentOf(t, guarded(t, f, p, "", more)), stateExecuted, "chk_1", "paid")
			}
			wantsMeta(t, first, test.state, test.checkID, "")
			if len(p.paid()) != 1 {
				t.Error(p.paid())
			}
		})
	}
}

// A report that the service has no time for is sent again.
func TestReportedLater(t *testing.T) {
	f, p := newFakeService(t), newProvider(t)
	f.busy = 3
	wants(t, agentOf(t, guarded(t, f, p, "", "")), "ch_1", 1, stateExecuted, "")
	within(t, "reported", func() (so bool) { f.with(func() { so = f.checks[0].outcome == outcomeExecuted }); return so })
}

// A mapped tool without a schema does not spoil the list of tools.
func TestListWithoutSchema(t *testing.T) {
	s, p := newPlain(t)
	s.tools = append(s.tools, `{"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}`)
	s.tools[0] = `{"name": "refund", "description": "refunds"}`
	agent := agentOf(t, guarded(t, newFakeService(t), p, "", keyMore))
	list, err := agent.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 2 || list.Tools[0].InputSchema == nil {
		t.Fatal(list, err)
	}
	wants(t, agent, "ch_1", 1, stateExecuted, "")
}
