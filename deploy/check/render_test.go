package check

import (
	"errors"
	"io"
	"log"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const chartDir = "../helm/spendgate"

// Helm warns of symbolic links, which are intended: the chart has no copy of the
// rules and the dashboard.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// values are the settings of an installation.
type values = map[string]any

// everything enables all optional parts and sets every value.
func everything() values {
	peer := []any{values{"namespaceSelector": values{"matchLabels": values{"team": "edge"}}}}
	return values{
		"image":            values{"repository": "registry.internal/spendgate", "tag": "v9"},
		"imagePullSecrets": []any{values{"name": "registry"}},
		"trustedProxies":   []any{"10.0.0.0/8", "192.0.2.1"},
		"networkPolicy":    values{"apiFrom": peer, "operationsFrom": peer, "egressPorts": []any{26379, 6379, 5432}, "webhookPorts": []any{443}},
		"service":          values{"type": "LoadBalancer", "annotations": values{"a": "b"}},
		"monitoring": values{
			"serviceMonitor": values{"enabled": true, "labels": values{"release": "prometheus"}},
			"rules":          values{"enabled": true, "labels": values{"release": "prometheus"}},
			"dependencies":   values{"enabled": true},
			"dashboard":      values{"enabled": true},
			"runbookURL":     "https://runbooks.internal/spendgate/",
		},
		"console": values{"enabled": true, "url": "https://spend.example.com/console/"},
		"signIn": values{
			"issuer": "https://id.example.com", "clientId": "spendgate", "redirectUrl": "https://spend.example.com/console/callback",
			"roles": []any{values{"group": "approvers", "role": "approver"}},
		},
		"probe":          values{"enabled": true},
		"gateway":        values{"enabled": true},
		"verify":         values{"enabled": true, "textfileDir": "/var/lib/node-exporter"},
		"podAnnotations": values{"a": "b"},
		"env": []any{
			values{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4318"},
			values{"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": values{"secretKeyRef": values{"name": "collector", "key": "headers"}}},
		},
		"nodeSelector": values{"disk": "ssd"},
		"tolerations":  []any{values{"key": "money", "operator": "Exists"}},
		"ingress": values{
			"enabled": true, "className": "edge", "host": "spend.example.com", "tlsSecretName": "edge-tls", "annotations": values{"a": "b"},
		},
		"migrate":           values{"secretName": "spendgate-owner", "serviceRole": "spendgate"},
		"affinity":          values{"nodeAffinity": values{}},
		"extraVolumes":      []any{values{"name": "authorities", "configMap": values{"name": "authorities"}}},
		"extraVolumeMounts": []any{values{"name": "authorities", "mountPath": "/etc/authorities", "readOnly": true}},
	}
}

// nothing disables all optional parts.
func nothing() values {
	off := func() values { return values{"enabled": false} }
	return values{"autoscaling": off(), "migrate": off(), "networkPolicy": off(), "preStopSeconds": 0, "replicas": 5}
}

// manifests are the objects of an installation, by kind and name.
type manifests map[string]any

// blank returns an empty object of a kind that the chart may make.
func blank(apiVersion, kind string) any {
	switch apiVersion + " " + kind {
	case "apps/v1 Deployment":
		return &apps.Deployment{}
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return &autoscaling.HorizontalPodAutoscaler{}
	case "batch/v1 CronJob":
		return &batch.CronJob{}
	case "batch/v1 Job":
		return &batch.Job{}
	case "monitoring.coreos.com/v1 PrometheusRule":
		return &monitoring.PrometheusRule{}
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return &monitoring.ServiceMonitor{}
	case "networking.k8s.io/v1 Ingress":
		return &networking.Ingress{}
	case "networking.k8s.io/v1 NetworkPolicy":
		return &networking.NetworkPolicy{}
	case "policy/v1 PodDisruptionBudget":
		return &policy.PodDisruptionBudget{}
	case "v1 ConfigMap":
		return &core.ConfigMap{}
	case "v1 Service":
		return &core.Service{}
	}
	return nil
}

func tryRender(release string, v values) (map[string]string, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}
	all, err := chartutil.ToRenderValues(chart, v, chartutil.ReleaseOptions{Name: release, Namespace: "money"}, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// render returns an installation's objects, each decoded strictly: a field that
// Kubernetes does not have, or one given twice, is an error.
func render(t *testing.T, release string, v values) manifests {
	t.Helper()
	files, err := tryRender(release, v)
	if err != nil {
		t.Fatal(err)
	}
	all := make(manifests)
	for path, content := range files {
		if strings.HasSuffix(path, "NOTES.txt") {
			continue
		}
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(content, -1) {
			var head struct {
				APIVersion string
				Kind       string
				Metadata   struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(document), &head); err != nil {
				t.Fatalf("%s: %v\n%s", path, err, document)
			}
			if head.Kind == "" {
				continue
			}
			object := blank(head.APIVersion, head.Kind)
			if object == nil {
				t.Fatalf("%s: no type for %s %s", path, head.APIVersion, head.Kind)
			}
			if err := decode(document, object); err != nil {
				t.Errorf("%s: %v\n%s", path, err, document)
			}
			if len(head.Metadata.Name) > 63 {
				t.Errorf("%s: the name %s is too long", path, head.Metadata.Name)
			}
			all[head.Kind+" "+head.Metadata.Name] = object
		}
	}
	return all
}

// decode accepts only fields that Kubernetes has.
func decode(document string, object any) error {
	content, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(content, object)
	return errors.Join(append(strict, err)...)
}

// get returns an object that must exist.
func get[T any](t *testing.T, m manifests, name string) *T {
	t.Helper()
	object, ok := m[name].(*T)
	if !ok {
		t.Fatalf("no %s among %q", name, slices.Sorted(maps.Keys(m)))
	}
	return object
}
