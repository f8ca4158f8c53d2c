// Package metric makes metrics of the service, and registers each as it makes it.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Set makes metrics with names that begin alike.
type Set struct {
	with      promauto.Factory
	subsystem string
}

// Of returns a Set whose names begin with spendgate_ and the subsystem, which may be empty. Nothing is
// registered if the registerer is nil.
func Of(registerer prometheus.Registerer, subsystem string) Set {
	return Set{promauto.With(registerer), subsystem}
}

func (s Set) opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "spendgate", Subsystem: s.subsystem, Name: name, Help: help}
}

// Counter makes a counter.
func (s Set) Counter(name, help string) prometheus.Counter {
	return s.with.NewCounter(prometheus.CounterOpts(s.opts(name, help)))
}

// Counters makes counters by labels.
func (s Set) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return s.with.NewCounterVec(prometheus.CounterOpts(s.opts(name, help)), labels)
}

// Gauge makes a gauge.
func (s Set) Gauge(name, help string) prometheus.Gauge {
	return s.with.NewGauge(prometheus.GaugeOpts(s.opts(name, help)))
}

// Gauges makes gauges by labels.
func (s Set) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return s.with.NewGaugeVec(prometheus.GaugeOpts(s.opts(name, help)), labels)
}

// Reading makes a gauge whose value is read when it is asked for.
func (s Set) Reading(name, help string, value func() float64) {
	s.with.NewGaugeFunc(prometheus.GaugeOpts(s.opts(name, help)), value)
}

// Histogram makes a histogram.
func (s Set) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	return s.with.NewHistogram(s.buckets(name, help, buckets))
}

// Histograms makes histograms by labels.
func (s Set) Histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return s.with.NewHistogramVec(s.buckets(name, help, buckets), labels)
}

func (s Set) buckets(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: "spendgate", Subsystem: s.subsystem, Name: name, Help: help, Buckets: buckets}
}
