package httpapi

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the API. Every label value is one of a fixed few: a route, one of
// its methods or "other", a status class.
type metrics struct {
	requests     *prometheus.CounterVec
	unauthorized *prometheus.CounterVec
	checks       prometheus.Histogram
}

// checkBuckets are seconds: fine around the few milliseconds that a check
// takes, then up to the bound of G7.
func checkBuckets() []float64 {
	return []float64{.0005, .001, .002, .003, .005, .0075, .01, .015, .025, .05, .1, .25, .5, 1, 2, 5}
}

func newMetrics(registerer prometheus.Registerer, inFlight func() int64) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "spendgate", Name: "http_requests_total",
			Help: "Requests answered, by route, method and class of status.",
		}, []string{"route", "method", "class"}),
		unauthorized: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "spendgate", Name: "unauthorized_total",
			Help: "Requests answered 401, by reason: API key missing, unknown or inactive; admin key missing or wrong.",
		}, []string{"reason"}),
		checks: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "spendgate", Name: "check_duration_seconds",
			Help:    "From the first byte of a check read to its answer written, whatever the answer.",
			Buckets: checkBuckets(),
		}),
	}
	busy := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "spendgate", Name: "http_requests_in_flight",
		Help: "Requests at work.",
	}, func() float64 { return float64(inFlight()) })
	if registerer != nil {
		registerer.MustRegister(m.requests, m.unauthorized, m.checks, busy)
	}
	return m
}

// counters are an endpoint's, by the first digit of the status.
type counters [6]prometheus.Counter

// of looks an endpoint's counters up once, so that a request need not.
func (m *metrics) of(route, method string) counters {
	classes := [...]string{2: "2xx", 4: "4xx", 5: "5xx"}
	var c counters
	for digit, class := range classes {
		if class != "" {
			c[digit] = m.requests.WithLabelValues(route, method, class)
		}
	}
	return c
}

// observe counts an answered request.
func (m *metrics) observe(x *exchange) {
	x.endpoint.counters[x.ctx.Response.StatusCode()/100].Inc()
	if x.endpoint.timed {
		m.checks.Observe(time.Since(x.started).Seconds())
	}
}
