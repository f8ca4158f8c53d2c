package checkpoint

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// writerMetrics are the metrics of a Writer.
type writerMetrics struct {
	last      atomic.Int64 // Unix seconds
	failures  prometheus.Counter
	truncated prometheus.Gauge
}

func (m *writerMetrics) register(registerer prometheus.Registerer) {
	m.failures = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "spendgate", Subsystem: "checkpoint", Name: "failures_total",
		Help: "Signed checkpoints that could not be written.",
	})
	m.truncated = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "spendgate", Subsystem: "checkpoint", Name: "truncated_chains",
		Help: "Chains that end earlier than in the last checkpoint, also of an earlier process: batches of the trail are gone, " +
			"and nothing more is signed.",
	})
	last := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "spendgate", Subsystem: "checkpoint", Name: "last_success_timestamp_seconds",
		Help: "When a signed checkpoint was last written, as Unix time; 0 before the first.",
	}, func() float64 { return float64(m.last.Load()) })
	if registerer != nil {
		registerer.MustRegister(m.failures, m.truncated, last)
	}
}
