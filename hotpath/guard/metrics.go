package guard

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the guard tells Prometheus.
type metrics struct {
	batchSize     prometheus.Histogram
	tripSeconds   prometheus.Histogram
	tripErrors    prometheus.Counter
	choresDropped prometheus.Counter
	waits         prometheus.Counter
	takeovers     prometheus.Counter
	fences        prometheus.Counter
	epochs        *prometheus.CounterVec
	windowsLoaded prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, windows *atomic.Pointer[marker]) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "spendgate", Subsystem: "guard", Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	m := &metrics{
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "spendgate", Subsystem: "redis", Name: "batch_size",
			Help: "Requests that shared one Redis round trip.", Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		tripSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "spendgate", Subsystem: "redis", Name: "round_trip_seconds",
			Help: "Time of one Redis round trip.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 15),
		}),
		tripErrors:    counter("round_trip_errors_total", "Redis round trips that failed: those of checks, which were refused, and those of releases, which are tried again."),
		choresDropped: counter("chores_dropped_total", "Releases and refunds given up while Redis was away."),
		waits:         counter("waits_total", "Checks that waited for another check's claim."),
		takeovers:     counter("takeovers_total", "Claims taken over from a check that will never be recorded."),
		fences:        counter("fences_total", "Node incarnations fenced."),
		epochs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "spendgate", Subsystem: "guard", Name: "epochs_total",
			Help: "Epochs of Redis' windows begun (how=started) or taken from another node (how=adopted).",
		}, []string{"how"}),
		windowsLoaded: counter("windows_loaded_total", "Fingerprints loaded into Redis after it lost them."),
	}
	for _, how := range [...]string{"started", "adopted"} { // there from the start, so that an increase shows the first
		m.epochs.WithLabelValues(how)
	}
	lazy := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "spendgate", Subsystem: "guard", Name: "windows_lazy",
		Help: "1 while duplicate windows are served from Postgres because Redis lost them.",
	}, func() float64 {
		if m := windows.Load(); m.full || m.epoch.IsZero() {
			return 0
		}
		return 1
	})
	reg.MustRegister(m.batchSize, m.tripSeconds, m.epochs, lazy)
	return m
}

func (m *metrics) batch(size int, took time.Duration) {
	m.batchSize.Observe(float64(size))
	m.tripSeconds.Observe(took.Seconds())
}
