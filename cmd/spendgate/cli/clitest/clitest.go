// Package clitest runs commands in tests, against a stand-in for a node.
package clitest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"spendgate/cmd/spendgate/cli"
)

// Node is a stand-in for a running node: it records requests and sends the
// given answers in order.
type Node struct {
	*httptest.Server
	root     cli.Command
	Requests []string // method, path, key and body
	answers  []string // status, a space and the body
}

// NewNode starts a fakeNode for the commands of root.
func NewNode(t *testing.T, root cli.Command, answers ...string) *Node {
	t.Helper()
	n := &Node{root: root, answers: answers}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if len(body) > 0 && r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("Content-Type %q", r.Header.Get("Content-Type"))
		}
		if version := r.Header.Get("If-Match"); version != "" {
			body = append(body, " if "+version...)
		}
		n.Requests = append(n.Requests, strings.Join([]string{
			r.Method, r.URL.RequestURI(), r.Header.Get("X-Admin-Key") + r.Header.Get("X-API-Key"), string(body),
		}, " "))
		if len(n.answers) == 0 {
			t.Errorf("unexpected request %s %s", r.Method, r.URL)
			return
		}
		status, answer, _ := strings.Cut(n.answers[0], " ")
		if status != "502" { // which is asked again
			n.answers = n.answers[1:]
		}
		code, _ := strconv.Atoi(status)
		if code == 429 {
			w.Header().Set("Retry-After", "17")
		}
		if code == 302 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(code)
		io.WriteString(w, answer) //nolint:errcheck // the client would notice
	}))
	t.Cleanup(n.Close)
	return n
}

// Result is the outcome of one run of the program.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs a command line against the node.
func (n *Node) Run(t *testing.T, stdin string, args ...string) Result {
	t.Helper()
	environ := []string{"SPENDGATE_API_URL=" + n.URL + "/", "SPENDGATE_ADMIN_KEY=admin,old", "SPENDGATE_API_KEY=svc"}
	return Run(t, n.root, environ, stdin, args...)
}

// Run runs a command line in an environment.
func Run(t *testing.T, root cli.Command, environ []string, stdin string, args ...string) Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := cli.Process{Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Environ: environ, Version: "dev"}
	code := cli.Run(t.Context(), root, p, args)
	return Result{code, stdout.String(), stderr.String()}
}

// Check compares the outcome.
func (r Result) Check(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.Code != code || !strings.Contains(r.Stdout, stdout) || !strings.Contains(r.Stderr, stderr) {
		t.Errorf("exit %d\nstdout: %s\nstderr: %s", r.Code, r.Stdout, r.Stderr)
	}
	if code != 0 && r.Stdout != "" {
		t.Errorf("failed and printed %s", r.Stdout)
	}
	if code == 0 && r.Stderr != "" {
		t.Errorf("succeeded and wrote to stderr %s", r.Stderr)
	}
}

// Check compares the requests that the node got.
func (n *Node) Check(t *testing.T, requests ...string) {
	t.Helper()
	if got, want := strings.Join(n.Requests, "\n"), strings.Join(requests, "\n"); got != want {
		t.Errorf("requests\n%s\nwant\n%s", got, want)
	}
}

// Has looks for texts in what was printed.
func (r Result) Has(t *testing.T, code int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if r.Code != code || !strings.Contains(r.Stdout+r.Stderr, text) {
			t.Errorf("exit %d, without %q\nstdout: %s\nstderr: %s", r.Code, text, r.Stdout, r.Stderr)
		}
	}
}

// Log is a log that is read while it is written to.
type Log struct {
	mu sync.Mutex
	bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

// Find returns what the form matches in the log, nil if nothing.
func (l *Log) Find(form string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return regexp.MustCompile(form).FindStringSubmatch(l.String())
}
