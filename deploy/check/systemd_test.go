package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// The unit of the verification brings its metrics into node_exporter's folder, which is root's, and leaves no half-written file there.
func TestVerifyUnitBringsItsMetrics(t *testing.T) {
	unit, err := os.ReadFile("../systemd/spendgate-verify.service")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^ExecStopPost=\+/bin/sh -c '(.*)'$`).FindSubmatch(unit)
	wrote := regexp.MustCompile(`(?m)^ExecStart=.* --metrics-file (/run/\S+)`).FindSubmatch(unit)
	if command == nil || wrote == nil ||
		!strings.Contains(string(unit), "\nRuntimeDirectory="+filepath.Base(filepath.Dir(string(wrote[1])))+"\n") {
		t.Fatalf("runs %q as root afterwards, writes %q", command, wrote)
	}
	run, folder := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(run, filepath.Base(string(wrote[1]))), []byte("spendgate_verify_findings 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer(filepath.Dir(string(wrote[1])), run, "/var/lib/prometheus/node-exporter", folder).Replace(string(command[1]))
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 || filepath.Ext(files[0]) != ".prom" {
		t.Errorf("%q, %v", files, err)
	}
}
