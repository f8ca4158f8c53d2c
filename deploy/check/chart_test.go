package check

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

func TestChartHasNoFaults(t *testing.T) {
	for _, v := range []values{nil, everything(), nothing()} {
		kube := chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}
		for _, message := range lint.AllWithKubeVersion(chartDir, v, "money", &kube).Messages {
			if message.Severity > support.InfoSev {
				t.Error(message)
			}
		}
	}
}

func TestKinds(t *testing.T) {
	always := []string{"Deployment spendgate", "PodDisruptionBudget spendgate", "Service spendgate", "Service spendgate-operations"}
	usual := []string{"HorizontalPodAutoscaler spendgate", "Job spendgate-migrate", "NetworkPolicy spendgate"}
	optional := []string{
		"ConfigMap spendgate-dashboard", "CronJob spendgate-verify", "Deployment spendgate-gateway", "Deployment spendgate-probe",
		"Ingress spendgate", "PodDisruptionBudget spendgate-gateway", "PrometheusRule spendgate",
		"PrometheusRule spendgate-dependencies", "Service spendgate-gateway", "Service spendgate-probe",
		"ServiceMonitor spendgate", "ServiceMonitor spendgate-gateway", "ServiceMonitor spendgate-probe",
	}
	for name, c := range map[string]struct {
		v    values
		want []string
	}{
		"as it is":   {nil, slices.Concat(always, usual)},
		"everything": {everything(), slices.Concat(always, usual, optional)},
		"nothing":    {nothing(), always},
	} {
		slices.Sort(c.want)
		if got := slices.Sorted(maps.Keys(render(t, "spendgate", c.v))); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	render(t, strings.Repeat("a-long-name-", 4)+"end", everything()) // 53 is Helm's limit
	get[apps.Deployment](t, render(t, "blue", nil), "Deployment blue-spendgate")
}

// Unknown and invalid values are refused.
func TestValues(t *testing.T) {
	for name, v := range map[string]values{
		"misspelt":        {"replica": 3},
		"misspelt within": {"autoscaling": values{"max": 3}},
		"no secret":       {"secretName": ""},
		"no such level":   {"logLevel": "trace"},
		"too seldom":      {"checkpoints": values{"interval": "1h"}},
		"6 minutes":       {"checkpoints": values{"interval": "6m"}},
		"301 seconds":     {"checkpoints": values{"interval": "301s"}},
		"no interval":     {"checkpoints": values{"interval": "0s"}},
		"verify unkeyed":  {"checkpoints": values{"claim": "proofs"}, "verify": values{"enabled": true}},
		"no host":         {"ingress": values{"enabled": true}, "trustedProxies": []any{"10.0.0.0/8"}},
		"one address":     {"ingress": values{"enabled": true, "host": "spend.example.com"}},
		"no console":      {"signIn": everything()["signIn"]},
		"no client":       {"signIn": values{"issuer": "https://id.example.com"}, "console": values{"enabled": true}},
		"no digest":       {"image": values{"digest": "latest"}},
		"nowhere to sign": {"checkpoints": values{"schedule": "5 * * * *"}},
		"no egress":       {"networkPolicy": values{"egressPorts": []any{}}},
	} {
		if _, err := tryRender("spendgate", v); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, interval := range []string{"1s", "90s", "300s", "5m"} {
		if _, err := tryRender("spendgate", values{"checkpoints": values{"interval": interval}}); err != nil {
			t.Errorf("checkpoints every %s: %v", interval, err)
		}
	}
}

// pods returns the templates of the pods that an installation runs.
func pods(t *testing.T, m manifests) map[string]core.PodTemplateSpec {
	t.Helper()
	all := make(map[string]core.PodTemplateSpec)
	for name, object := range m {
		switch o := object.(type) {
		case *apps.Deployment:
			all[name] = o.Spec.Template
		case *batch.Job:
			all[name] = o.Spec.Template
		case *batch.CronJob:
			all[name] = o.Spec.JobTemplate.Spec.Template
		}
	}
	return all
}

// settings returns the names in the table of docs/operate/settings.md.
func settings(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../../docs/operate/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, found := range regexp.MustCompile("(?m)^\\| `(SPENDGATE_[A-Z_]+)` \\|").FindAllSubmatch(page, -1) {
		known[string(found[1])], known[string(found[1])+"_FILE"] = true, true
	}
	if len(known) < 10 {
		t.Fatalf("docs/operate/settings.md names %d settings", len(known)/2)
	}
	return known
}

// No pod has more rights than it needs, and its environment is what the
// program knows: the variables of a Service would stop a node from starting.
func TestPods(t *testing.T) {
	known := settings(t)
	for name, pod := range pods(t, render(t, "spendgate", everything())) {
		spec, container := pod.Spec, pod.Spec.Containers[0]
		if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
			t.Errorf("%s: variables of Services get into its environment", name)
		}
		if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
			t.Errorf("%s: has a token", name)
		}
		security, own := spec.SecurityContext, container.SecurityContext
		if !*security.RunAsNonRoot || *security.RunAsUser == 0 || !*own.ReadOnlyRootFilesystem || *own.AllowPrivilegeEscalation ||
			!slices.Equal(own.Capabilities.Drop, []core.Capability{"ALL"}) || security.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: has rights: %+v %+v", name, security, own)
		}
		secret := "spendgate"
		switch {
		case strings.HasSuffix(name, "-migrate"):
			secret = "spendgate-owner" // which nobody else has
		case strings.HasSuffix(name, "-gateway"):
			secret = "spendgate-gateway"
		}
		if volume := spec.Volumes[0].Secret; volume.SecretName != secret || *volume.DefaultMode != 0o440 ||
			*security.FSGroup != *security.RunAsGroup {
			t.Errorf("%s: cannot read its secrets, or others can: %+v", name, volume)
		}
		mount := container.VolumeMounts[0]
		for _, variable := range container.Env {
			if !known[variable.Name] && !strings.HasPrefix(variable.Name, "OTEL_") {
				t.Errorf("%s: %s is no setting", name, variable.Name)
			}
			if strings.HasSuffix(variable.Name, "_FILE") && !strings.HasPrefix(variable.Value, mount.MountPath+"/") {
				t.Errorf("%s: %s is not in %s", name, variable.Value, mount.MountPath)
			}
			if secret := regexp.MustCompile(`_(KEY|SECRET|REDIS_URL|DATABASE_URL)$`); secret.MatchString(variable.Name) {
				t.Errorf("%s: %s is a secret and not a file", name, variable.Name)
			}
		}
		if container.Image != "registry.internal/spendgate:v9" || container.Resources.Requests.Cpu().IsZero() ||
			container.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: image %s, resources %+v", name, container.Image, container.Resources)
		}
	}
}

