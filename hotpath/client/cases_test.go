package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/bench/must"
)

// caseFile is the file of conformance cases for the clients in all languages, which
// docs/clients/conformance.md describes.
type caseFile struct {
	APIKey   string                    `json:"api_key"`
	AdminKey string                    `json:"admin_key"`
	Action   map[string]any            `json:"action"`
	Bodies   map[string]map[string]any `json:"bodies"`
	Cases    []conformanceCase         `json:"cases"`
}

type conformanceCase struct {
	Name, Call string
	With       map[string]any
	Options    map[string]any
	Exchanges  []exchange
	Waits      *[][2]float64
	Returns    any
	Raises     map[string]any
}

type exchange struct {
	Expect *struct {
		Method, Path   string
		Query, Headers map[string]*string
		Body           any
		Contains       []string
	}
	Status  int
	Headers [][2]string
	Body    any
	Change  map[string]any
	Text    *string
	Cut     int
	Fail    string
	Times   int
	Bare    bool
}

// ofOthers are the calls that only the clients in other languages have.
var ofOthers = []string{"verify_webhook", "guard"}

func TestConformanceCases(t *testing.T) {
	text := must.Get(os.ReadFile("../../deploy/clients/cases.json"))(t)
	var file caseFile
	numbers(t, text, &file)
	names := make(map[string]bool)
	for _, c := range file.Cases {
		if names[c.Name] || c.Returns == nil && c.Raises == nil && c.Call != "guard" {
			t.Errorf("%s: stands twice or expects nothing", c.Name)
		}
		names[c.Name] = true
		if slices.Contains(ofOthers, c.Call) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			playCase(t, file, c)
		})
	}
}

// numbers decodes JSON and keeps numbers as they are written.
func numbers(t *testing.T, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in %.1000s", err, text)
	}
}

// onWire turns every amount into a number; the file has amounts as text.
func onWire(v any) any {
	switch v := v.(type) {
	case map[string]any:
		wire := make(map[string]any, len(v))
		for name, member := range v {
			if text, ok := member.(string); ok && name == "amount" {
				member = json.Number(text)
			}
			wire[name] = onWire(member)
		}
		return wire
	case []any:
		wire := make([]any, len(v))
		for i, element := range v {
			wire[i] = onWire(element)
		}
		return wire
	}
	return v
}

func playCase(t *testing.T, file caseFile, c conformanceCase) {
	with := make(map[string]any)
	if c.Call == "check" {
		maps.Copy(with, file.Action)
	}
	maps.Copy(with, c.With)
	s := &scripted{t: t, file: file, gaveUp: make(chan struct{})}
	for _, x := range c.Exchanges {
		for range cmp.Or(x.Times, 1) {
			s.exchanges = append(s.exchanges, x)
		}
	}
	server := httptest.NewServer(s)
	defer server.Close()
	defer close(s.gaveUp)
	option := func(name string) float64 {
		n, _ := c.Options[name].(json.Number)
		value, _ := n.Float64()
		return value
	}
	seconds := func(name string) time.Duration { return time.Duration(option(name) * float64(time.Second)) }
	apiKey := file.APIKey
	if c.Options["admin_only"] == true {
		apiKey = ""
	}
	client := must.Get(New(Options{
		BaseURL: server.URL, APIKey: apiKey, AdminKey: file.AdminKey,
		Attempts: int(option("attempts")), AttemptTimeout: seconds("attempt_timeout"), MaxWait: seconds("max_wait"),
	}))(t)
	var waits []time.Duration
	client.pause = func(ctx context.Context, d time.Duration) error { waits = append(waits, d); return ctx.Err() }
	ctx := t.Context()
	if seconds("deadline") > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, seconds("deadline"))
		defer cancel()
	}
	wire := must.Get(json.Marshal(onWire(with)))(t)
	returned, err := callByName(ctx, t, client, c.Call, wire)
	judgeCase(t, c, s, returned, err)
	if c.Waits == nil {
		return
	}
	if len(waits) != len(*c.Waits) {
		t.Fatalf("waited %v, want %v", waits, *c.Waits)
	}
	for i, want := range *c.Waits {
		if got := waits[i].Seconds(); got < want[0] || got > want[1] {
			t.Errorf("wait %d is %v, want %v", i, got, want)
		}
	}
}

func judgeCase(t *testing.T, c conformanceCase, s *scripted, returned any, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != len(s.exchanges) {
		t.Errorf("%d of %d exchanges", s.next, len(s.exchanges))
	}
	if c.Raises == nil {
		must.Do(t, err)
		compare(t, "returned", c.Returns, returned)
		return
	}
	raised := map[string]any{"kind": "no_answer"}
	if refused, ok := errors.AsType[*Error](err); ok {
		raised = map[string]any{
			"kind": "api_error", "status": json.Number(strconv.Itoa(refused.Status)), "code": refused.Code, "message": refused.Message,
			"request_id": refused.RequestID, "retry_after": json.Number(fmt.Sprint(refused.RetryAfter.Seconds())),
			"next_after": json.Number(strconv.FormatInt(refused.NextAfter, 10)),
		}
	}
	if undecided, ok := errors.AsType[*UndecidedError](err); ok {
		raised["kind"] = "no_decision"
		if !bytes.Contains(s.last.body, []byte(strconv.Quote(undecided.IdempotencyKey))) {
			t.Errorf("the error names %q, sent was %s", undecided.IdempotencyKey, s.last.body)
		}
	}
	if err == nil {
		t.Fatalf("returned %v", returned)
	}
	compare(t, "raised", c.Raises, raised)
}

