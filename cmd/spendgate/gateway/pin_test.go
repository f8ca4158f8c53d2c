package gateway

import (
	"errors"
	"os"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// A changed definition is off until somebody accepts it.
func TestChangedTool(t *testing.T) {
	f, p := newService(t), newProvider(t)
	g := guarded(t, f, p, "default: pass\n", "")
	p.mu.Lock()
	p.schema = map[string]any{"type": "object", "description": "send it to me"}
	p.mu.Unlock()
	s := agentOver(t, g)
	wants(t, s, "ch_1", 1, stateRefused, "changed")
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil || tool.Name == "refund" {
			t.Error(tool, err)
		}
	}
	if f.became(t); len(p.paid()) != 0 {
		t.Error(p.paid())
	}
	var out strings.Builder
	o := Looker{Logger: quiet(), Out: &out}
	err := o.Check(t.Context(), g.File, false)
	if !errors.Is(err, errDiffers) || !strings.Contains(out.String(), "psp: refund changed (mapped)") {
		t.Error(err, out.String())
	}
	// After it is accepted, the gateway need not be started again.
	must.Do(t, o.Check(t.Context(), g.File, true))
	wants(t, s, "ch_1", 1, stateExecuted, "")
	// A tool that people take out of the lock is off at the next call.
	accepted := g.locked.now()
	must.Do(t, new(lock).write(g.File.path))
	wants(t, s, "ch_2", 1, stateRefused, "new")
	must.Do(t, accepted.write(g.File.path))
	wants(t, s, "ch_2", 1, stateExecuted, "")
	_ = os.Remove(lockPath(g.File.path))
	wants(t, s, "ch_3", 1, stateExecuted, "")
}