// Tracing can be switched on, its headers from a Secret.
func TestVariablesOfTheOperator(t *testing.T) {
	d := get[apps.Deployment](t, render(t, "spendgate", everything()), "Deployment spendgate")
	env := d.Spec.Template.Spec.Containers[0].Env
	if last := env[len(env)-2:]; last[0].Value != "http://collector:4318" || last[1].ValueFrom.SecretKeyRef.Name != "collector" {
		t.Errorf("got %+v", last)
	}
	if _, err := tryRender("spendgate", values{"env": []any{values{"value": "x"}}}); err == nil {
		t.Error("a variable without a name is taken")
	}
}

// G11: a rollout takes a node out of rotation before it stops accepting
// connections, and leaves it time to finish.
func TestRolloutFailsNoRequest(t *testing.T) {
	const stopsWithin = 10 // seconds after SIGTERM
	for name, v := range map[string]values{"as it is": nil, "no pause": {"preStopSeconds": 0}, "a long pause": {"preStopSeconds": 30}} {
		d := get[apps.Deployment](t, render(t, "spendgate", v), "Deployment spendgate")
		spec, container := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
		pause := int64(0)
		if container.Lifecycle != nil {
			pause = container.Lifecycle.PreStop.Sleep.Seconds
		}
		if want := map[string]int64{"as it is": 5, "a long pause": 30}[name]; pause != want {
			t.Errorf("%s: pauses for %d s", name, pause)
		}
		if *spec.TerminationGracePeriodSeconds < pause+stopsWithin+5 {
			t.Errorf("%s: is killed after %d s", name, *spec.TerminationGracePeriodSeconds)
		}
		if ready := container.ReadinessProbe; ready.HTTPGet.Path != "/readyz" || ready.PeriodSeconds*ready.FailureThreshold >= 3 ||
			ready.TimeoutSeconds <= 2 {
			t.Errorf("%s: readiness %+v", name, ready)
		}
		for _, probe := range []*core.Probe{container.LivenessProbe, container.StartupProbe} {
			if probe.HTTPGet.Path != "/livez" || probe.HTTPGet.Port.StrVal != "operations" {
				t.Errorf("%s: liveness %+v", name, probe)
			}
		}
		if rolling := d.Spec.Strategy.RollingUpdate; rolling.MaxUnavailable.IntVal != 0 || rolling.MaxSurge.IntVal != 1 {
			t.Errorf("%s: %+v", name, rolling)
		}
	}
}