// compare reports where a value differs from the wanted one. An object may have further members.
func compare(t *testing.T, where string, want, got any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			t.Errorf("%s: %v, want an object", where, got)
		}
		for name, member := range want {
			if text, ok := member.(string); ok && name == "amount" {
				if n, err := ParseAmount(fmt.Sprint(object[name])); err != nil || n.String() != parsedAmount(text) {
					t.Errorf("%s.%s: %v, want %s", where, name, object[name], text)
				}
				continue
			}
			compare(t, where+"."+name, member, object[name])
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			t.Fatalf("%s: %v, want %v", where, got, want)
		}
		for i, element := range want {
			compare(t, where+"[]", element, list[i])
		}
	default:
		if want == "*" && strings.TrimSpace(fmt.Sprint(got)) != "" && got != nil {
			return
		}
		if want != got {
			t.Errorf("%s: %#v, want %#v", where, got, want)
		}
	}
}

// parsedAmount is an amount in the form in which amounts are written.
func parsedAmount(text string) string {
	a, err := ParseAmount(text)
	if err != nil {
		return err.Error()
	}
	return a.String()
}

// sentRequest is the part of a request that repetitions have byte for byte.
type sentRequest struct {
	method, uri string
	body        []byte
}

// scripted is a server that plays the exchanges of a case.
type scripted struct {
	t         *testing.T
	file      caseFile
	exchanges []exchange
	gaveUp    chan struct{}

	mu   sync.Mutex
	next int
	last sentRequest
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	if s.next == len(s.exchanges) {
		s.mu.Unlock()
		s.t.Errorf("one request more: %s %s %s", r.Method, r.RequestURI, body)
		panic(http.ErrAbortHandler)
	}
	x := s.exchanges[s.next]
	s.next++
	sent := sentRequest{r.Method, r.RequestURI, body}
	if x.Expect != nil {
		s.expect(x, r, body)
	} else if !reflect.DeepEqual(sent, s.last) {
		s.t.Errorf("sent %v, before %v", sent, s.last)
	}
	s.last = sent
	s.mu.Unlock()
	s.answer(w, r, x)
}

func (s *scripted) expect(x exchange, r *http.Request, body []byte) {
	want := x.Expect
	path, query, _ := strings.Cut(r.RequestURI, "?")
	if r.Method != want.Method || path != want.Path {
		s.t.Errorf("sent %s %s, want %s %s", r.Method, path, want.Method, want.Path)
	}
	if want.Query != nil {
		values, err := url.ParseQuery(query)
		if err != nil || len(values) != len(want.Query) {
			s.t.Errorf("query %s, want %v", query, want.Query)
		}
		for name, value := range want.Query {
			if !slices.Equal(values[name], []string{*value}) {
				s.t.Errorf("%s=%v, want %s", name, values[name], *value)
			}
		}
	}
	for name, value := range want.Headers {
		got := r.Header.Values(name)
		if value == nil && got != nil || value != nil && *value != "*" && !slices.Equal(got, []string{*value}) {
			s.t.Errorf("header %s: %v", name, got)
		}
	}
	for _, text := range want.Contains {
		if !bytes.Contains(body, []byte(text)) {
			s.t.Errorf("no %s in %s", text, body)
		}
	}
	if want.Body != nil {
		var got any
		numbers(s.t, body, &got)
		if object, ok := want.Body.(map[string]any); ok && len(object) != len(got.(map[string]any)) {
			s.t.Errorf("sent %s, want %v", body, want.Body)
		}
		compare(s.t, "sent", want.Body, got)
	}
}

func (s *scripted) answer(w http.ResponseWriter, r *http.Request, x exchange) {
	switch x.Fail {
	case "hang_up":
		panic(http.ErrAbortHandler)
	case "stall":
		select {
		case <-r.Context().Done():
		case <-s.gaveUp:
		}
		panic(http.ErrAbortHandler)
	}
	text := x.text(s.t, s.file)
	w.Header().Set("Content-Type", "application/json")
	if !x.Bare {
		w.Header().Set("X-Request-Id", "req_1")
	}
	for _, h := range x.Headers {
		if h[0] == "Content-Type" {
			w.Header().Del(h[0])
		}
		w.Header().Add(h[0], h[1])
	}
	if x.Cut > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		text = text[:x.Cut]
	}
	w.WriteHeader(cmp.Or(x.Status, http.StatusOK))
	io.WriteString(w, text) //nolint:errcheck // the client would notice
	if x.Cut > 0 {
		http.NewResponseController(w).Flush() //nolint:errcheck // the answer is cut anyway
		panic(http.ErrAbortHandler)
	}
}

// text is the body of an answer.
func (x exchange) text(t *testing.T, file caseFile) string {
	if x.Text != nil {
		return *x.Text
	}
	body := x.Body
	if name, ok := body.(string); ok {
		body = any(file.Bodies[name])
	}
	if len(x.Change) > 0 {
		changed := make(map[string]any)
		maps.Copy(changed, body.(map[string]any))
		maps.Copy(changed, x.Change)
		body = changed
	}
	text, err := json.Marshal(onWire(body))
	must.Check(t, err)
	return string(text)
}

// collect reads a listing to its end.
func collect[T any](all iter.Seq2[T, error]) (list []T, err error) {
	for element, err := range all {
		if err != nil {
			return nil, err
		}
		list = append(list, element)
	}
	return list, nil
}
