// Package readme_test holds the pages that users read to the program: their
// examples are run in order, as a reader would paste them into a shell, and
// what the pages show is compared with what is printed; their tables are
// compared with what the program says of itself.
package readme_test

import (
	"os/exec"
	"strings"
	"testing"
)

// startsNode is the example that a reader leaves running in another terminal.
const startsNode = "make run\n"

// The pages, in the order in which one reads them. The second finds what the
// examples of the first left.
func TestPages(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "go", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the examples need %s", tool)
		}
	}
	n := newClone(t)
	n.start(t)
	for _, page := range []string{"README.md", "deploy/RUNBOOK.md"} {
		t.Run(page, func(t *testing.T) { runPage(t, n, page) })
	}
	t.Run("mcp.json", func(t *testing.T) { startAsHosts(t, n) })
	t.Run("keys", func(t *testing.T) { noKeyInTheWay(t, n) })
	t.Run("rules", func(t *testing.T) { compareRules(t, n) })
	t.Run("settings", func(t *testing.T) { compareSettings(t, n) })
	t.Run("commands", func(t *testing.T) { compareCommands(t, n) })
	t.Run("metrics", func(t *testing.T) { compareMetrics(t, n) })
}

func runPage(t *testing.T, n *node, page string) {
	examples := examplesOf(t, page)
	if len(examples) == 0 {
		t.Fatal("no examples found")
	}
	s := openShell(t, n.dir, n.environ("SPENDGATE_API_URL=http://"+n.api))
	c := comparison{newReading(), newReading()}
	for _, e := range examples {
		if e.text == startsNode {
			continue
		}
		script := e.text
		if e.language != "sh" && e.language != "bash" {
			if script = program(t, e); script == "" {
				continue
			}
		}
		printed, err := s.run(t, n.here(script))
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

// make test is the test command, and says so.
func TestReadmeNamesTheTestCommand(t *testing.T) {
	if !strings.Contains(section(t, "README.md", "## Test and contribute"), "```console\nmake test\n```\n\nis the test command") {
		t.Error("README.md does not name make test as the test command")
	}
}
