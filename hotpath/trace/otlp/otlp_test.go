package otlp

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath/trace"
)

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	sampled      = "00-" + callersTrace + "-" + callersSpan + "-01"
	unsampled    = "00-" + callersTrace + "-" + callersSpan + "-00"
)

// collector decodes requests with OpenTelemetry's own messages.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	received []*tracepb.ResourceSpans
	headers  []http.Header
}

func newCollector(t *testing.T) *collector {
	c := new(collector)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = unzipped
		}
		text, err := io.ReadAll(body)
		must.Check(t, err)
		batch := new(tracepb.TracesData) // field by field an ExportTraceServiceRequest
		must.Check(t, (proto.UnmarshalOptions{DiscardUnknown: false}).Unmarshal(text, batch))
		c.mu.Lock()
		defer c.mu.Unlock()
		c.received = append(c.received, batch.GetResourceSpans()...)
		c.headers = append(c.headers, r.Header)
	}))
	t.Cleanup(c.Close)
	return c
}

// spans returns the spans received so far, and the attributes of their resource.
func (c *collector) spans(t *testing.T) (spans []*tracepb.Span, resource map[string]string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.received {
		resource = attributesOf(r.GetResource().GetAttributes())
		for _, scope := range r.GetScopeSpans() {
			if scope.GetScope().GetName() != "spendgate" || scope.GetScope().GetVersion() != "1.2.3" {
				t.Errorf("scope %v", scope.GetScope())
			}
			spans = append(spans, scope.GetSpans()...)
		}
	}
	return spans, resource
}

func attributesOf(all []*commonpb.KeyValue) map[string]string {
	values := make(map[string]string)
	for _, a := range all {
		values[a.GetKey()] = strings.ReplaceAll(a.GetValue().String(), `"`, "")
	}
	return values
}

func newTracer(t *testing.T, to Collector) *Tracer {
	t.Helper()
	if to.Timeout == 0 {
		to.Timeout = time.Second
	}
	return must.Get(New(t.Context(), to, "1.2.3", slog.New(slog.DiscardHandler)))(t)
}

var start = time.Date(2026, 11, 20, 10, 11, 12, 345678901, time.UTC)

func aRecord(parent string) *trace.Record {
	r := &trace.Record{
		Parent: parent, State: "vendor=1", Method: "POST", Route: "/v1/checks", RequestID: "req_1",
		Started: start, Ended: start.Add(9 * time.Millisecond), Status: 200, Replayed: true,
		Check: &spend.Check{
			ID:     spend.NewID(start),
			Action: spend.Action{PolicyID: "refunds", AgentID: "secret-agent", ReasonText: "secret-reason", Counterparty: "secret-party"},
			Decision: spend.Decision{
				Effect: spend.Block, Reason: spend.ReasonDuplicate, PolicyVersion: 7, Message: "secret-message",
			},
		},
	}
	r.Begin(trace.Decode, start)
	r.Begin(trace.Commit, start.Add(time.Millisecond))
	r.End(start.Add(5 * time.Millisecond))
	return r
}

func TestSpansOfARequest(t *testing.T) {
	for _, zip := range []bool{false, true} {
		c := newCollector(t)
		tracer := newTracer(t, Collector{URL: c.URL + "/v1/traces", Gzip: zip, Headers: map[string]string{"X-Token": "abc"}})
		if id := tracer.Record(aRecord(sampled)); id.String() != callersTrace {
			t.Errorf("the trace is %s", id)
		}
		must.Do(t, tracer.Close(t.Context()))
		spans, resource := c.spans(t)
		if len(spans) != 3 || c.headers[0].Get("X-Token") != "abc" || c.headers[0].Get("Content-Type") != "application/x-protobuf" {
			t.Fatalf("%d spans, %v", len(spans), c.headers)
		}
		if resource["service.name"] != "string_value:spendgate" || resource["service.version"] != "string_value:1.2.3" {
			t.Errorf("resource %v", resource)
		}
		slices.SortFunc(spans, func(a, b *tracepb.Span) int { return strings.Compare(a.GetName(), b.GetName()) })
		root, commit, decode := spans[0], spans[1], spans[2]
		for _, s := range spans {
			if hex.EncodeToString(s.GetTraceId()) != callersTrace || s.GetTraceState() != "vendor=1" ||
				s.GetFlags()&(1|hasIsRemote) != 1|hasIsRemote {
				t.Errorf("span %v", s)
			}
		}
		if root.GetName() != "POST /v1/checks" || hex.EncodeToString(root.GetParentSpanId()) != callersSpan ||
			root.GetKind() != tracepb.Span_SPAN_KIND_SERVER || root.GetFlags()&isRemote == 0 || root.GetStatus() != nil {
			t.Errorf("root %v", root)
		}
		for name, s := range map[string]*tracepb.Span{"commit": commit, "decode": decode} {
			if s.GetName() != name || string(s.GetParentSpanId()) != string(root.GetSpanId()) ||
				s.GetKind() != tracepb.Span_SPAN_KIND_INTERNAL || s.GetFlags()&isRemote != 0 {
				t.Errorf("child %v", s)
			}
		}
		if commit.GetStartTimeUnixNano() != uint64(start.Add(time.Millisecond).UnixNano()) ||
			commit.GetEndTimeUnixNano() != uint64(start.Add(5*time.Millisecond).UnixNano()) ||
			root.GetStartTimeUnixNano() != uint64(start.UnixNano()) ||
			root.GetEndTimeUnixNano() != uint64(start.Add(9*time.Millisecond).UnixNano()) {
			t.Errorf("times %v", spans)
		}
		want := map[string]string{
			"http.request.method": "string_value:POST", "http.route": "string_value:/v1/checks",
			"http.response.status_code": "int_value:200", "spendgate.request_id": "string_value:req_1",
			"spendgate.check_id": "string_value:" + aRecord("").Check.ID.Text("chk_"), "spendgate.decision": "string_value:block",
			"spendgate.policy_id": "string_value:refunds", "spendgate.policy_version": "int_value:7",
			"spendgate.replayed": "bool_value:true", "spendgate.duplicate": "bool_value:true",
		}
		got := attributesOf(root.GetAttributes())
		delete(want, "spendgate.check_id") // of another instant
		if !strings.HasPrefix(got["spendgate.check_id"], "string_value:chk_") || len(got) != len(want)+1 {
			t.Errorf("attributes %v", got)
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s is %q, want %q", name, got[name], value)
			}
		}
	}
}

