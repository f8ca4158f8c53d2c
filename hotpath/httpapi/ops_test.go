package httpapi

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"spendgate/bench/must"
)

func startOps(t *testing.T, o OpsOptions) (*Ops, string) {
	t.Helper()
	ops := NewOps(o)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan error, 1)
	go func() { done <- ops.Serve(l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		must.Check(t, ops.Shutdown(ctx))
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ops, l.Addr().String()
}

func TestOps(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "spendgate_test"}, func() float64 { return 7 }))
	var failing atomic.Bool
	ops, address := startOps(t, OpsOptions{Gatherer: registry, Ready: func(ctx context.Context) Readiness {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("readiness is asked without a deadline")
		}
		r := Readiness{
			Ready: true, Mode: "fleet", Durability: "fsync on", TimeZones: "2026f-0",
			Dependencies: []Dependency{{Name: "redis", OK: true}, {Name: "store", OK: true, Detail: "x"}},
		}
		if failing.Load() {
			r.Ready, r.Dependencies[0] = false, Dependency{Name: "redis", Detail: "no route"}
		}
		return r
	}})
	f := func(method, path string, status int, want string) {
		t.Helper()
		sendAt(t, address, method, path, "").is(t, method+" "+path, status, want)
	}
	f("GET", "/livez", 200, "ok")
	f("GET", "/metrics", 200, "spendgate_test 7")
	f("GET", "/readyz", 200, `{"status":"ready","mode":"fleet","durability":"fsync `+
		`on","time_zones":"2026f-0","dependencies":[{"name":"redis","status":"ok"},{"name":"store","status":"ok","detail":"x"}]}`)
	f("POST", "/readyz", 405, "")
	f("GET", "/v1/checks", 404, "")
	f("GET", "/debug/pprof/", 404, "")
	f("GET", "/debug/pprof/heap", 404, "")
	failing.Store(true)
	f("GET", "/readyz", 503, `{"status":"failing","mode":"fleet","durability":"fsync `+
		`on","time_zones":"2026f-0","dependencies":[{"name":"redis","status":"failing","detail":"no route"}`)
	f("GET", "/readyz?unready=404", 404, `{"status":"failing","mode":"fleet"`)
	failing.Store(false)
	f("GET", "/readyz?unready=404", 200, `{"status":"ready"`)
	ops.Drain()
	f("GET", "/readyz", 503, `{"status":"draining"`)
	f("GET", "/readyz?unready=404", 404, `{"status":"draining"`)
	f("GET", "/livez", 200, "ok")

	_, profiled := startOps(t, OpsOptions{Gatherer: registry, Ready: func(context.Context) Readiness { panic("a bug") }, Pprof: true})
	for path, want := range map[string]string{
		"/debug/pprof": `<a href='goroutine?debug=1'>`, "/debug/pprof/": `<a href='goroutine?debug=1'>`,
		"/debug/pprof/goroutine?debug=1": "goroutine profile", "/debug/pprof/cmdline": "test",
	} {
		sendAt(t, profiled, "GET", path, "").is(t, path, 200, want)
	}
	sendAt(t, profiled, "GET", "/readyz", "").is(t, "a panic", 500)
	sendAt(t, profiled, "GET", "/readyz?unready=404", "").is(t, "a panic, for a balancer", 404)
}

// A balancer is answered though a dependency does not answer the node, and what the node
// finds out later counts.
func TestReadinessForBalancers(t *testing.T) {
	found := make(chan struct{})
	_, address := startOps(t, OpsOptions{Gatherer: prometheus.NewRegistry(), Ready: func(ctx context.Context) Readiness {
		<-ctx.Done() // a dependency hangs
		close(found) // by one look, however many ask
		return Readiness{Ready: true}
	}})
	for range 2 {
		sendAt(t, address, "GET", "/readyz?unready=404", "").is(t, "a dependency hangs", 404)
	}
	select {
	case <-found:
		t.Error("the answer waited for the dependency")
	default:
		<-found
	}
}

func TestMetricsHaveBoundedLabels(t *testing.T) {
	s := start(t, nil)
	for _, path := range []string{"/a", "/b/c", "/v1/checks/1", "/v1/checks/2", "/v1/policies/x"} {
		s.do("GET", path, "")
		s.do("BREW", path, "")
	}
	s.do("POST", "/v1/checks", plainCheck)
	s.do("POST", "/v1/checks", "{")
	s.do("POST", "/v1/checks", plainCheck, "User-Agent: spendgate-probe/v1")
	const want = `
# HELP spendgate_http_requests_in_flight Requests at work.
# TYPE spendgate_http_requests_in_flight gauge
spendgate_http_requests_in_flight 0
`
	must.Check(t, testutil.GatherAndCompare(s.metrics, strings.NewReader(want), "spendgate_http_requests_in_flight"))
	before := must.Get(testutil.GatherAndCount(s.metrics))(t)
	s.do("BREW", "/elsewhere/"+strings.Repeat("x", 50), "")
	if after, _ := testutil.GatherAndCount(s.metrics); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	s.do("POST", "/v1/checks", plainCheck, "X-API-Key: wrong")
	count := func(route, method, status string) float64 {
		return testutil.ToFloat64(s.api.metrics.requests.WithLabelValues(route, method, status[:1]+"xx", status))
	}
	if count("none", "other", "404") != 5 || count("/v1/checks/{check_id}", "other", "405") != 2 || count("/v1/checks", "POST", "200") != 1 ||
		count("probe", "POST", "200") != 1 || count("/v1/checks", "POST", "400") != 1 || count("/v1/checks", "POST", "401") != 1 ||
		count("/v1/policies/{policy_id}", "GET", "404") != 1 {
		t.Error("requests are counted elsewhere")
	}
	if n := testutil.CollectAndCount(s.api.metrics.checks); n != 1 {
		t.Errorf("%d histograms", n)
	}
	const got = `spendgate_http_request_duration_seconds_count{method="GET",route="/v1/policies/{policy_id}"} 1`
	_, address := startOps(t, OpsOptions{Gatherer: s.metrics})
	if page := sendAt(t, address, "GET", "/metrics", ""); !strings.Contains(page.body, got) {
		t.Errorf("no %s in\n%s", got, page.body)
	}
}
