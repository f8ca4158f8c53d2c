package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

var nodeNames = []string{"node1", "node2", "node3"}

// TestFleet uses `make fleet` as users do: sends requests, restarts its nodes
// under load (G11), queries Prometheus, kills processes and starts them again,
// and stops it.
func TestFleet(t *testing.T) {
	t.Parallel() // it mostly waits
	f := startFleet(t)
	t.Run("the first command", f.firstCommand)
	t.Run("roles", f.ownsNothing)
	t.Run("gateway", f.paysThroughGateway)
	f.load(t, func() {
		t.Run("rolling restart", f.rollingRestart)
		t.Run("a restart that fails", f.failedRestart)
		t.Run("prometheus", f.scraped)
		t.Run("what is seldom", f.seldom)
		t.Run("metrics", f.compareMetrics)
		t.Run("dashboard", f.askDashboard)
		t.Run("rules", f.askRules)
	})
	t.Run("parts are killed and come back", f.revived)
	t.Run("down", f.goesDown)
}

// The printed commands can be pasted, and a second start starts nothing twice.
func (f *localFleet) firstCommand(t *testing.T) {
	_, command, found := strings.Cut(f.printed, "\ncurl ")
	command, _, ended := strings.Cut(command, "}}'\n")
	if !found || !ended {
		t.Fatalf("no command to paste in:\n%s", f.printed)
	}
	paste := func() string {
		out, err := exec.CommandContext(t.Context(), "bash", "-c", "curl "+command+"}}'").CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	if first, second := paste(), paste(); !strings.Contains(first, `"decision":"allow"`) ||
		!strings.Contains(second, "duplicate_action_detected") {
		t.Errorf("got first\n%s, then\n%s", first, second)
	}
	for _, url := range append(strings.Fields("api prometheus gateway"), nodeNames...) {
		if !strings.Contains(f.printed, f.urls[url]) {
			t.Errorf("the address of %s is not printed", url)
		}
	}
	before := f.pids(t)
	if again := f.mustRun(t, "up"); again != f.printed {
		t.Errorf("printed at first:\n%s\nand then:\n%s", f.printed, again)
	}
	for name, pid := range f.pids(t) {
		if pid != before[name] {
			t.Errorf("%s was started again", name)
		}
	}
}

// ownsNothing checks that the nodes' role cannot change what was recorded.
func (f *localFleet) ownsNothing(t *testing.T) {
	conn := must.Get(pgx.Connect(t.Context(), strings.TrimSpace(f.read(t, "database.url"))))(t)
	defer conn.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // no query is in flight
	if _, err := conn.Exec(t.Context(), "UPDATE checks SET amount = 0"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("got %v", err)
	}
}

// load sends all kinds of checks through the load balancer while do runs. None
// may fail.
func (f *localFleet) load(t *testing.T, do func()) {
	t.Helper()
	const workers = 6
	var serial, served atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var working sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}, Timeout: 30 * time.Second}
	_, strict, err := f.admin.CreateKey(ctx, "strict", 1)
	must.Do(t, err)
	for worker := range workers {
		_, key, err := f.admin.CreateKey(ctx, fmt.Sprintf("worker-%d", worker), 10000)
		must.Do(t, err)
		c := &fleet.Client{Base: f.urls["api"], Key: key, HTTP: client}
		working.Go(func() {
			for ctx.Err() == nil {
				for _, action := range someActions(serial.Add(1)) {
					answer, err := c.Check(context.WithoutCancel(ctx), action)
					if err != nil || answer.Status != http.StatusOK {
						t.Errorf("a check failed: %s %v", answer, err)
					}
					served.Add(1)
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	working.Go(func() { // requests over the rate limit, and unknown paths
		c := &fleet.Client{Base: f.urls["api"], Key: strict, HTTP: client}
		for ctx.Err() == nil {
			if answer, err := c.Do(context.WithoutCancel(ctx), http.MethodGet, "/v1/violations", nil); err != nil || answer.Status >= 500 {
				t.Errorf("a request failed: %s %v", answer, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	do()
	cancel()
	working.Wait()
	t.Logf("%d checks", served.Load())
}

// someActions returns an action that passes, its retries with its key and
// without, one that is blocked, and one that is escalated.
func someActions(serial int64) []fleet.Action {
	refund := func(amount string) fleet.Action {
		return fleet.Action{
			AgentID: "agent", PolicyID: "refund-desk", ActionType: "refund", Amount: json.Number(amount), Currency: "USD",
			Counterparty: fmt.Sprintf("customer-%d", serial), Metadata: map[string]any{"days_since_purchase": 1},
		}
	}
	once := refund("20")
	once.IdempotencyKey = fmt.Sprintf("order-%d", serial)
	again := refund("20")
	return []fleet.Action{once, once, again, refund("600"), refund("300")}
}

// G11: the nodes are restarted one after the other, and no request fails.
func (f *localFleet) rollingRestart(t *testing.T) {
	before := f.pids(t)
	f.mustRun(t, "restart")
	for name, pid := range f.pids(t) {
		if restarted := pid != before[name]; restarted != (name == "gateway" || slices.Contains(nodeNames, name)) {
			t.Errorf("%s: restarted %v", name, restarted)
		}
	}
}

// fakeBinary returns a program that migrates like the binary and runs a shell
// command instead of a node.
func fakeBinary(t *testing.T, binary, does string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node")
	must.Do(t, os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\n[ \"$1\" != migrate ] || exec %s migrate\n%s\n", binary, does),
		0o700))
	return path
}

// failedRestart: a version that does not start takes the first node's place
// and no other's, and no request fails. The next start repairs it.
func (f *localFleet) failedRestart(t *testing.T) {
	before, env := f.pids(t), f.env
	f.env = append(slices.Clone(env), "FLEET_BINARY="+fakeBinary(t, f.binary, "exit 1"))
	code, said := f.run(t, "restart")
	f.env = env
	if code != 1 || !strings.Contains(said, "node1 does not get ready") || !strings.Contains(said, "node1.log") {
		t.Errorf("exit code %d: %s", code, said)
	}
	f.mustRun(t, "up")
	for name, pid := range f.pids(t) {
		if started := pid != before[name]; started != (name == "node1") {
			t.Errorf("%s: started again %v", name, started)
		}
	}
}

// revived kills four parts at once: the same command starts them again, with
// the same data, and the rest goes on.
func (f *localFleet) revived(t *testing.T) {
	before := f.pids(t)
	killed := []string{"node2", "redis", "postgres", "gateway"}
	for _, name := range killed {
		process, err := os.FindProcess(before[name])
		if err == nil {
			err = process.Kill()
		}
		must.Do(t, err)
	}
	for _, name := range killed {
		for { // a signal may take its time
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", before[name]))
			if err != nil || bytes.Contains(stat, []byte(") Z ")) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	if again := f.mustRun(t, "up"); again != f.printed {
		t.Errorf("printed at first:\n%s\nand then:\n%s", f.printed, again)
	}
	for name, pid := range f.pids(t) {
		if started := pid != before[name]; started != slices.Contains(killed, name) {
			t.Errorf("%s: started again %v", name, started)
		}
	}
	answer, err := f.admin.Do(t.Context(), http.MethodGet, "/v1/keys", nil)
	if err != nil || !bytes.Contains(answer.Body, []byte(`"worker-0"`)) {
		t.Errorf("the keys are gone: %s %v", answer, err)
	}
}

// goesDown checks that down leaves only logs.
func (f *localFleet) goesDown(t *testing.T) {
	pids := f.pids(t)
	said := f.mustRun(t, "down")
	if !strings.Contains(said, f.dir(t)) {
		t.Errorf("it does not say where the logs are: %s", said)
	}
	for name, url := range f.urls {
		address := strings.TrimPrefix(url, "http://")
		if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
			_ = conn.Close()
			t.Errorf("%s still listens on %s", name, address)
		}
	}
	if logs := f.leavesLogsOnly(t, pids); logs < 8 {
		t.Errorf("%d logs were kept", logs)
	}
	if said := f.mustRun(t, "down"); said != "there is no fleet\n" {
		t.Errorf("a second down says %q", said)
	}
	if code, said := f.run(t, "restart"); code != 1 || !strings.Contains(said, "make fleet") {
		t.Errorf("a restart of no fleet: %d %s", code, said)
	}
}

// leavesLogsOnly fails unless the processes are gone and only logs are left. It
// returns how many.
func (f *localFleet) leavesLogsOnly(t *testing.T, pids map[string]int) (logs int) {
	t.Helper()
	for name, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !bytes.Contains(stat, []byte(") Z ")) {
			t.Errorf("%s still runs: %s", name, stat)
		}
	}
	entries := must.Get(os.ReadDir(f.dir(t)))(t)
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".log" {
			t.Errorf("%s was left", entry.Name())
		}
		logs++
	}
	return logs
}

// A first start that is interrupted, by Ctrl-C say, leaves nothing behind.
func TestFleetInterrupted(t *testing.T) {
	needsFleet(t)
	f := newLocalFleet(t, "never")
	binary := must.Get(fleet.Build(t.Context(), filepath.Dir(f.link), fleet.BuildOptions{}))(t)
	f.env = append(f.env, "FLEET_BINARY="+fakeBinary(t, binary, "exec sleep 600"))
	f.downAfterwards(t)
	var said bytes.Buffer
	c := exec.Command(f.command, "up")
	c.Env, c.Stdout, c.Stderr = f.env, &said, &said
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal signals the group
	must.Do(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for started := false; !started; {
		select {
		case err := <-ended:
			t.Fatalf("it ended before it was interrupted: %v\n%s", err, said.String())
		case <-time.After(10 * time.Millisecond):
			line, err := os.ReadFile(filepath.Join(f.link, "node3.pid"))
			started = err == nil && bytes.HasSuffix(line, []byte("\n"))
		}
	}
	pids := make(map[string]int)
	for _, name := range slices.Concat(nodeNames, []string{"redis", "postgres"}) {
		pids[name] = f.pid(t, name)
	}
	must.Do(t, syscall.Kill(-c.Process.Pid, syscall.SIGINT))
	<-ended //nolint:errcheck // its exit code is checked
	if code := c.ProcessState.ExitCode(); code != 130 || !strings.Contains(said.String(), "stopped; logs are in") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
	f.leavesLogsOnly(t, pids)
}

// A port that is taken is reported, and nothing is left.
func TestFleetWithoutItsPort(t *testing.T) {
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close() //nolint:errcheck // it is unused
	_, port, _ := net.SplitHostPort(l.Addr().String())
	f := newLocalFleet(t, "/bin/true", "API_PORT="+port, "TEST_HAPROXY=/bin/true", "TEST_PROMETHEUS=/bin/true")
	if code, said := f.run(t, "up"); code != 1 || !strings.Contains(said, "port "+port+" is taken") {
		t.Errorf("exit code %d: %s", code, said)
	}
	f.env = append(f.env, "FLEET_BINARY=/none")
	if code, said := f.run(t, "up"); code != 1 || !strings.Contains(said, "make build") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if _, err := os.Lstat(f.link); err == nil {
		t.Error("a folder was made")
	}
}

// make clean removes the state by which a fleet is found, so it stops it first.
func TestCleanStopsTheFleet(t *testing.T) {
	makefile := must.Get(filepath.Abs("../Makefile"))(t)
	dir := t.TempDir()
	for name, content := range map[string]string{
		".bin/fleetctl":         "#!/bin/sh\necho $1 of $(cat .bin/fleet/fleet.json) >said\n",
		".bin/fleet/fleet.json": "a fleet",
	} {
		path := filepath.Join(dir, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o700)))
	}
	for _, want := range []string{"down of a fleet\n", ""} { // the second time there is no fleet
		c := exec.CommandContext(t.Context(), "make", "-f", makefile, "clean")
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		said, _ := os.ReadFile(filepath.Join(dir, "said"))
		if string(said) != want {
			t.Errorf("said %q, want %q", said, want)
		}
		if _, err := os.Stat(filepath.Join(dir, ".bin")); err == nil {
			t.Error(".bin is there")
		}
		_ = os.Remove(filepath.Join(dir, "said"))
	}
}

// Without packages, and without the right to install them, the script says what is missing.
func TestFleetWithoutPackages(t *testing.T) {
	f := newLocalFleet(t, "/bin/true", "PATH="+t.TempDir(), "TEST_REDIS_SERVER=/none", "TEST_HAPROXY=/none", "TEST_PROMETHEUS=/none",
		"TEST_POSTGRES_BIN=/none")
	code, said := f.run(t, "up")
	if want := "missing: redis-server postgresql haproxy prometheus. Install"; code != 1 || !strings.Contains(said, want) {
		t.Errorf("exit code %d, no %s in: %s", code, want, said)
	}
}
