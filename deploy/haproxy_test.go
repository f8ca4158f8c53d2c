package deploy_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spendgate/bench/must"
)

// haproxy starts the load balancer of deploy/haproxy before three nodes, with TLS as its
// example has it. It returns the addresses of the API and of the stats.
func haproxy(t *testing.T, nodes [3]string) (api, stats string) {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		if program = "/usr/sbin/haproxy"; os.Getenv("TEST_HAPROXY") != "" {
			program = os.Getenv("TEST_HAPROXY")
		}
		if _, err := os.Stat(program); err != nil {
			t.Skip("needs HAProxy")
		}
	}
	dir := t.TempDir()
	pair := filepath.Join(dir, "spendgate.pem")
	script := `openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 2 -subj /CN=localhost && cat cert key > "$0"`
	issue := exec.CommandContext(t.Context(), "sh", "-c", script, pair)
	issue.Dir = dir
	if out, err := issue.CombinedOutput(); err != nil {
		t.Skipf("needs openssl: %v %s", err, out)
	}
	inherited, addrs := listeners(t, 2) // a port that is only free now may be taken when it starts
	api, stats = addrs[0], addrs[1]
	// The example of the file's head, with another address and file.
	_, bind, _ := strings.Cut(readFile(t, "deploy/haproxy/haproxy.cfg"), "#   BIND=:443 ")
	bind, _, _ = strings.Cut(bind, "\n")
	bind = "fd@3 " + strings.ReplaceAll(bind, "/etc/haproxy/spendgate.pem", pair)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	c := exec.CommandContext(ctx, program, "-db", "-f", "haproxy/haproxy.cfg")
	c.Env, c.ExtraFiles = append(os.Environ(), "BIND="+bind, "STATS=fd@4"), inherited
	for i, node := range nodes {
		_, ops, _ := net.SplitHostPort(node)
		c.Env = append(c.Env, fmt.Sprintf("NODE%d=%s", i+1, node), fmt.Sprintf("NODE%d_OPS=%s", i+1, ops))
	}
	var log strings.Builder
	c.Stdout, c.Stderr = &log, &log
	must.Do(t, c.Start())
	t.Cleanup(func() {
		stop()
		_ = c.Wait()
		if strings.Contains(log.String(), "[WARNING]  (") && strings.Contains(log.String(), "parsing") {
			t.Errorf("the configuration has warnings:\n%s", &log)
		}
		if t.Failed() {
			t.Log(&log)
		}
	})
	return api, stats
}

// listeners returns listening sockets on loopback, and their addresses.
func listeners(t *testing.T, n int) (files []*os.File, addrs []string) {
	t.Helper()
	for range n {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		file := must.Get(l.(*net.TCPListener).File())(t)
		t.Cleanup(func() { _ = file.Close() })
		files, addrs = append(files, file), append(addrs, l.Addr().String())
		_ = l.Close() // the file stays
	}
	return files, addrs
}

// A request that a node took and did not answer is sent again only if it reads:
// the node may have recorded it.
func TestBalancerRepeatsOnlyReads(t *testing.T) {
	var posts, gets atomic.Int32
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count := &gets
		switch {
		case r.URL.Path != "/v1/checks":
			return // a probe
		case r.Method == http.MethodPost:
			count = &posts
		}
		if count.Add(1) == 1 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close() // it died
			}
		}
	}))
	defer node.Close()
	addr := node.Listener.Addr().String()
	api, stats := haproxy(t, [3]string{addr, addr, addr})
	ask := asker(t, api)
	if code, _ := ask(http.MethodGet, "https://"+api+"/v1/checks"); code != http.StatusOK || gets.Load() != 2 {
		t.Errorf("a GET is answered %d after %d tries", code, gets.Load())
	}
	if code, _ := ask(http.MethodPost, "https://"+api+"/v1/checks"); code == http.StatusOK || posts.Load() != 1 {
		t.Errorf("a POST is answered %d after %d tries", code, posts.Load())
	}
	_, metrics := ask(http.MethodGet, "http://"+stats+"/metrics")
	hasSelected(t, metrics)
	if !strings.Contains(readFile(t, "deploy/haproxy/haproxy.cfg"), "bind \"${STATS-127.0.0.1:8404}\"\n") {
		t.Error("the statistics are not on loopback")
	}
}

