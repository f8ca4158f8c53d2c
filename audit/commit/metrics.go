package commit

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/metric"
)

// writerMetrics are the metrics of the Writer.
type writerMetrics struct {
	batchSize prometheus.Histogram
	seconds   prometheus.Histogram
	failures  *prometheus.CounterVec
	refused   prometheus.Counter
}

func newWriterMetrics(reg prometheus.Registerer, w *Writer) *writerMetrics {
	with := metric.Of(reg, "audit")
	m := &writerMetrics{
		batchSize: with.Histogram("commit_batch_size", "Checks that shared one commit.", prometheus.ExponentialBuckets(1, 2, 10)),
		seconds:   with.Histogram("commit_duration_seconds", "Time of one group commit.", prometheus.ExponentialBuckets(0.00025, 2, 14)),
		failures: with.Counters("commit_failures_total",
			"Commits that failed, by what was known of them. Only unavailable, unknown, row and forked are faults: the others are resolved.",
			"kind"),
		refused: with.Counter("overload_refusals_total",
			"Checks refused at once because too many were in flight, or too many commits in doubt."),
	}
	with.Reading("checks_in_flight", "Checks between admission and outcome.", func() float64 { return float64(w.limiter.taken.Load()) })
	with.Reading("checks_in_flight_limit", "How many checks may be in flight at present; more are refused. It falls when they take long.",
		func() float64 { return float64(w.limiter.limit.Load()) })
	with.Reading("queue_depth", "Checks that wait for a commit.", func() float64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return float64(len(w.queue))
	})
	for _, kind := range failureKinds {
		m.failures.WithLabelValues(kind)
	}
	return m
}

// failureKinds are the values of the kind label; they exist from the start so
// that an alert on their increase sees the first.
var failureKinds = [...]string{
	"unavailable", "unknown", "row", "stale_epoch", "fenced", "forked", "key_taken", "reported", "exceeded", "unapproved",
}

func (m *writerMetrics) commit(size int, took time.Duration, err error) {
	m.batchSize.Observe(float64(size))
	m.seconds.Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(failureKind(err)).Inc()
	}
}

func failureKind(err error) string {
	switch {
	case errors.As(err, new(*audit.RowError)):
		return "row"
	case errors.As(err, new(*audit.KeysTakenError)):
		return "key_taken"
	case errors.As(err, new(*audit.ReportedError)):
		return "reported"
	case errors.As(err, new(*audit.ExceededError)):
		return "exceeded"
	case errors.As(err, new(*audit.ApprovalsError)):
		return "unapproved"
	case errors.Is(err, audit.ErrUnknown):
		return "unknown"
	case errors.Is(err, audit.ErrStaleEpoch):
		return "stale_epoch"
	case errors.Is(err, audit.ErrFencedNode):
		return "fenced"
	case errors.Is(err, audit.ErrForked):
		return "forked"
	default:
		return "unavailable"
	}
}
