package pipeline

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/metric"
)

type metrics struct {
	batchSize prometheus.Histogram
	seconds   prometheus.Histogram
	failures  prometheus.Counter
	dropped   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	with := metric.Of(reg, "redis")
	return &metrics{
		batchSize: with.Histogram("batch_size", "Requests that shared one Redis round trip.", prometheus.ExponentialBuckets(1, 2, 11)),
		seconds: with.Histogram("round_trip_duration_seconds", "Time of one Redis round trip.",
			prometheus.ExponentialBuckets(0.0001, 2, 15)),
		failures: with.Counter("round_trip_failures_total",
			"Redis round trips that failed: those of checks, which were refused, and those of deferred commands, which are sent again."),
		dropped: with.Counter("deferred_dropped_total", "Deferred commands (releases and refunds) given up while Redis was away."),
	}
}

func (m *metrics) observe(size int, took time.Duration) {
	m.batchSize.Observe(float64(size))
	m.seconds.Observe(took.Seconds())
}
