package check

import (
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
)

// TestCheckpoints: each node has a volume and a key for signed checkpoints, and a file of its own;
// the migration has neither. Without a claim there are no checkpoints.
func TestCheckpoints(t *testing.T) {
	all := render(t, "spendgate", values{"checkpoints": values{"claim": "proofs", "interval": "30s", "schedule": "5 * * * *"}})
	for name, pod := range pods(t, all) {
		has := slices.ContainsFunc(pod.Spec.Volumes, func(v core.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "proofs"
		})
		if want := !strings.HasSuffix(name, "-migrate"); has != want {
			t.Errorf("%s: has the volume %v, want %v", name, has, want)
		}
	}
	node := get[apps.Deployment](t, all, "Deployment spendgate").Spec.Template.Spec.Containers[0]
	env := make(map[string]string)
	for _, variable := range node.Env {
		env[variable.Name] = variable.Value
	}
	mount := slices.IndexFunc(node.VolumeMounts, func(m core.VolumeMount) bool { return m.Name == "checkpoints" && !m.ReadOnly })
	if mount < 0 || env["SPENDGATE_CHECKPOINT_FILE"] != node.VolumeMounts[mount].MountPath+"/$(POD_NAME).jsonl" {
		t.Errorf("no file in a volume: %v, %v", node.VolumeMounts, env)
	}
	if env["SPENDGATE_CHECKPOINT_INTERVAL"] != "30s" ||
		env["SPENDGATE_CHECKPOINT_KEY_FILE"] != node.VolumeMounts[0].MountPath+"/checkpoint-key" {
		t.Errorf("settings %v", env)
	}
	// A variable is expanded only behind the one that it is made of.
	at := func(name string) int {
		return slices.IndexFunc(node.Env, func(v core.EnvVar) bool { return v.Name == name })
	}
	if at("POD_NAME") < 0 || at("POD_NAME") > at("SPENDGATE_CHECKPOINT_FILE") {
		t.Error("the name of the pod is not known where the file is named")
	}
	job := get[batch.CronJob](t, all, "CronJob spendgate-checkpoint").Spec
	signs := job.JobTemplate.Spec.Template.Spec.Containers[0]
	env = make(map[string]string)
	for _, variable := range signs.Env {
		env[variable.Name] = variable.Value
	}
	if job.Schedule != "5 * * * *" || !slices.Equal(signs.Args, []string{"audit", "checkpoint"}) ||
		env["SPENDGATE_CHECKPOINT_KEY_FILE"] == "" ||
		env["SPENDGATE_CHECKPOINT_FILE"] != signs.VolumeMounts[1].MountPath+"/schedule.jsonl" || signs.VolumeMounts[1].ReadOnly {
		t.Errorf("at %s %q with %v", job.Schedule, signs.Args, env)
	}
	without := get[apps.Deployment](t, render(t, "spendgate", nothing()), "Deployment spendgate").Spec.Template.Spec
	if len(without.Volumes) != 1 || len(without.Containers[0].VolumeMounts) != 1 {
		t.Errorf("without a claim: %v", without.Volumes)
	}
}