// Sampling is the caller's, and without one the standard variable's.
func TestSampling(t *testing.T) {
	for _, test := range []struct {
		sampler, parent string
		sent            bool
	}{
		{"", sampled, true},
		{"", unsampled, false},
		{"", "", true},
		{"", "00-nonsense", true},
		{"parentbased_always_off", "", false},
		{"parentbased_always_off", sampled, true},
		{"always_off", sampled, false},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", test.sampler)
		c := newCollector(t)
		tracer := newTracer(t, Collector{URL: c.URL})
		r := aRecord(test.parent)
		r.Check, r.Status, r.Code = nil, 500, "internal_error"
		id := tracer.Record(r)
		if follows := len(test.parent) == len(sampled); id == (trace.ID{}) || (id.String() == callersTrace) != follows {
			t.Errorf("%+v: the trace is %s", test, id)
		}
		must.Do(t, tracer.Close(t.Context()))
		spans, _ := c.spans(t)
		if (len(spans) > 0) != test.sent {
			t.Errorf("%+v: %d spans", test, len(spans))
		}
		for _, s := range spans {
			if s.GetKind() == tracepb.Span_SPAN_KIND_SERVER &&
				(s.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR ||
					attributesOf(s.GetAttributes())["error.type"] != "string_value:internal_error") {
				t.Errorf("%+v: a failure is reported as %v", test, s)
			}
		}
	}
}

// A request that began the trace has no parent, and one that the client got
// wrong is no failure of the service.
func TestRootOfATrace(t *testing.T) {
	c := newCollector(t)
	tracer := newTracer(t, Collector{URL: c.URL})
	r := aRecord("")
	r.Check.Decision.Reason, r.Status, r.Code = spend.ReasonNone, 422, "validation_error"
	tracer.Record(r)
	must.Do(t, tracer.Close(t.Context()))
	spans, _ := c.spans(t)
	for _, s := range spans {
		if s.GetKind() != tracepb.Span_SPAN_KIND_SERVER {
			continue
		}
		got := attributesOf(s.GetAttributes())
		if s.GetParentSpanId() != nil || s.GetFlags()&isRemote != 0 || s.GetStatus() != nil ||
			got["error.type"] != "string_value:validation_error" || got["spendgate.duplicate"] != "bool_value:false" {
			t.Errorf("root %v", s)
		}
	}
	if len(spans) == 0 {
		t.Error("no spans")
	}
}

// A collector that hangs, refuses or is absent delays no request: spans that do not fit into the
// queue are dropped. Close ends with its context.
func TestCollectorInTrouble(t *testing.T) {
	release := make(chan struct{})
	for name, answer := range map[string]http.HandlerFunc{
		"hangs":   func(http.ResponseWriter, *http.Request) { <-release },
		"refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"is away": nil,
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			if answer == nil {
				server.Close()
			}
			defer server.Close()
			tracer := newTracer(t, Collector{URL: server.URL, Timeout: time.Hour})
			for range 10_000 { // several times the queue
				tracer.Record(aRecord(sampled))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := tracer.Close(ctx); err == nil && name == "hangs" {
				t.Error("all was sent")
			}
			if name == "hangs" {
				close(release)
			}
		})
	}
}
