package check

import (
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
)

// Volumes of the operator are in every pod, and the affinity replaces the chart's.
func TestPlacing(t *testing.T) {
	all := render(t, "spendgate", everything())
	for name, pod := range pods(t, all) {
		volumes, mounts := pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts
		if volumes[1].ConfigMap == nil || volumes[1].ConfigMap.Name != "authorities" || mounts[1].MountPath != "/etc/authorities" {
			t.Errorf("%s: has not the volume: %+v, %+v", name, volumes, mounts)
		}
	}
	affinity := func(v values) *core.Affinity {
		return get[apps.Deployment](t, render(t, "spendgate", v), "Deployment spendgate").Spec.Template.Spec.Affinity
	}
	if a := affinity(everything()); a.NodeAffinity == nil || a.PodAntiAffinity != nil {
		t.Errorf("its own affinity is %+v", a)
	}
	if a := affinity(nil); a.PodAntiAffinity == nil {
		t.Errorf("the affinity is %+v", a)
	}
}

// A digest names the image whatever the tag.
func TestDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	image := values{"repository": "r/spendgate", "tag": "v9", "digest": digest}
	for name, pod := range pods(t, render(t, "spendgate", values{"image": image})) {
		if image := pod.Spec.Containers[0].Image; image != "r/spendgate@"+digest {
			t.Errorf("%s: image %s", name, image)
		}
	}
}

// The ingress leads to the API and never to the operations.
func TestIngress(t *testing.T) {
	all := render(t, "spendgate", everything())
	spec := get[networking.Ingress](t, all, "Ingress spendgate").Spec
	service := spec.Rules[0].HTTP.Paths[0].Backend.Service
	if *spec.IngressClassName != "edge" || spec.Rules[0].Host != "spend.example.com" || spec.TLS[0].SecretName != "edge-tls" ||
		spec.TLS[0].Hosts[0] != "spend.example.com" {
		t.Errorf("got %+v", spec)
	}
	if ports := get[core.Service](t, all, "Service "+service.Name).Spec.Ports; len(spec.Rules) != 1 || len(ports) != 1 ||
		ports[0].Name != service.Port.Name ||
		ports[0].TargetPort.StrVal != "http" {
		t.Errorf("leads to %+v", service)
	}
}
