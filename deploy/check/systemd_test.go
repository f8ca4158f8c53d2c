package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// systemd accepts the units and every key in them.
func TestUnits(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	units, err := filepath.Glob("../systemd/*")
	if err != nil || len(units) < 2 {
		t.Fatalf("%d units, %v", len(units), err)
	}
	dir, args := t.TempDir(), []string{"verify", "--man=no"}
	for _, unit := range units {
		content, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		// The program that it starts need not be installed here.
		text := strings.ReplaceAll(string(content), "/usr/local/bin/spendgate", "/bin/sh")
		path := filepath.Join(dir, filepath.Base(unit))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if out, err := exec.CommandContext(t.Context(), verify, args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	// A timer starts the service of its name.
	for _, unit := range units {
		if service, timer := strings.CutSuffix(unit, ".timer"); timer && !exists(service+".service") {
			t.Errorf("%s starts nothing", unit)
		}
	}
}
