// Package readme_test compares the pages that users read with the program. It runs their examples
// in order, as a reader would paste them into a shell, and compares the output with what the page
// shows; it compares their tables with what the program reports about itself.
package readme_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// startsNode is the example that a reader leaves running in another terminal.
const startsNode = "make run\n"

// executed are the pages whose examples are run, in the order in which one reads them: each may use
// what the examples before have made.
var executed = []string{
	"README.md", "docs/tour.md", "docs/clients/http.md", "docs/use/webhooks.md", "docs/use/tool-server.md",
	"docs/operate/metrics.md", maintenance, budgets, "docs/audit/auditors.md", runbook, "docs/use/payments.md",
}

// executedElsewhere are pages whose examples another test runs.
var executedElsewhere = map[string]string{
	"docs/operate/capacity.md":            "bench/measure/capacity",
	"deploy/clients/python/README.md":     "deploy/clients",
	"deploy/clients/typescript/README.md": "deploy/clients",
}

func TestPages(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "go", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the examples need %s", tool)
		}
	}
	n := newClone(t)
	n.start(t)
	c := comparison{newReading(), newReading()}
	for _, page := range executed {
		t.Run(page, func(t *testing.T) { runPage(t, n, c, page) })
	}
	t.Run("mcp.json", func(t *testing.T) { startAsHosts(t, n) })
	t.Run("keys", func(t *testing.T) { keysAreIgnored(t, n) })
	t.Run("settings", func(t *testing.T) { compareSettings(t, n) })
	t.Run("commands", func(t *testing.T) { compareCommands(t, n) })
	t.Run("metrics", func(t *testing.T) { compareMetrics(t, n) })
}

func runPage(t *testing.T, n *node, c comparison, page string) {
	examples := examplesOf(t, page)
	if len(examples) == 0 {
		t.Fatal("no examples found")
	}
	environ := n.environ("SPENDGATE_API_URL=http://" + n.api)
	switch page { // who is on call has the program and a key, and the page names no file that only a node for development has
	case budgets:
		environ = append(environ, "SPENDGATE_API_KEY_FILE=.spendgate/sample.key")
	case runbook:
		path := "PATH=" + filepath.Dir(n.binary) + string(filepath.ListSeparator) + os.Getenv("PATH")
		environ = append(environ, path, "SPENDGATE_ADMIN_KEY_FILE=.spendgate/admin.key", "READ_KEY_FILE=.spendgate/sample.key")
		if strings.Contains(readPage(t, page), ".spendgate/") {
			t.Error("the page names a file that only a node for development has")
		}
	}
	s := openShell(t, n.dir, environ)
	for _, e := range examples {
		if e.text == startsNode {
			continue
		}
		script := e.text
		if e.language != "sh" && e.language != "bash" {
			if script = program(t, e, compileStrictly); script == "" {
				continue
			}
		}
		printed, err := s.run(t, n.here(script), e.shown != nil)
		if err != nil {
			t.Errorf("%s:%d: %v\n%s", e.page, e.line, err, printed)
		}
		if e.shown == nil {
			continue
		}
		shown := *e.shown
		shown.text = n.here(shown.text)
		if err := c.compare(shown, printed); err != nil {
			t.Errorf("%s:%d: %v", e.page, shown.line, err)
		}
	}
}

// TestExamplesAreExecuted reports pages with examples that no test runs.
func TestExamplesAreExecuted(t *testing.T) {
	for _, page := range pages(t) {
		if slices.Contains(executed, page) || executedElsewhere[page] != "" {
			continue
		}
		for _, b := range blocksOf(t, page) {
			if b.runs() {
				t.Errorf("%s:%d: this example is not run; if it cannot be, mark it as console", page, b.line)
			}
		}
	}
}

// TestPagesAreShort bounds the length of each page, and of all together, in KB.
func TestPagesAreShort(t *testing.T) {
	other := map[string]int{
		"README.md": 10, runbook: 35, "docs/reference/contract.md": 60, "docs/audit/format.md": 17, "docs/audit/format-payments.md": 17,
		"docs/internals/protocol.md": 17,
	}
	const together = 410
	all := 0
	for _, page := range pages(t) {
		size, most := len(readPage(t, page)), cmp.Or(other[page], 15)
		if all += size; size > most<<10 {
			t.Errorf("%s has %d bytes, more than %d KB: say less, or divide it by what people ask", page, size, most)
		}
	}
	if all > together<<10 {
		t.Errorf("the pages have %d bytes, more than %d KB: say each fact once", all, together)
	}
}

// make test is the test command, and README.md says so.
func TestReadmeNamesTheTestCommand(t *testing.T) {
	if !strings.Contains(section(t, "README.md", "## Test"), "```console\nmake test\n```\n\nis the test command") {
		t.Error("README.md does not name make test as the test command")
	}
}
