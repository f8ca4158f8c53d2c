package console_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// TestBrowser runs browser/console.test.mjs in a browser, with a node; no test may be skipped.
func TestBrowser(t *testing.T) { inBrowser(t, "browser/console.test.mjs", fleet.Settings{}) }

// browser/visible.test.mjs needs no browser.
func TestVisible(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOTICE: no node, so what the console shows of strange text is not tested")
	}
	c := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=tap", "browser/visible.test.mjs")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Signing in with a provider, in a browser: browser/sign-in.test.mjs.
func TestBrowserSignsIn(t *testing.T) {
	address := must.Get(fleet.FreeAddr())(t)
	inBrowser(t, "browser/sign-in.test.mjs", startProvider(t, address))
}

// Signing in with the provider that npm has as oidc-provider, which is certified for OpenID
// Connect: browser/provider.test.mjs, which runs it.
func TestBrowserSignsInWithOidcProvider(t *testing.T) {
	address := must.Get(fleet.FreeAddr())(t)
	provider := must.Get(fleet.FreeAddr())(t)
	t.Setenv("TEST_OIDC_ISSUER", "http://"+provider)
	inBrowser(t, "browser/provider.test.mjs", signInSettings(address, "http://"+provider, "Money"))
}

func inBrowser(t *testing.T, tests string, settings fleet.Settings) {
	modules := os.Getenv("TEST_NODE_MODULES")
	if modules == "" {
		t.Skip("NOTICE: TEST_NODE_MODULES is not set; deploy/npm/install.sh installs what drives the browser and prints its value")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("NOTICE: no chromium, so the console is not tested in a browser")
	}
	node := fleet.TestDev(t, settings)
	c := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=tap", tests)
	c.Env = append(os.Environ(), "TEST_CHROMIUM="+chromium, "SPENDGATE_API_URL="+node.API, "SPENDGATE_API_KEY="+node.Key,
		"SPENDGATE_ADMIN_KEY="+node.AdminKey, "TEST_DATA_DIR="+node.Data)
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\n# skipped 0\n") || strings.Contains(string(out), "\n# pass 0\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.SplitSeq(string(out), "\n") {
		if strings.Contains(line, " ms") && strings.HasPrefix(line, "# \\#") {
			t.Log(line)
		}
	}
}