// Selectors of pods select the pods of nodes, and no others.
func TestSelectors(t *testing.T) {
	m := render(t, "spendgate", everything())
	d := get[apps.Deployment](t, m, "Deployment spendgate")
	usual := get[apps.Deployment](t, render(t, "spendgate", nil), "Deployment spendgate").Spec.Template.Spec
	node, migration := d.Spec.Template.Labels, get[batch.Job](t, m, "Job spendgate-migrate").Spec.Template.Labels
	probe := get[apps.Deployment](t, m, "Deployment spendgate-probe").Spec.Template.Labels
	spread := d.Spec.Template.Spec.TopologySpreadConstraints[0]
	apart := usual.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
	operations := get[core.Service](t, m, "Service spendgate-operations")
	for what, selector := range map[string]map[string]string{
		"the deployment":      d.Spec.Selector.MatchLabels,
		"the zones":           spread.LabelSelector.MatchLabels,
		"the machines":        apart.LabelSelector.MatchLabels,
		"the API":             get[core.Service](t, m, "Service spendgate").Spec.Selector,
		"the operations":      operations.Spec.Selector,
		"the disruptions":     get[policy.PodDisruptionBudget](t, m, "PodDisruptionBudget spendgate").Spec.Selector.MatchLabels,
		"the network's rules": get[networking.NetworkPolicy](t, m, "NetworkPolicy spendgate").Spec.PodSelector.MatchLabels,
	} {
		if !selects(selector, node) || selects(selector, migration) || selects(selector, probe) {
			t.Errorf("%s: %v selects nodes: %v, the migration: %v, the probe: %v", what, selector,
				selects(selector, node), selects(selector, migration), selects(selector, probe))
		}
	}

	monitor := get[monitoring.ServiceMonitor](t, m, "ServiceMonitor spendgate").Spec
	api := get[core.Service](t, m, "Service spendgate")
	if !selects(monitor.Selector.MatchLabels, operations.Labels) || selects(monitor.Selector.MatchLabels, api.Labels) {
		t.Errorf("%v selects other than the operations", monitor.Selector.MatchLabels)
	}
	if operations.Labels[monitor.JobLabel] != "spendgate" || monitor.Endpoints[0].Port != operations.Spec.Ports[0].Name {
		t.Errorf("scrapes %q as job %q", monitor.Endpoints[0].Port, operations.Labels[monitor.JobLabel])
	}
	// The probe is scraped as the job of its alert, and the network's rules let it reach the API.
	monitor = get[monitoring.ServiceMonitor](t, m, "ServiceMonitor spendgate-probe").Spec
	metrics := get[core.Service](t, m, "Service spendgate-probe")
	if !selects(monitor.Selector.MatchLabels, metrics.Labels) || selects(monitor.Selector.MatchLabels, operations.Labels) ||
		!selects(metrics.Spec.Selector, probe) || *monitor.Endpoints[0].RelabelConfigs[0].Replacement != "spendgate-probe" {
		t.Errorf("the probe is scraped by %+v, as %+v", monitor.Selector.MatchLabels, monitor.Endpoints[0].RelabelConfigs[0])
	}
	from := get[networking.NetworkPolicy](t, m, "NetworkPolicy spendgate").Spec.Ingress[0].From
	if last := from[len(from)-1].PodSelector; last == nil || !selects(last.MatchLabels, probe) {
		t.Errorf("the probe does not reach the API: %+v", from)
	}

	scale := get[autoscaling.HorizontalPodAutoscaler](t, m, "HorizontalPodAutoscaler spendgate")
	if scale.Spec.ScaleTargetRef.Name != d.Name || d.Spec.Replicas != nil {
		t.Errorf("%s is scaled, and %v replicas are set", scale.Spec.ScaleTargetRef.Name, d.Spec.Replicas)
	}
	fixed := get[apps.Deployment](t, render(t, "spendgate", nothing()), "Deployment spendgate")
	if fixed.Spec.Replicas == nil || *fixed.Spec.Replicas != 5 {
		t.Errorf("%v replicas", fixed.Spec.Replicas)
	}
}

