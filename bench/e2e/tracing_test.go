package e2e_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// The caller of the traced check.
const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
)

// testTracing: with a collector a check's spans arrive under its caller's
// trace; an unreachable one changes nothing; without one nothing runs.
func testTracing(t *testing.T, binary string) {
	var mu sync.Mutex
	var spans []*tracepb.Span
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		batch := new(tracepb.TracesData)
		if err == nil {
			err = proto.Unmarshal(body, batch)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("sent to %s: %v", r.URL, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range batch.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				spans = append(spans, scope.GetSpans()...)
			}
		}
	}))
	defer collector.Close()
	t.Run("on", func(t *testing.T) {
		runTraced(t, binary, collector.URL, true)
		mu.Lock()
		defer mu.Unlock()
		// Per request of the caller's, by its decision, the stages it had.
		stages := make(map[string][]string)
		for _, root := range spans {
			if hex.EncodeToString(root.GetTraceId()) != callersTrace || hex.EncodeToString(root.GetParentSpanId()) != callersSpan {
				continue
			}
			request := "refused"
			for _, a := range root.GetAttributes() {
				if a.GetKey() == "spendgate.replayed" {
					request = map[bool]string{true: "replay", false: "check"}[a.GetValue().GetBoolValue()]
				}
			}
			for _, s := range spans {
				if string(s.GetParentSpanId()) != string(root.GetSpanId()) {
					continue
				}
				stages[request] = append(stages[request], s.GetName())
				if s.GetStartTimeUnixNano() < root.GetStartTimeUnixNano() || s.GetEndTimeUnixNano() > root.GetEndTimeUnixNano() ||
					s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
					t.Errorf("%s is not within its request", s.GetName())
				}
			}
		}
		for request, want := range map[string][]string{
			"check": {"commit", "decode", "evaluate", "guard"}, "replay": {"decode", "guard"}, "refused": nil, // before decode
		} {
			got := stages[request]
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, want) { // a check may start over
				t.Errorf("%s: spans %q, want %q", request, got, want)
			}
		}
		for _, s := range spans {
			if text := s.String(); strings.Contains(text, "svc_live_") || strings.Contains(text, "a-party") || strings.Contains(text, "123.45") {
				t.Errorf("a span contains %s", text)
			}
		}
	})
	t.Run("collector away", func(t *testing.T) {
		collector.Close()
		runTraced(t, binary, collector.URL, true)
	})
	t.Run("off", func(t *testing.T) { runTraced(t, binary, "", false) })
}

// runTraced runs a single node through a check, its replay and a failure.
func runTraced(t *testing.T, binary, endpoint string, on bool) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	admin := "dev-admin-key-0123456789"
	folder := filepath.Join(t.TempDir(), "data")
	n := must.Get(fleet.NewNode(binary, "dev", "traced", t.TempDir(),
		fleet.Settings{"DATA_DIR": folder, "ADMIN_KEY": admin, "PPROF": "true"}))(t)
	n.Seen = documented(t)
	t.Cleanup(func() { must.Do(t, n.Kill()) })
	must.Do(t, n.Start(limited(t, patience)))
	_, key, err := n.Admin(admin).CreateKey(t.Context(), "traced", plenty)
	must.Do(t, err)
	eventually(t, patience, "the ready policies are there", func() bool {
		_, err := os.Stat(filepath.Join(folder, "sample.key")) // is made last
		return err == nil
	})
	body := `{"agent_id":"a","policy_id":"refund-desk","action_type":"refund","amount":123.45,"currency":"USD",` +
		`"counterparty":"a-party","metadata":{"days_since_purchase":5},"idempotency_key":"once"}`
	first := traced(t, n, key, body, http.StatusOK)
	if again := traced(t, n, key, body, http.StatusOK); !bytes.Equal(first, again) {
		t.Errorf("answered\n%s\nthen\n%s", first, again)
	}
	traced(t, n, "svc_live_wrong", body, http.StatusUnauthorized)
	logs(t, n, `msg="request failed"`)
	if named := strings.Contains(n.Log(), "trace_id="+callersTrace); named != on {
		t.Errorf("the log of the failure names the trace: %t, want %t", named, on)
	}
	goroutines := must.Get(n.Goroutines(t.Context()))(t)
	if runs := bytes.Contains(goroutines.Body, []byte("opentelemetry")); goroutines.Status != http.StatusOK || runs != on {
		t.Errorf("OpenTelemetry has goroutines: %t, want %t (%d)", runs, on, goroutines.Status)
	}
	signalled := time.Now()
	must.Do(t, n.Terminate())
	terminated(t, n, signalled)
}

// traced sends a check as a part of its caller's trace.
func traced(t *testing.T, n *fleet.Node, key, body string, status int) []byte {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, n.API+"/v1/checks", strings.NewReader(body)))(t)
	r.Header.Set("X-API-Key", key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("traceparent", "00-"+callersTrace+"-"+callersSpan+"-01")
	answer, err := http.DefaultClient.Do(r)
	must.Do(t, err)
	defer answer.Body.Close() //nolint:errcheck // only read
	text := must.Get(io.ReadAll(answer.Body))(t)
	if answer.StatusCode != status {
		t.Errorf("answered %d: %s", answer.StatusCode, text)
	}
	return text
}
