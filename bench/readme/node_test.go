package readme_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// node is a single node in a folder that looks like a fresh clone.
type node struct {
	dir     string
	binary  string
	process *exec.Cmd
	// The ports of the node and its tool server, instead of the defaults.
	api, ops, tools string
}

// newClone makes the folder with what the examples use of a clone: policies,
// alert rules and, as make would leave it, the binary.
func newClone(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{dir: dir, binary: filepath.Join(dir, ".bin", "spendgate")}
	must.Do(t, os.Mkdir(filepath.Dir(n.binary), 0o755))
	build := fleet.BuildCommand(t.Context(), "./cmd/spendgate", n.binary)
	build.Dir = root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build: %v\n%s", err, out)
	}
	for _, used := range []string{"deploy/policies", "deploy/prometheus", "deploy/examples/probe"} {
		must.Do(t, os.CopyFS(filepath.Join(dir, used), os.DirFS(filepath.Join(root(), used))))
	}
	return n
}

// environ returns the environment of the examples and the node, without the
// machine's variables.
func (n *node) environ(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "LC_ALL=C"}, more...)
}

// start does what `make run` does, on free ports.
func (n *node) start(t *testing.T) {
	t.Helper()
	log := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	n.process = exec.Command(n.binary, "dev")
	n.process.Dir = n.dir
	n.process.Env = n.environ("SPENDGATE_LISTEN_ADDR=127.0.0.1:0", "SPENDGATE_OPS_ADDR=127.0.0.1:0")
	n.process.Stderr = log
	must.Do(t, n.process.Start())
	t.Cleanup(func() { n.stop(t) })
	free := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	n.tools = free.Addr().String()
	must.Do(t, free.Close())
	listening := regexp.MustCompile(`msg=listening .*\bapi=(\S+) ops=(\S+)`)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		said, err := os.ReadFile(log.Name())
		must.Do(t, err)
		_, err = os.Stat(filepath.Join(n.dir, ".spendgate", "sample.key")) // is made last
		if found := listening.FindSubmatch(said); found != nil && err == nil {
			n.api, n.ops = string(found[1]), string(found[2])
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the node does not start:\n%s", said)
		}
	}
}

// stop ends the node as Ctrl-C does, which is a clean end.
func (n *node) stop(t *testing.T) {
	_ = n.process.Process.Signal(syscall.SIGINT)
	killer := time.AfterFunc(15*time.Second, func() { _ = n.process.Process.Kill() })
	defer killer.Stop()
	if err := n.process.Wait(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
}

// here replaces the default addresses by the node's.
func (n *node) here(text string) string {
	hosts := `\b(?:localhost|127\.0\.0\.1)`
	text = regexp.MustCompile(hosts+`:8080\b`).ReplaceAllLiteralString(text, n.api)
	text = regexp.MustCompile(hosts+`:9090\b`).ReplaceAllLiteralString(text, n.ops)
	text = regexp.MustCompile(hosts+`:8081\b`).ReplaceAllLiteralString(text, n.tools)
	return strings.ReplaceAll(text, "--listen :8081", "--listen "+n.tools)
}

// command runs the binary with arguments and returns all that it printed.
func (n *node) command(env string, args ...string) string {
	c := exec.Command(n.binary, args...)
	c.Dir, c.Env = n.dir, n.environ(env)
	out, _ := c.CombinedOutput() // usage errors are compared too
	return string(out)
}

// metrics returns the text of /metrics.
func (n *node) metrics(t *testing.T) string {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.ops+"/metrics", nil))(t)
	_, text := do(t, r)
	return text
}

func do(t *testing.T, r *http.Request) (status int, answer string) {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	must.Do(t, err)
	defer response.Body.Close() //nolint:errcheck // only read
	body := must.Get(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(body)
}
