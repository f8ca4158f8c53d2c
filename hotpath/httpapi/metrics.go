package httpapi

import (
	"bytes"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/metric"
	"spendgate/hotpath/wire"
)

// metrics of the API. Every label value is one of a fixed few: a route, one of
// its methods or "other", a status that the API answers with, and its class.
type metrics struct {
	requests     *prometheus.CounterVec
	probes       counters // the checks of probes, with the route "probe"
	unauthorized *prometheus.CounterVec
	lockouts     prometheus.Counter
	signIns      prometheus.Counter // that failed
	checks       prometheus.Histogram
	durations    *prometheus.HistogramVec // of all other routes
}

// checkBuckets are seconds: fine around the few milliseconds that a check
// takes, then up to the bound of G7.
func checkBuckets() []float64 {
	return []float64{.0005, .001, .002, .003, .005, .0075, .01, .015, .025, .05, .1, .25, .5, 1, 2, 5}
}

func newMetrics(registerer prometheus.Registerer, inFlight func() int64) *metrics {
	with := metric.Of(registerer, "")
	m := &metrics{
		requests: with.Counters("http_requests_total", "Requests answered, by route, method, status and its class.",
			"route", "method", "class", "status"),
		unauthorized: with.Counters("unauthorized_total",
			"Requests answered 401, by reason: API key missing, unknown or inactive; admin key missing or wrong; session over.", "reason"),
		lockouts: with.Counter("admin_lockouts_total",
			"Addresses that sent so many wrong admin keys that all their admin keys are refused for a minute."),
		signIns: with.Counter("sign_ins_failed_total", "Sign-ins by OpenID Connect that were refused."),
		checks: with.Histogram("check_duration_seconds",
			"From the first byte of a check read to its answer written, whatever the answer.", checkBuckets()),
		durations: with.Histograms("http_request_duration_seconds",
			"From the first byte of a request read to its answer written, by route and method; checks have a metric of their own.",
			checkBuckets(), "route", "method"),
	}
	m.probes = m.of("probe", "POST")
	with.Reading("http_requests_in_flight", "Requests at work.", func() float64 { return float64(inFlight()) })
	return m
}

// counters are the metrics of an endpoint. Those of the usual responses are looked up once, so that a
// request need not look, and exist from the start, so that rate and increase count the first request
// too.
type counters struct {
	all           *prometheus.CounterVec
	route, method string
	ok, failed    prometheus.Counter // 200 and 500
}

func (m *metrics) of(route, method string) counters {
	return counters{
		all: m.requests, route: route, method: method,
		ok: m.requests.WithLabelValues(route, method, "2xx", "200"), failed: m.requests.WithLabelValues(route, method, "5xx", "500"),
	}
}

// answered returns the counter of answers with a status.
func (c *counters) answered(status int) prometheus.Counter {
	switch status {
	case 200:
		return c.ok
	case 500:
		return c.failed
	}
	text := strconv.Itoa(status)
	return c.all.WithLabelValues(c.route, c.method, text[:1]+"xx", text)
}

// duration returns the histogram of an endpoint.
func (m *metrics) duration(e *endpoint) prometheus.Observer {
	if e.timed {
		return m.checks
	}
	return m.durations.WithLabelValues(e.path, e.method)
}

// observe counts an answered request.
func (m *metrics) observe(x *exchange) {
	counted := &x.endpoint.counters
	if x.endpoint.timed && bytes.HasPrefix(x.ctx.Request.Header.UserAgent(), []byte(wire.Probe+"/")) {
		counted = &m.probes // no traffic
	}
	counted.answered(x.ctx.Response.StatusCode()).Inc()
	if x.endpoint.duration != nil {
		x.endpoint.duration.Observe(time.Since(x.started).Seconds())
	}
}
