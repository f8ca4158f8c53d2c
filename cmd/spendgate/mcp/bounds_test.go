package mcp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

// batchOf returns a batch of n requests that have the largest answers.
func batchOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i)
	}
	return "[" + b.String()[1:] + "]"
}

// Batches are refused, even those of protocol versions that allow batches and those that fit in a
// body. The next message is answered.
func TestBatchesAreRefused(t *testing.T) {
	s := newServer(t, serve(t, "200 "+allowed), io.Discard, nil)
	handler := s.Handler("")
	for _, body := range []string{batchOf(1), batchOf(30_000), batchOf(100_000), " \t\r\n" + batchOf(2), "[]", "["} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || w.Body.Len() > 1000 ||
			!strings.Contains(w.Body.String(), `"code":-32600,"message":"batches are not accepted`) {
			t.Errorf("%.60s: %d %.200s", body, w.Code, w.Body)
		}
	}
	for body, code := range map[string]string{batchOf(1): "-32600", batchOf(30_000): "-32600", batchOf(100_000): "-32700", " \v" +
		batchOf(2): "-32600", "[]": "-32600"} {
		var out bytes.Buffer
		err := s.ServeStdio(t.Context(), strings.NewReader(body+"\n"+opening+`{"jsonrpc":"2.0","id":"last","method":"ping"}`), &out)
		if err != nil || out.Len() > 10_000 || !strings.Contains(out.String(), `"code":`+code) ||
			!strings.Contains(out.String(), `"id":"last","result":{}`) {
			t.Errorf("%.60s: %v, %d bytes: %.500s", body, err, out.Len(), out.String())
		}
	}
}

// blockedService is a service that answers no request until it is released.
type blockedService struct {
	*httptest.Server
	arrived chan struct{}
	letGo   chan struct{}
	open    func() // closes letGo
}

func newBlockedService(t *testing.T) *blockedService {
	t.Helper()
	c := &blockedService{arrived: make(chan struct{}, 10*maxInFlight), letGo: make(chan struct{})}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.arrived <- struct{}{}
		<-c.letGo
		w.Header().Set("X-Request-Id", "req_1")
		io.WriteString(w, allowed) //nolint:errcheck // the client would notice
	}))
	c.open = sync.OnceFunc(func() { close(c.letGo) })
	t.Cleanup(func() {
		c.open()
		c.Close()
	})
	return c
}

func (c *blockedService) server(t *testing.T) *Server {
	t.Helper()
	return newServer(t, &service{Server: c.Server}, io.Discard, func(o *Options) {
		api := must.Get(client.New(client.Options{BaseURL: c.URL, APIKey: secret, Attempts: 1}))(t)
		o.Client = api
	})
}

func checkCall(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"check_financial_action","arguments":%s}}`,
		id, fmt.Sprintf(arguments, fmt.Sprint(id)))
}

// Over HTTP a request beyond the bound is refused at once. Another one is accepted after an answer.
func TestHTTPRequestsInFlightAreBounded(t *testing.T) {
	c := newBlockedService(t)
	server := httptest.NewServer(c.server(t).Handler(""))
	defer server.Close()
	post := func(id int) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+Path, strings.NewReader(checkCall(id)))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer response.Body.Close() //nolint:errcheck // only read
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body) + response.Header.Get("Retry-After")
	}
	var all sync.WaitGroup
	for i := range maxInFlight {
		all.Go(func() {
			if status, body := post(i); status != http.StatusOK || !strings.Contains(body, "Decision: allow.") {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	for range maxInFlight {
		<-c.arrived
	}
	if status, body := post(maxInFlight); status != http.StatusServiceUnavailable || !strings.HasSuffix(body, "try again\n1") {
		t.Errorf("past the bound: %d %s", status, body)
	}
	c.open()
	all.Wait()
	if status, body := post(maxInFlight); status != http.StatusOK {
		t.Errorf("afterwards: %d %s", status, body)
	}
}

// Over standard streams, requests beyond the bound are not read until there is capacity, and all
// are answered.
func TestStdioRequestsInFlightAreBounded(t *testing.T) {
	c := newBlockedService(t)
	const calls = 3 * maxInFlight
	in, client := io.Pipe()
	var out bytes.Buffer
	served := make(chan error, 1)
	go func() { served <- c.server(t).ServeStdio(t.Context(), in, &out) }()
	io.WriteString(client, opening) //nolint:errcheck // of a pipe
	written := make(chan struct{})
	go func() {
		for i := range calls {
			io.WriteString(client, checkCall(i+10)+"\n") //nolint:errcheck // of a pipe
		}
		client.Close() //nolint:errcheck // of a pipe
		close(written)
	}()
	for range maxInFlight {
		<-c.arrived
	}
	// A call beyond the bound would arrive while the present ones are answered one by one, so count
	// the arrived calls after each answer.
	for i := range calls - maxInFlight {
		if len(c.arrived) > 0 {
			t.Fatalf("%d calls more than the bound are in flight when %d were answered", len(c.arrived), i)
		}
		c.letGo <- struct{}{}
		<-c.arrived
	}
	<-written
	c.open()
	if err := <-served; err != nil || strings.Count(out.String(), "Decision: allow.") < calls {
		t.Errorf("%v, %d answers", err, strings.Count(out.String(), "Decision: allow."))
	}
}

// An answer larger than the service's maximum is an error and is not passed on.
func TestAnswersAreBounded(t *testing.T) {
	s := newServer(t, serve(t, `200 {"data":[],"pagination":{"next_cursor":"`+strings.Repeat("x", 9<<20)+
		`","has_more":true,"total_count":1}}`), io.Discard, nil)
	answer := callTool(t, connect(t, s), listViolations, "{}")
	answer.check(t, true, "")
	if len(answer.text) > 1000 {
		t.Errorf("%d bytes", len(answer.text))
	}
}
