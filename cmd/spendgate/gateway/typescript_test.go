package gateway

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spendgate/bench/must"
)

// TestTypeScriptSDK: agents and servers of the protocol's TypeScript SDK, of either era on both sides.
func TestTypeScriptSDK(t *testing.T) {
	modules := os.Getenv("TEST_NODE_MODULES")
	if _, err := os.Stat(filepath.Join(modules, "@modelcontextprotocol/server/dist/stdio.mjs")); err != nil {
		t.Skip("NOTICE: TEST_NODE_MODULES has no SDK of the protocol; deploy/npm/install.sh installs it and prints its value")
	}
	script := must.Get(filepath.Abs("testdata/sdk.mjs"))(t)
	for _, server := range []string{legacyVersion, latestVersion} {
		s, p := newService(t), &provider{}
		head := "listen: 127.0.0.1:0\n"
		content := strings.Replace(gatewayFile(s, p, head, ""), "url: ", fmt.Sprintf("command: [node, %q, server, %q]", script, server), 1)
		payout := strings.Replace(strings.ReplaceAll(refundMapping, "POLICY", s.policy), "refund:", "payout:", 1)
		path := write(t, t.TempDir(), "g.yaml", content+payout[1:])
		file := must.Get(Load(path))(t)
		accept(t, file)
		g := must.Get(New(Options{File: file, Client: s.own, Version: "test", Environ: os.Environ(), Logger: testLog(t)}))(t)
		t.Cleanup(g.stop)
		address := served(t, g) + Path
		for _, agent := range []string{legacyVersion, latestVersion} {
			t.Run(server+"/"+agent, func(t *testing.T) { testTypeScript(t, script, agent, server, address) })
		}
	}
}

func testTypeScript(t *testing.T, script, agent, server, address string) {
	c, complaints := exec.CommandContext(t.Context(), "node", script, "agent", agent, address), new(strings.Builder)
	c.Stderr = complaints
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, complaints)
	}
	type result struct {
		Content []struct{ Text string }
		Meta    map[string]any `json:"_meta"`
		Problem string
	}
	var said struct {
		Version, Instructions                         string
		Tools                                         []string
		Echo, Confirm, Refund, Again, Unknown, Payout result
	}
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatal(err, string(out))
	}
	offered := []string{"refund", "payout", "confirm", "echo"}
	if said.Version != agent || said.Instructions != "psp's own" || !slices.Equal(said.Tools, offered) {
		t.Error(said.Version, said.Instructions, said.Tools)
	}
	text := func(r result) string {
		if len(r.Content) == 0 {
			return r.Problem
		}
		return strings.TrimPrefix(fmt.Sprint(r.Meta[metaState], " ", r.Content[0].Text), "<nil>")
	}
	confirmed, paid := ` {"action":"accept"`, stateInDoubt
	switch {
	case server == legacyVersion && agent == legacyVersion: // the server asks by a request of its own, which nobody judges
		paid = stateExecuted
	case server == legacyVersion:
		confirmed = " Cannot request input"
	}
	for what, c := range map[string]struct {
		got  result
		want string
	}{
		"echo": {said.Echo, " hé"}, "confirm": {said.Confirm, confirmed}, "refund": {said.Refund, stateExecuted + " paid ch_" + agent},
		"again": {said.Again, stateAlready}, "unknown": {said.Unknown, stateError + " Error, and nothing"}, "payout": {said.Payout, paid},
	} {
		if got := text(c.got); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
