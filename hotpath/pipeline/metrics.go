package pipeline

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	batchSize prometheus.Histogram
	seconds   prometheus.Histogram
	failures  prometheus.Counter
	dropped   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "spendgate", Subsystem: "redis", Name: name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "spendgate", Subsystem: "redis", Name: name, Help: help, Buckets: buckets,
		})
	}
	m := &metrics{
		batchSize: histogram("batch_size", "Requests that shared one Redis round trip.", prometheus.ExponentialBuckets(1, 2, 11)),
		seconds:   histogram("round_trip_duration_seconds", "Time of one Redis round trip.", prometheus.ExponentialBuckets(0.0001, 2, 15)),
		failures: counter("round_trip_failures_total",
			"Redis round trips that failed: those of checks, which were refused, and those of deferred commands, which are sent again."),
		dropped: counter("deferred_dropped_total", "Deferred commands (releases and refunds) given up while Redis was away."),
	}
	reg.MustRegister(m.batchSize, m.seconds, m.failures, m.dropped)
	return m
}

func (m *metrics) observe(size int, took time.Duration) {
	m.batchSize.Observe(float64(size))
	m.seconds.Observe(took.Seconds())
}
