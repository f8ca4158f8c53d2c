package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics count what the gateway did. Labels have only the servers and tools that the file
// names, and the states, so the file bounds the number of series.
type metrics struct {
	calls       *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	ends        *prometheus.CounterVec
	inFlight    prometheus.Gauge
	sessions    prometheus.Gauge
	unrecorded  prometheus.Counter
	tokenFaults prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "spendgate", Subsystem: "gateway", Name: name, Help: help}
	}
	with := promauto.With(registerer)
	return &metrics{
		calls: with.NewCounterVec(prometheus.CounterOpts(opts("calls_total",
			"Calls of mapped tools by what they ended with: state, and in a shadow the state that enforcement would have given.")),
			[]string{"upstream", "tool", "state", "shadow"}),
		seconds: with.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "spendgate", Subsystem: "gateway", Name: "call_duration_seconds",
			Help:    "From a mapped tool's call to its result, what it waits for people included.",
			Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30, 100, 600},
		}, []string{"upstream", "tool"}),
		ends: with.NewCounterVec(prometheus.CounterOpts(opts("upstream_failures_total",
			"Times that an upstream could not be reached or ended while agents were connected.")), []string{"upstream"}),
		inFlight: with.NewGauge(prometheus.GaugeOpts(opts("calls_in_flight", "Mapped calls without a result yet."))),
		sessions: with.NewGauge(prometheus.GaugeOpts(opts("sessions", "Agents that are connected."))),
		unrecorded: with.NewCounter(prometheus.CounterOpts(opts("report_failures_total",
			"Times that the service did not record what became of a check."))),
		tokenFaults: with.NewGauge(prometheus.GaugeOpts(opts("token_faults",
			"Files of agents' tokens at fault, whose agents have no access. 1 if the folder cannot be read."))),
	}
}

// ended counts a mapped call.
func (m *metrics) ended(upstream, tool string, r end, took time.Duration) {
	m.calls.WithLabelValues(upstream, tool, r.state, r.shadow).Inc()
	m.seconds.WithLabelValues(upstream, tool).Observe(took.Seconds())
}
