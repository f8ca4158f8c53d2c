package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
)

// TestVerifySchedule returns the scheduled verification the checkpoints to read and
// the public key, and neither the secret one nor a right to write them.
func TestVerifySchedule(t *testing.T) {
	job := get[batch.CronJob](t, render(t, "spendgate", values{
		"checkpoints": values{"claim": "proofs"},
		"verify":      values{"enabled": true, "publicKey": "PUBLIC", "textfileDir": "/metrics", "schedule": "0 4 * * *"},
	}), "CronJob spendgate-verify")
	pod := job.Spec.JobTemplate.Spec.Template
	container := pod.Spec.Containers[0]
	if job.Spec.Schedule != "0 4 * * *" || job.Spec.ConcurrencyPolicy != batch.ForbidConcurrent ||
		pod.Spec.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("runs %q, %q, %q", job.Spec.Schedule, job.Spec.ConcurrencyPolicy, pod.Spec.RestartPolicy)
	}
	mounts := make(map[string]core.VolumeMount)
	for _, m := range container.VolumeMounts {
		mounts[m.Name] = m
	}
	want := []string{
		"audit", "verify", "--checkpoint=" + mounts["checkpoints"].MountPath, "--public-key=PUBLIC",
		"--metrics-file=" + mounts["metrics"].MountPath + "/spendgate.prom",
	}
	if !slices.Equal(container.Args, want) || !mounts["checkpoints"].ReadOnly {
		t.Errorf("runs %q with %+v", container.Args, mounts)
	}
	for _, v := range container.Env {
		if strings.Contains(v.Name, "CHECKPOINT_KEY") {
			t.Error("it has the key that signs")
		}
	}
	if !*container.SecurityContext.ReadOnlyRootFilesystem || !*pod.Spec.SecurityContext.RunAsNonRoot {
		t.Error("it has rights")
	}
	bare := get[batch.CronJob](t, render(t, "spendgate", values{"verify": values{"enabled": true}}), "CronJob spendgate-verify")
	if got := bare.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args; !slices.Equal(got, []string{"audit", "verify"}) {
		t.Errorf("without checkpoints: %q", got)
	}
}

// TestComposeVerify: the verification runs when it is asked for, and not with the fleet.
func TestComposeVerify(t *testing.T) {
	if _, runs := project(t).Services["verify"]; runs {
		t.Error("it runs with the fleet")
	}
	options, err := cli.NewProjectOptions([]string{"../compose.yaml"}, cli.WithResolvedPaths(true), cli.WithProfiles([]string{"verify"}))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := p.Services["verify"]
	if !slices.Equal(s.Command, types.ShellCommand{"audit", "verify"}) || len(s.Secrets) != 1 || s.Restart != "no" || !s.ReadOnly {
		t.Errorf("got %+v", s)
	}
}
