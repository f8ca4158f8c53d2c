package deploy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Each request goes to the cell that it names and to no other, also while that cell is down.
func TestCells(t *testing.T) {
	program, err := exec.LookPath("haproxy")
	if err != nil {
		if program = "/usr/sbin/haproxy"; os.Getenv("TEST_HAPROXY") != "" {
			program = os.Getenv("TEST_HAPROXY")
		}
		if _, err := os.Stat(program); err != nil {
			t.Skip("needs HAProxy")
		}
	}
	cell := func(name string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
	}
	a, b := cell("a"), cell("b")
	defer b.Close()
	inherited, addrs := listeners(t, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	c := exec.CommandContext(ctx, program, "-db", "-f", "haproxy/cells.cfg")
	c.Env = append(os.Environ(), "BIND=fd@3", "CELL_A="+a.Listener.Addr().String(), "CELL_B="+b.Listener.Addr().String())
	c.ExtraFiles = inherited
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = c.Wait() })
	ask := func(cells ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addrs[0]+"/v1/checks", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header["Spendgate-Cell"] = cells
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close() //nolint:errcheck // only read
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body)
	}
	for _, name := range []string{"a", "b", "a"} {
		if status, body := ask(name); status != http.StatusOK || body != name {
			t.Errorf("cell %s answers %d %s", name, status, body)
		}
	}
	for _, cells := range [][]string{nil, {"c"}, {""}, {"a", "b"}, {"a,b"}} {
		if status, body := ask(cells...); status != http.StatusBadRequest || !strings.Contains(body, `"code":"bad_request"`) {
			t.Errorf("%q is answered %d %s", cells, status, body)
		}
	}
	a.Close()
	if status, body := ask("a"); status != http.StatusServiceUnavailable || body == "b" {
		t.Errorf("a cell that is down answers %d %s", status, body)
	}
	if status, body := ask("b"); status != http.StatusOK || body != "b" {
		t.Errorf("beside a cell that is down: %d %s", status, body)
	}
}
