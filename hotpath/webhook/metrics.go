package webhook

import (
	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
)

type metrics struct {
	deliveries *prometheus.CounterVec
	webhooks   *prometheus.GaugeVec
	waiting    prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer, oldest, behind func() float64) *metrics {
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "spendgate", Subsystem: "webhook", Name: "deliveries_total",
			Help: "Attempts to deliver events to webhooks, by result: delivered, failed (tried again), given_up, gone (410).",
		}, []string{"result"}),
		webhooks: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "spendgate", Name: "webhooks",
			Help: "Webhooks of the deployment, by status.",
		}, []string{"status"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "spendgate", Subsystem: "webhook", Name: "retries_waiting",
			Help: "Events that wait to be tried again, of all active webhooks of the deployment; counted up to 10,000.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.deliveries, m.webhooks, m.waiting, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "spendgate", Subsystem: "webhook", Name: "unread_events",
			Help: "Numbers of the feed after the last event that was tried, of the webhook furthest behind that this node holds.",
		}, behind), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "spendgate", Subsystem: "webhook", Name: "oldest_undelivered_seconds",
			Help: "How long ago the event happened that waits longest to be delivered to a webhook that this node holds; 0 when none waits.",
		}, oldest))
	}
	return m
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
