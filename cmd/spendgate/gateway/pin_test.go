package gateway

import (
	"errors"
	"os"
	"strings"
	"testing"
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
	o := CheckOptions{File: g.file, Logger: quiet(), Out: &out}
	if err := Check(t.Context(), o); !errors.Is(err, errDiffers) || !strings.Contains(out.String(), "psp: refund changed (mapped)") {
		t.Error(err, out.String())
	}
	// After it is accepted, the gateway need not be started again.
	o.Accept = true
	if err := Check(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	wants(t, s, "ch_1", 1, stateExecuted, "")
	// A tool that people take out of the lock is off at the next call.
	accepted := g.locked.now()
	if err := new(lock).write(g.file.path); err != nil {
		t.Fatal(err)
	}
	wants(t, s, "ch_2", 1, stateRefused, "new")
	if err := accepted.write(g.file.path); err != nil {
		t.Fatal(err)
	}
	wants(t, s, "ch_2", 1, stateExecuted, "")
	_ = os.Remove(lockPath(g.file.path))
	wants(t, s, "ch_3", 1, stateExecuted, "")
}
