package auditcmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spendgate/audit/verify"
	"spendgate/bench/must"
	"spendgate/cmd/spendgate/cli"
)

// TestVerdict: the verdict says up to when it vouches for the trail, and never calls a trail
// clean in which nothing was found.
func TestVerdict(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	ranged := verification{from: cli.TimeFlag{At: at(0)}}
	for name, c := range map[string]struct {
		v    verification
		s    verify.Summary
		want string
		err  string
	}{
		"counts": {
			s:    verify.Summary{Checks: 1, Violations: 2, Batches: 3, Chains: 4, Policies: 5, Keys: 6, Changes: 7, LastCheck: at(7)},
			want: "verified 1 checks and 2 violations in 3 batches of 4 chains, and 5 policies and 6 keys by 7 changes\n",
		},
		"without checkpoints": {
			s:    verify.Summary{Checks: 5, LastCheck: at(7)},
			want: "clean as far as it can be told: what is there, up to the check of 2026-03-01T12:07:00Z,",
		},
		"all before the checkpoint": {
			s: verify.Summary{Checks: 5, LastCheck: at(7), Checkpoints: 2, LastCheckpoint: at(8)},
			want: "clean up to the checkpoint of 2026-03-01T12:08:00Z: everything until then is as it was recorded. " +
				"Whether more was recorded later does not show\n",
		},
		"some behind the checkpoint": {
			s:    verify.Summary{Checks: 5, LastCheck: at(9), Checkpoints: 2, LastCheckpoint: at(8)},
			want: "up to the check of 2026-03-01T12:09:00Z, is too; whether more was recorded later does not show",
		},
		"acknowledged": {
			s: verify.Summary{
				Checks: 5, LastCheck: at(7), Checkpoints: 2, LastCheckpoint: at(8), Findings: map[verify.Kind]int64{verify.Acknowledged: 3},
			},
			want: "clean, but for 3 acknowledged losses up to the checkpoint",
		},
		"nothing":            {err: "NOTHING WAS VERIFIED"},
		"nothing in a range": {v: ranged, want: "clean: no check was recorded there"},
		"findings": {
			s:   verify.Summary{Checks: 5, Findings: map[verify.Kind]int64{verify.Altered: 1, verify.Acknowledged: 1}},
			err: "not as it was recorded: 1 acknowledged, 1 altered",
		},
		"what was not checked": {
			s:   verify.Summary{Checks: 5, Findings: map[verify.Kind]int64{verify.Unchecked: 2}},
			err: "not all of the trail could be checked: 2 unchecked",
		},
	} {
		var out strings.Builder
		err := c.v.tell(&out, c.s)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
		if err != nil && strings.Contains(out.String(), "clean") {
			t.Errorf("%s: called clean", name)
		}
	}
}

// TestVerifyMetrics: failed verifications keep the time of the last successful one.
func TestVerifyMetrics(t *testing.T) {
	file := filepath.Join(t.TempDir(), "verify.prom")
	run := func(at int64, s verify.Summary, failed error, want ...string) {
		t.Helper()
		must.Do(t, writeMetrics(file, "", s, failed, time.Unix(at, 0)))
		content := must.Get(os.ReadFile(file))(t)
		for _, line := range want {
			if !strings.Contains(string(content), "\n"+line+"\n") {
				t.Errorf("no %q in\n%s", line, content)
			}
		}
	}
	fault := errors.New("made to fail")
	run(100, verify.Summary{}, fault, "spendgate_verify_last_run_timestamp_seconds 100", "spendgate_verify_last_success_timestamp_seconds 0")
	run(200, verify.Summary{Checks: 7, LastCheckpoint: time.Unix(190, 0)}, nil, "spendgate_verify_last_success_timestamp_seconds 200",
		"spendgate_verify_checks 7", "spendgate_verify_checkpoint_timestamp_seconds 190", `spendgate_verify_findings{kind="altered"} 0`)
	run(300, verify.Summary{Findings: map[verify.Kind]int64{verify.Altered: 2}}, fault, "spendgate_verify_last_run_timestamp_seconds 300",
		"spendgate_verify_last_success_timestamp_seconds 200", `spendgate_verify_findings{kind="altered"} 2`)
	must.Do(t, os.WriteFile(file, []byte("{"), 0o600))
	if err := writeMetrics(file, "", verify.Summary{}, fault, time.Unix(400, 0)); err == nil {
		t.Error("a file of something else was replaced")
	}
}

// TestVerifyWritesMetrics also when the database cannot be reached, but not when
// it was called wrongly.
func TestVerifyWritesMetrics(t *testing.T) {
	file := filepath.Join(t.TempDir(), "verify.prom")
	database := []string{"SPENDGATE_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"}
	if r := runWith(t, database, "", "audit", "verify", "--metrics-file", file, "--from", "2026-03-01"); r.Code != 2 {
		t.Errorf("of a range: exit %d, %s", r.Code, r.Stderr)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("metrics of a call that was wrong")
	}
	for deployment, want := range map[string]string{
		"":       "spendgate_verify_last_success_timestamp_seconds 0\n",
		"cell-1": `spendgate_verify_findings{deployment="cell-1",kind="altered"} 0`,
	} {
		r := runWith(t, append(database, "SPENDGATE_DEPLOYMENT="+deployment), "", "audit", "verify", "--metrics-file", file)
		if content, err := os.ReadFile(file); r.Code != 1 || err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%q: exit %d, %v: %s", deployment, r.Code, err, content)
		}
	}
}

// TestCheckpointFiles takes all files of a folder.
func TestCheckpointFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := checkpointFiles([]string{dir}); err == nil {
		t.Error("an empty folder")
	}
	for _, name := range []string{"a.jsonl", "b.jsonl", "notes.txt"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	files, err := checkpointFiles([]string{"other", dir})
	if err != nil || len(files) != 3 || files[0] != "other" || filepath.Base(files[2]) != "b.jsonl" {
		t.Errorf("%q, %v", files, err)
	}
}

// TestVerifyUnit: the systemd unit calls verify with valid arguments, and verify writes where the unit copies from.
func TestVerifyUnit(t *testing.T) {
	unit := must.Get(os.ReadFile("../../../deploy/systemd/spendgate-verify.service"))(t)
	_, line, _ := strings.Cut(string(unit), "\nExecStart=/usr/local/bin/spendgate ")
	line, _, _ = strings.Cut(line, "\n")
	_, writable, _ := strings.Cut(string(unit), "\nRuntimeDirectory=")
	writable, _, _ = strings.Cut(writable, "\n")
	dir := t.TempDir()
	lines := filepath.Join(dir, "lines.jsonl")
	must.Do(t, os.WriteFile(lines, nil, 0o600))
	line = strings.NewReplacer("${CHECKPOINTS}", lines, "${PUBLIC_KEY}", strings.Repeat("ab", 32), "/run/"+writable, dir).
		Replace(line)
	r := runWith(t, []string{"SPENDGATE_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"}, "", strings.Fields(line)...)
	if r.Code != 1 || !strings.Contains(r.Stderr, "cannot read the audit trail") {
		t.Errorf("%s: exit %d, %s", line, r.Code, r.Stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "spendgate_verify.prom")); err != nil {
		t.Error(err)
	}
}
