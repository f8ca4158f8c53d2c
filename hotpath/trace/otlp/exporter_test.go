package otlp

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"spendgate/bench/must"
)

// someSpans returns n spans of the SDK.
func someSpans(n int) []sdk.ReadOnlySpan {
	return make(tracetest.SpanStubs, n).Snapshots()
}

// The error does not contain the collector's answer, which may quote what it was sent.
func TestRefusedBatch(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "hush", http.StatusTooManyRequests)
	}))
	defer server.Close()
	err := newExporter(Collector{URL: server.URL, Timeout: time.Minute}).ExportSpans(t.Context(), someSpans(2))
	if err == nil || !strings.Contains(err.Error(), "429") || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v", err)
	}
}

// A text that is no UTF-8, such as an attribute of OTEL_RESOURCE_ATTRIBUTES may be, costs no traces.
func TestNoUTF8(t *testing.T) {
	var sent tracepb.TracesData
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		must.Check(t, proto.Unmarshal(must.Get(io.ReadAll(r.Body))(t), &sent))
	}))
	defer server.Close()
	of := resource.NewSchemaless(attribute.String("te\xffam", "p\xffy"))
	spans := tracetest.SpanStubs{{Name: "check", Resource: of}}.Snapshots()
	must.Do(t, newExporter(Collector{URL: server.URL, Timeout: time.Minute}).ExportSpans(t.Context(), spans))
	a := sent.GetResourceSpans()[0].GetResource().GetAttributes()[0]
	if a.GetKey() != "te\ufffdam" || a.GetValue().GetStringValue() != "p\ufffdy" {
		t.Errorf("sent %v", a)
	}
}

func TestNothingToSend(t *testing.T) {
	must.Check(t, newExporter(Collector{URL: "http://127.0.0.1:1", Timeout: time.Minute}).ExportSpans(t.Context(), nil))
}

// A collector that hangs is given up after the timeout of its settings.
func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- newExporter(Collector{URL: server.URL, Timeout: 50 * time.Millisecond}).ExportSpans(t.Context(), someSpans(1))
	}()
	select {
	case err := <-ended:
		if timeout, is := errors.AsType[net.Error](err); !is || !timeout.Timeout() {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("not given up")
	}
	close(release)
}

// Batches go over one connection, whatever the collector answers.
func TestOneConnection(t *testing.T) {
	var made, asked atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(make([]byte, 10_000)) // it notices by itself
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	e := newExporter(Collector{URL: server.URL, Timeout: time.Minute})
	const batches = 6
	for i := range batches {
		if err := e.ExportSpans(t.Context(), someSpans(1)); (err != nil) != (i%2 == 1) {
			t.Fatal(err)
		}
	}
	must.Check(t, e.Shutdown(t.Context()))
	if made.Load() != 1 || asked.Load() != batches {
		t.Errorf("%d connections for %d batches", made.Load(), asked.Load())
	}
}

// Failures are logged once a minute.
func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		tracer := must.Get(New(t.Context(), Collector{URL: "http://127.0.0.1:1"}, "1", slog.New(slog.NewTextHandler(&logged, nil))))(t)
		fail := func(times int) {
			for range times {
				otel.Handle(errors.New("away"))
			}
		}
		fail(3)
		time.Sleep(logEvery - time.Millisecond)
		fail(3)
		time.Sleep(time.Millisecond)
		fail(3)
		if n := strings.Count(logged.String(), `msg="cannot send traces" error=away`); n != 2 {
			t.Errorf("%d lines, want 2:\n%s", n, logged.String())
		}
		must.Check(t, tracer.Close(t.Context()))
	})
}