// asker returns what sends a request, once the balancer is ready. A code of 0 is no answer.
func asker(t *testing.T, api string) func(method, url string) (code int, body string) {
	t.Helper()
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, //nolint:gosec // its own certificate
	}}
	ask := func(method, url string) (int, string) {
		// A body that the client cannot send again by itself.
		request, err := http.NewRequestWithContext(t.Context(), method, url, io.NopCloser(strings.NewReader("{}")))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close() //nolint:errcheck // read to its end
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	for i := 0; ; i++ {
		code, text := ask(http.MethodGet, "https://"+api+"/health")
		if code == http.StatusOK {
			return ask
		}
		if i == 200 {
			t.Fatalf("does not get ready: %d %s", code, text)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// stubNode answers what a node would. A check waits until it is told to end.
type stubNode struct {
	*httptest.Server
	draining, hangs atomic.Bool
	asked           chan *stubNode // gets the node of each check
	end             chan struct{}
}

func newStubNode(t *testing.T, asked chan *stubNode) *stubNode {
	n := &stubNode{asked: asked, end: make(chan struct{})}
	// Set before it serves: handlers read it.
	n.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			n.asked <- n
			<-n.end
		case n.hangs.Load():
			<-n.end
		case n.draining.Load() && r.URL.Path == "/readyz" && r.URL.Query().Get("unready") == "404":
			w.WriteHeader(http.StatusNotFound)
		case n.draining.Load() && r.URL.Path == "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, n.URL)
	}))
	n.Start()
	t.Cleanup(n.Close)
	return n
}

// A node that drains finishes the check that it has. What waits for a node that hangs ends
// when probes get no answer, well before a check that takes long would.
func TestBalancerGivesUpNodesThatHang(t *testing.T) {
	asked := make(chan *stubNode, 1)
	a, b := newStubNode(t, asked), newStubNode(t, asked)
	api, _ := haproxy(t, [3]string{a.Listener.Addr().String(), b.Listener.Addr().String(), b.Listener.Addr().String()})
	ask := asker(t, api)
	check := func() (on *stubNode, answer chan int) {
		answer = make(chan int, 1)
		go func() {
			code, _ := ask(http.MethodPost, "https://"+api+"/v1/checks")
			answer <- code
		}()
		return <-asked, answer
	}
	leaves := func(on *stubNode) {
		t.Helper()
		for passed := 0; passed < 10; {
			if _, text := ask(http.MethodGet, "https://"+api+"/v1/checks"); text == on.URL {
				passed = 0
			} else {
				passed++
			}
		}
	}
	on, answer := check()
	on.draining.Store(true)
	leaves(on)
	close(on.end)
	if code := <-answer; code != http.StatusOK {
		t.Errorf("the check of a node that drains ends with %d", code)
	}
	on, answer = check()
	on.hangs.Store(true)
	defer close(on.end)
	if code := <-answer; code == http.StatusOK || code == http.StatusGatewayTimeout { // which ends a check that takes too long
		t.Errorf("the check of a node that hangs ends with %d", code)
	}
}

// hasSelected checks that HAProxy has the series that its alerts select.
func hasSelected(t *testing.T, metrics string) {
	t.Helper()
	selected := make(map[string]bool)
	for _, r := range rules(t, dependencyRules) {
		for _, found := range regexp.MustCompile(`(haproxy_\w+)\{job="spendgate-haproxy", ([^}]*)\}`).FindAllStringSubmatch(r.Expr, -1) {
			form := "(?m)^" + found[1] + `\{`
			for label := range strings.SplitSeq(found[2], ", ") {
				form += `[^}]*\b` + regexp.QuoteMeta(label)
			}
			selected[found[0]] = regexp.MustCompile(form).MatchString(metrics)
		}
	}
	for selector, found := range selected {
		if !found {
			t.Errorf("HAProxy has no %s:\n%.3000s", selector, metrics)
		}
	}
	if len(selected) == 0 {
		t.Error("no alert selects a metric of HAProxy")
	}
}
