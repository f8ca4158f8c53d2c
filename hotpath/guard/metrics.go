package guard

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	waits              prometheus.Counter
	takeovers          prometheus.Counter
	fences             prometheus.Counter
	epochs             *prometheus.CounterVec
	fingerprintsLoaded prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, windows *atomic.Pointer[marker]) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "spendgate", Subsystem: "guard", Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	m := &metrics{
		waits:     counter("waits_total", "Checks that waited for another check's claim."),
		takeovers: counter("takeovers_total", "Claims taken over from a check that will never be recorded."),
		fences:    counter("fences_total", "Nodes fenced: they died, hung or lost a connection in a commit, and are cut off from the database."),
		epochs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "spendgate", Subsystem: "guard", Name: "epochs_total",
			Help: "Epochs of Redis' windows begun (how=started) or taken from another node (how=adopted).",
		}, []string{"how"}),
		fingerprintsLoaded: counter("fingerprints_loaded_total", "Fingerprints loaded into Redis after it lost them."),
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
	reg.MustRegister(m.epochs, lazy)
	return m
}
