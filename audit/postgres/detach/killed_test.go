package detach

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// TestDetachKilled kills the process between each two steps that write. The day is then
// attached or has a complete archive, nothing is lost, and another run finishes (G8).
func TestDetachKilled(t *testing.T) {
	for _, step := range []string{"close", "archive", "verify", "detach", "reread", "drop"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			o := newOldDays(t)
			if step == "archive" {
				leaveHalf(t, o.dir, "checks-"+o.first.Format(time.DateOnly))
			}
			killAt(t, step, "checks", o.url, o.dir, o.before())
			if late := step == "reread" || step == "drop"; (o.attached(t) == 2) == late {
				t.Errorf("%d days are attached", o.attached(t))
			}
			o.mustBeClean(t)
			if _, found, err := o.detach(t, func(d *Options) { d.Drop = true }); err != nil || len(found) > 0 {
				t.Fatalf("the next run: %v %v", found, err)
			}
			if o.attached(t) != 0 {
				t.Errorf("%d days are attached after the next run", o.attached(t))
			}
			o.mustBeClean(t)
		})
	}
}

// leaveHalf leaves what a process may that was killed while it archived: a file
// without a manifest, and one half written.
func leaveHalf(t *testing.T, dir, name string) {
	t.Helper()
	for _, suffix := range []string{".jsonl.gz", ".jsonl.gz.part", ".manifest.json.part"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name+suffix), []byte("half a file"), 0o600))
	}
}

// killAt detaches checks or violations in a process that is killed at a step.
func killAt(t *testing.T, step, of, url, dir string, before time.Time) {
	t.Helper()
	killed := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUntilKilled$")
	killed.Env = append(os.Environ(), "TEST_DETACH="+strings.Join([]string{step, of, url, dir, before.Format(time.DateOnly)}, "\n"))
	out, err := killed.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("not killed: %v\n%s", err, out)
	}
}

// TestUntilKilled is the process of killAt.
func TestUntilKilled(t *testing.T) {
	if os.Getenv("TEST_DETACH") == "" {
		t.Skip("only as a process of killAt")
	}
	args := strings.Split(os.Getenv("TEST_DETACH"), "\n")
	before, err := time.Parse(time.DateOnly, args[4])
	must.Do(t, err)
	passed := ""
	detach := map[string]func(context.Context, Options) error{
		"checks": Checks, "batches": Checks, "violations": Violations,
	}[args[1]]
	err = detach(t.Context(), Options{
		URL: args[2], Dir: args[3], Before: before, Drop: true, Now: time.Now(), atOnce: 4, Fold: args[1] == "batches", Key: foldingKey(t),
		Report: func(Detached) {}, Found: func(f verify.Finding) { t.Error(f) },
		step: func(step string) {
			if step == passed {
				step += " again"
			}
			if passed = step; step == args[0] {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
	})
	t.Fatal("it came to its end", err)
}
