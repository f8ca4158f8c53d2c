package check

import (
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
)

// Gateways are scraped as the job of their alerts, reach the API, and have tokens of agents.
func TestGateways(t *testing.T) {
	m := render(t, "spendgate", everything())
	from := get[networking.NetworkPolicy](t, m, "NetworkPolicy spendgate").Spec.Ingress[0].From
	gateway := get[apps.Deployment](t, m, "Deployment spendgate-gateway").Spec.Template
	if of := from[len(from)-2].PodSelector; of == nil || !selects(of.MatchLabels, gateway.Labels) {
		t.Errorf("gateways do not reach the API: %+v", from)
	}
	if last := gateway.Spec.Volumes[len(gateway.Spec.Volumes)-1]; last.Secret == nil || last.Secret.SecretName != "spendgate-gateway-agents" {
		t.Errorf("gateways have no agents' tokens: %+v", last)
	}
	monitor := get[monitoring.ServiceMonitor](t, m, "ServiceMonitor spendgate-gateway").Spec
	metrics := get[core.Service](t, m, "Service spendgate-gateway")
	budget := get[policy.PodDisruptionBudget](t, m, "PodDisruptionBudget spendgate-gateway").Spec.Selector.MatchLabels
	if !selects(monitor.Selector.MatchLabels, metrics.Labels) || !selects(metrics.Spec.Selector, gateway.Labels) ||
		!selects(budget, gateway.Labels) || *monitor.Endpoints[0].RelabelConfigs[0].Replacement != "spendgate-gateway" {
		t.Errorf("gateways are scraped by %+v, as %+v", monitor.Selector.MatchLabels, monitor.Endpoints[0].RelabelConfigs[0])
	}
}
