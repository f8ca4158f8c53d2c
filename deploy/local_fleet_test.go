package deploy_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// localFleet is what fleetctl works on.
type localFleet struct {
	command string // fleetctl
	binary  string // of the nodes
	env     []string
	link    string            // FLEET_DIR
	urls    map[string]string // of api, prometheus, node1, ..., node1_ops, ...
	printed string
	admin   *fleet.Client
}

// newLocalFleet builds fleetctl for a fleet of a binary, which does not run yet.
func newLocalFleet(t *testing.T, binary string, env ...string) *localFleet {
	t.Helper()
	dir := t.TempDir()
	f := &localFleet{binary: binary, command: filepath.Join(dir, "fleetctl"), link: filepath.Join(dir, "fleet")}
	f.env = append(os.Environ(), append([]string{"FLEET_DIR=" + f.link, "FLEET_BINARY=" + binary, "API_PORT=0"}, env...)...)
	for _, file := range []string{"main.go", "up.txt"} { // a result of this test depends on them
		must.Get(os.Stat(filepath.Join("../bench/fleetctl", file)))(t)
	}
	if out, err := fleet.BuildCommand(t.Context(), "../bench/fleetctl", f.command).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return f
}

// downAfterwards stops the fleet when the test is over, and removes its logs.
func (f *localFleet) downAfterwards(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			f.showLogs(t)
		}
		f.mustRun(t, "down")
		if dir, err := os.Readlink(f.link); err == nil {
			_ = os.RemoveAll(dir)
		}
	})
}

// needsFleet skips a test where HAProxy and Prometheus are not installed.
func needsFleet(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a fleet")
	}
	for _, program := range []string{"TEST_HAPROXY", "TEST_PROMETHEUS"} {
		if os.Getenv(program) == "" {
			t.Skip("needs HAProxy and Prometheus: run it by make test, which installs them")
		}
	}
}

// startFleet starts a fleet on free ports.
func startFleet(t *testing.T) *localFleet {
	t.Helper()
	needsFleet(t)
	dir := t.TempDir()
	binary := must.Get(fleet.Build(t.Context(), dir, fleet.BuildOptions{Version: "v1.2.3"}))(t)
	// The caller's environment must not reach the fleet.
	f := newLocalFleet(t, binary, "SPENDGATE_LOG_LEVEL=nonsense", "http_proxy=http://127.0.0.1:1")
	f.downAfterwards(t)
	f.printed = f.mustRun(t, "up")
	var state struct {
		API, Prometheus string
		Nodes           []struct{ API, Ops string }
		Gateway         struct{ API string }
	}
	must.Do(t, json.Unmarshal([]byte(f.read(t, "fleet.json")), &state))
	f.urls = map[string]string{
		"api": "http://" + state.API, "prometheus": "http://" + state.Prometheus, "gateway": "http://" + state.Gateway.API,
	}
	for i, node := range state.Nodes {
		f.urls[nodeNames[i]], f.urls[nodeNames[i]+"_ops"] = "http://"+node.API, "http://"+node.Ops
	}
	f.admin = &fleet.Client{Base: f.urls["api"], AdminKey: strings.TrimSpace(f.read(t, "admin.key")), HTTP: http.DefaultClient}
	return f
}

// run returns the exit code of a command of fleetctl and all that it printed.
func (f *localFleet) run(t *testing.T, command string) (code int, printed string) {
	t.Helper()
	c := exec.CommandContext(context.WithoutCancel(t.Context()), f.command, command)
	c.Env = f.env
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

func (f *localFleet) mustRun(t *testing.T, command string) (printed string) {
	t.Helper()
	code, printed := f.run(t, command)
	if code != 0 {
		t.Fatalf("fleetctl %s: exit code %d\n%s", command, code, printed)
	}
	return printed
}

func (f *localFleet) read(t *testing.T, name string) string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(f.link, name)))(t)
	return string(content)
}

// dir returns the folder that the link names.
func (f *localFleet) dir(t *testing.T) string {
	t.Helper()
	return must.Get(os.Readlink(f.link))(t)
}

func (f *localFleet) showLogs(t *testing.T) {
	logs, _ := filepath.Glob(filepath.Join(f.link, "*.log"))
	for _, log := range logs {
		content, _ := os.ReadFile(log)
		t.Logf("--- %s\n%s", filepath.Base(log), content[max(0, len(content)-4000):])
	}
}

// pid returns the process that a program of the fleet runs in.
func (f *localFleet) pid(t *testing.T, name string) int {
	t.Helper()
	return must.Get(strconv.Atoi(strings.Fields(f.read(t, name+".pid"))[0]))(t)
}

func (f *localFleet) pids(t *testing.T) map[string]int {
	t.Helper()
	pids := make(map[string]int)
	for _, name := range slices.Concat(nodeNames, []string{"haproxy", "prometheus", "redis", "postgres", "gateway"}) {
		pids[name] = f.pid(t, name)
	}
	return pids
}
