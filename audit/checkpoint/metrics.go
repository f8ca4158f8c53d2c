package checkpoint

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/metric"
)

// writerMetrics are the metrics of a Writer.
type writerMetrics struct {
	last      atomic.Int64 // Unix seconds
	failures  prometheus.Counter
	truncated prometheus.Gauge
}

func (m *writerMetrics) register(registerer prometheus.Registerer) {
	with := metric.Of(registerer, "checkpoint")
	m.failures = with.Counter("failures_total", "Signed checkpoints that could not be written.")
	m.truncated = with.Gauge("truncated_chains",
		"Chains that end earlier than in the last checkpoint, also of an earlier process: batches of the trail are gone, "+
			"and nothing more is signed.")
	with.Reading("last_success_timestamp_seconds", "When a signed checkpoint was last written, as Unix time; 0 before the first.",
		func() float64 { return float64(m.last.Load()) })
}
