package webhook

import (
	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/metric"
)

type metrics struct {
	deliveries *prometheus.CounterVec
	webhooks   *prometheus.GaugeVec
	waiting    prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer, oldest, behind func() float64) *metrics {
	with := metric.Of(registerer, "webhook")
	with.Reading("unread_events",
		"Numbers of the feed after the last event that was tried, of the webhook furthest behind that this node holds.", behind)
	with.Reading("oldest_undelivered_seconds",
		"How long ago the event happened that waits longest to be delivered to a webhook that this node holds; 0 when none waits.", oldest)
	return &metrics{
		deliveries: with.Counters("deliveries_total",
			"Attempts to deliver events to webhooks, by result: delivered, failed (tried again), given_up, gone (410).", "result"),
		webhooks: metric.Of(registerer, "").Gauges("webhooks", "Webhooks of the deployment, by status.", "status"),
		waiting: with.Gauge("retries_waiting",
			"Events that wait to be tried again, of all active webhooks of the deployment; counted up to 10,000."),
	}
}

// count notes how many webhooks there are; it leaves a metric of none absent.
func (m *metrics) count(leases audit.WebhookLeases) {
	m.waiting.Set(float64(leases.Waiting))
	if leases.Active+leases.Disabled == 0 {
		m.webhooks.Reset()
		return
	}
	m.webhooks.WithLabelValues("active").Set(float64(leases.Active))
	m.webhooks.WithLabelValues("disabled").Set(float64(leases.Disabled))
}