func selects(selector, labels map[string]string) bool {
	if len(selector) == 0 {
		return false
	}
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// Ports that are named are a node's.
func TestPorts(t *testing.T) {
	m := render(t, "spendgate", everything())
	container := get[apps.Deployment](t, m, "Deployment spendgate").Spec.Template.Spec.Containers[0]
	named := make(map[string]string)
	for _, port := range container.Ports {
		named[port.Name] = fmt.Sprintf(":%d", port.ContainerPort)
	}
	var listens []string
	for _, variable := range container.Env {
		if strings.HasSuffix(variable.Name, "_ADDR") {
			listens = append(listens, variable.Value)
		}
	}
	if got := []string{named["http"], named["operations"]}; !slices.Equal(got, listens) {
		t.Errorf("listens on %q, ports are %q", listens, named)
	}
	uses := []string{
		get[core.Service](t, m, "Service spendgate").Spec.Ports[0].TargetPort.StrVal,
		get[core.Service](t, m, "Service spendgate-operations").Spec.Ports[0].TargetPort.StrVal,
	}
	rules := get[networking.NetworkPolicy](t, m, "NetworkPolicy spendgate").Spec
	for i, rule := range rules.Ingress {
		uses = append(uses, rule.Ports[0].Port.StrVal)
		if len(rule.From) != 3-2*i { // the probe and gateways ask the API, too
			t.Errorf("%s is open to %v", rule.Ports[0].Port.StrVal, rule.From)
		}
	}
	if !slices.Equal(uses, []string{"http", "operations", "http", "operations"}) {
		t.Errorf("uses ports %q", uses)
	}
	if len(rules.Egress) != 2 || len(rules.Egress[1].Ports) != 4 {
		t.Errorf("egress %+v", rules.Egress)
	}
}

// The notes after an installation say that webhooks reach nobody unless the network policy permits
// it.
func TestNotesTellOfWebhooks(t *testing.T) {
	for name, c := range map[string]struct {
		v    values
		told bool
	}{"as it is": {nil, true}, "everything": {everything(), false}, "nothing": {nothing(), false}} {
		files, err := tryRender("spendgate", c.v)
		if told := strings.Contains(files["spendgate/templates/NOTES.txt"], "networkPolicy.webhookPorts"); err != nil || told != c.told {
			t.Errorf("%s: told %v, %v", name, told, err)
		}
	}
}

// The schema is there before a node of the new version.
func TestMigration(t *testing.T) {
	job := get[batch.Job](t, render(t, "spendgate", nil), "Job spendgate-migrate")
	if secret := job.Spec.Template.Spec.Volumes[0].Secret.SecretName; secret != "spendgate" {
		t.Errorf("with one role it reads %s", secret)
	}
	owner := get[batch.Job](t, render(t, "spendgate", everything()), "Job spendgate-migrate").Spec.Template.Spec
	if args := owner.Containers[0].Args; !slices.Equal(args, []string{"migrate", "--service=spendgate"}) {
		t.Errorf("with two roles it runs %q", args)
	}
	if hook := job.Annotations["helm.sh/hook"]; hook != "pre-install,pre-upgrade" {
		t.Errorf("runs at %s", hook)
	}
	pod := job.Spec.Template.Spec
	if args := pod.Containers[0].Args; !slices.Equal(args, []string{"migrate"}) || pod.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("runs %q", args)
	}
}

// The rules and the dashboard are the files of deploy, with the runbook's address.
func TestMonitoring(t *testing.T) {
	m := render(t, "spendgate", everything())
	for file, name := range map[string]string{"rules": "spendgate", "dependencies": "spendgate-dependencies"} {
		var want monitoring.PrometheusRuleSpec
		content, err := os.ReadFile("../prometheus/" + file + ".yaml")
		if err == nil {
			err = yaml.UnmarshalStrict(content, &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		got := get[monitoring.PrometheusRule](t, m, "PrometheusRule "+name).Spec
		alerts := 0
		for i, group := range want.Groups {
			for j, rule := range group.Rules {
				made := got.Groups[i].Rules[j]
				if made.Expr != rule.Expr || made.Alert != rule.Alert {
					t.Errorf("got %v, want %v", made, rule)
				}
				if url := made.Annotations["runbook_url"]; rule.Alert != "" {
					alerts++
					if url != "https://runbooks.internal/spendgate/runbook.md#"+strings.ToLower(rule.Alert) {
						t.Errorf("%s leads to %s", rule.Alert, url)
					}
				}
			}
		}
		if alerts == 0 {
			t.Errorf("%s: no alerts", file)
		}
	}
	dashboard, err := os.ReadFile("../grafana/spendgate.json")
	if err != nil {
		t.Fatal(err)
	}
	board := get[core.ConfigMap](t, m, "ConfigMap spendgate-dashboard").Data["spendgate.json"]
	if strings.TrimSpace(board) != strings.TrimSpace(string(dashboard)) {
		t.Error("the dashboard is another")
	}
}
