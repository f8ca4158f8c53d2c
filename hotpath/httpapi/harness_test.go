package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/bench/must"
	"spendgate/hotpath/httpapi/apitest"
)

const (
	goodKey  = "svc_live_0123456789abcdef0123456789abcdef"
	adminKey = "admin-secret"
)

// served is an API on a port of its own.
type served struct {
	t       *testing.T
	api     *API
	fake    *fake
	store   *fakeStore
	address string
	logged  *lockedBuffer
	metrics *prometheus.Registry
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start serves an API over fakes; change may alter its options.
func start(t *testing.T, change func(*Options)) *served {
	t.Helper()
	s := &served{t: t, fake: newFake(), store: new(fakeStore), logged: new(lockedBuffer), metrics: prometheus.NewRegistry()}
	o := Options{
		Authorizer: s.fake, Store: s.store, AdminKeys: []string{adminKey, "second"}, Version: "1.2.3",
		Logger:     slog.New(slog.NewTextHandler(s.logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: s.metrics,
	}
	if change != nil {
		change(&o)
	}
	s.api = New(o)
	s.address = serveOn(t, s.api)
	return s
}

func serveOn(t *testing.T, a *API) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan error, 1)
	go func() { done <- a.Serve(l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		must.Check(t, a.Shutdown(ctx))
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request with the good key; headers are "Name: value", a value of
// "-" takes the header away.
func (s *served) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	return doAt(s.t, s.address, method, path, body, headers...)
}

// doAt sends a request to the API and holds the answer to its document.
func doAt(t *testing.T, address, method, path, body string, headers ...string) answer {
	t.Helper()
	a := sendAt(t, address, method, path, body, headers...)
	doc := must.Get(document())(t)
	must.Check(t, doc.CheckResponse(method, path, apitest.Response{Status: a.status, Header: a.header, Body: []byte(a.body)}))
	return a
}

func sendAt(t *testing.T, address, method, path, body string, headers ...string) answer {
	t.Helper()
	r := must.Get(http.NewRequest(method, "http://"+address+path, strings.NewReader(body)))(t)
	r.Header.Set("X-API-Key", goodKey)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if value == "-" {
			r.Header.Del(name)
		} else {
			r.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text := must.Get(io.ReadAll(response.Body))(t)
	return answer{response.StatusCode, response.Header, string(text)}
}

// document is openapi.yaml, to which every answer that doAt gets is held.
var document = sync.OnceValues(func() (*apitest.Document, error) { return apitest.Load(openAPI) })

// is fails the test unless the answer has the status and, in its body, all parts.
func (a answer) is(t *testing.T, what string, status int, parts ...string) {
	t.Helper()
	if a.status != status || slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(a.body, part) }) {
		t.Errorf("%s: %d %s, want %d with %q", what, a.status, a.body, status, parts)
	}
}

// code is the error code of an answer, after a look at its shape.
func (a answer) code(t *testing.T) string {
	t.Helper()
	var e struct {
		Error struct {
			Code, Message, Timestamp string
			RequestID                string `json:"request_id"`
		}
	}
	if err := json.Unmarshal([]byte(a.body), &e); err != nil {
		t.Fatalf("%q: %v", a.body, err)
	}
	if e.Error.Message == "" || e.Error.RequestID != a.header.Get("X-Request-ID") || e.Error.Timestamp == "" {
		t.Errorf("error shape: %s with %v", a.body, a.header)
	}
	return e.Error.Code
}
