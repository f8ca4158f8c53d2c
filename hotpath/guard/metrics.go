package guard

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit/metric"
)

type metrics struct {
	waits              prometheus.Counter
	takeovers          prometheus.Counter
	fences             prometheus.Counter
	epochs             *prometheus.CounterVec
	fingerprintsLoaded prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, windows *atomic.Pointer[marker]) *metrics {
	with := metric.Of(reg, "guard")
	m := &metrics{
		waits:     with.Counter("waits_total", "Checks that waited for another check's claim."),
		takeovers: with.Counter("takeovers_total", "Claims taken over from a check that will never be recorded."),
		fences: with.Counter("fences_total",
			"Nodes fenced: they died, hung or lost a connection in a commit, and are cut off from the database."),
		epochs: with.Counters("epochs_total",
			"Epochs of Redis' windows begun (how=started) or taken from another node (how=adopted).", "how"),
		fingerprintsLoaded: with.Counter("fingerprints_loaded_total", "Fingerprints loaded into Redis after it lost them."),
	}
	for _, how := range [...]string{"started", "adopted"} { // there from the start, so that an increase shows the first
		m.epochs.WithLabelValues(how)
	}
	with.Reading("windows_lazy", "1 while duplicate windows are served from Postgres because Redis lost them.", func() float64 {
		if m := windows.Load(); m.full || m.epoch.IsZero() {
			return 0
		}
		return 1
	})
	return m
}
