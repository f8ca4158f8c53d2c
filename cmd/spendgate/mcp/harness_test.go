package mcp

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spendgate/bench/must"
	"spendgate/hotpath/client"
)

const (
	secret  = "svc_live_0123456789abcdef0123456789abcdef"
	allowed = `{"check_id":"chk_1","decision":"allow","confidence":"high","reason_code":null,"message":"fine","violated_rule_id":null,` +
		`"violated_rule_description":null,"policy_version":3,"next_step":"Proceed.","latency_ms":1,"timestamp":"2026-01-02T03:04:05.600Z"}`
	arguments = `{"agent_id":"a","policy_id":"p","action_type":"refund","amount":%s,"currency":"USD","counterparty":"c"}`
)

// service stands in for the API: it records requests and sends the given answers
// in order, the last one repeatedly.
type service struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // method, URI, key and body
	traces   []string // traceparent and tracestate
	answers  []string // status, a space, headers and an empty line if there are any, the body; "lost" closes the connection
}

func serve(t *testing.T, answers ...string) *service {
	t.Helper()
	s := &service{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		line := []string{r.Method, r.URL.RequestURI(), r.Header.Get("X-API-Key")}
		if condition := r.Header.Get("If-Match"); condition != "" {
			line = append(line, "If-Match: "+condition)
		}
		s.requests = append(s.requests, strings.Join(append(line, string(body)), " "))
		s.traces = append(s.traces, r.Header.Get("traceparent")+" "+r.Header.Get("tracestate"))
		answer := s.answers[0]
		if len(s.answers) > 1 {
			s.answers = s.answers[1:]
		}
		s.mu.Unlock()
		status, text, _ := strings.Cut(answer, " ")
		if status == "lost" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Request-Id", "req_1")
		if headers, body, found := strings.Cut(text, "\n\n"); found {
			text = body
			for line := range strings.Lines(headers) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				w.Header().Set(name, value)
			}
		}
		if status == "429" {
			w.Header().Set("Retry-After", "17")
		}
		w.WriteHeader(map[string]int{"200": 200, "201": 201, "401": 401, "403": 403, "404": 404, "422": 422, "429": 429, "500": 500}[status])
		io.WriteString(w, text) //nolint:errcheck // the client would notice
	}))
	t.Cleanup(s.Close)
	return s
}

// keys returns the idempotency keys of the requests, in order.
func (s *service) keys(t *testing.T) []string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for _, request := range s.requests {
		var body struct {
			Key string `json:"idempotency_key"`
		}
		_, text, _ := strings.Cut(request, "{")
		if err := json.Unmarshal([]byte("{"+text), &body); err != nil || body.Key == "" {
			t.Fatalf("no key in %s: %v", request, err)
		}
		keys = append(keys, body.Key)
	}
	return keys
}

// newServer returns a tool server of the service; change may alter its options.
func newServer(t *testing.T, s *service, log io.Writer, change func(*Options)) *Server {
	t.Helper()
	c := must.Get(client.New(client.Options{BaseURL: s.URL, APIKey: secret, Attempts: 1, MaxWait: time.Second}))(t)
	o := Options{Client: c, HasKey: true, PolicyWrites: true, Version: "1", Logger: slog.New(slog.NewTextHandler(log, nil))}
	if change != nil {
		change(&o)
	}
	return New(o)
}

// connect returns a session of the SDK's own client with the server.
func connect(t *testing.T, s *Server) *sdk.ClientSession {
	t.Helper()
	clientEnd, serverEnd := sdk.NewInMemoryTransports()
	must.Get(s.mcp.Connect(t.Context(), serverEnd, nil))(t)
	return dial(t, clientEnd)
}

func dial(t *testing.T, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	session := must.Get(sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil))(t)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// called is a tool's answer.
type called struct {
	text       string
	structured string // as the SDK's client reads it: numbers are floats
	isError    bool
}

func callTool(t *testing.T, session *sdk.ClientSession, tool, arguments string) called {
	t.Helper()
	r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	structured := must.Get(json.Marshal(r.StructuredContent))(t)
	var texts []string
	for _, c := range r.Content {
		texts = append(texts, c.(*sdk.TextContent).Text)
	}
	return called{strings.Join(texts, "\n"), string(structured), r.IsError}
}

func (c called) check(t *testing.T, isError bool, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(c.text, want) {
			t.Errorf("no %q in: %s", want, c.text)
		}
	}
	if c.isError != isError || isError != (c.structured == "null") {
		t.Errorf("isError %v, structured %s: %s", c.isError, c.structured, c.text)
	}
}
