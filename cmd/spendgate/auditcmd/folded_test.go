package auditcmd

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
	"spendgate/cmd/spendgate/cli/clitest"
)

// With the archives, exports, sums and the view of a check are the same after batches were detached:
// also for a range whose outcomes were reported later, and for a check with the time of the day before (G8).
func TestFoldedIsExported(t *testing.T) {
	t.Parallel()
	url := fleet.TestMigrated(t, postgres.Migrate)
	s := must.Get(postgres.Open(t.Context(), postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler), Migrate: true}))(t)
	defer s.Close()
	conn := must.Get(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(context.Background()) //nolint:errcheck // of the test
	exec := func(sql string) {
		t.Helper()
		must.Get(conn.Exec(t.Context(), sql))(t)
	}
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -12)
	day := func(n int) string { return first.AddDate(0, 0, n).Format(time.DateOnly) }
	for n := range 3 {
		exec("SELECT make_partition('" + day(n) + "')")
	}
	exec("UPDATE migrations SET applied_at = now() - interval '30 days'")
	epoch := must.Get(s.Epoch(t.Context()))(t)
	fence, writer := spend.Fence{Node: spend.NewID(first), Epoch: epoch}, audittest.NewWriter(t, s)
	record := func(at time.Time) *spend.Check {
		id := spend.NewID(at)
		c := &spend.Check{
			ID: id, Fence: fence, ActionType: spend.Refund, KeyID: "key_1", RequestID: "req_1",
			Action:      spend.Action{AgentID: "agent", PolicyID: "refund's", Currency: "USD", Counterparty: "c"},
			Decision:    spend.Decision{PolicyVersion: 1, Confidence: spend.High, Message: "ok"},
			Fingerprint: spend.HashKey(id.Text("f")), RequestSHA: spend.HashKey(id.Text("r")),
		}
		must.Do(t, writer.Append(c).Final())
		return c
	}
	p := &audit.Policy{PolicyID: "refund's", Name: "P", Rules: "[]"}
	must.Do(t, s.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{}, first))
	var ids []string
	report := func(of *spend.Check, at time.Time, note string) {
		must.Do(t, writer.AppendOutcome(&spend.Outcome{
			ID: spend.NewOutcomeID(at), CheckID: of.ID, Check: of, Step: 1, Number: 1, Status: spend.Failed, Release: spend.ReleaseNone,
			Reference: "psp – ü", Note: note, KeyID: "key_1", RequestID: "req_1", Fence: fence,
		}).Final())
		ids = append(ids, of.ID.Text(spend.PrefixCheck))
	}
	report(record(first.Add(23*time.Hour)), first.Add(25*time.Hour), "the day after")
	midnight := record(first.AddDate(0, 0, 1).Add(time.Second))
	report(midnight, first.AddDate(0, 0, 1).Add(-time.Second), "a \"note\" of the day before")
	report(record(first.AddDate(0, 0, 1).Add(time.Hour)), first.AddDate(0, 0, 2).Add(time.Minute), "on the third day")
	ids = append(ids, record(first.AddDate(0, 0, 2).Add(time.Hour)).ID.Text(spend.PrefixCheck))
	record(time.Now())
	exec("DELETE FROM idempotency_keys")

	dir := t.TempDir()
	environ := []string{
		"SPENDGATE_DATABASE_URL=" + url, "SPENDGATE_CHECKPOINT_KEY=" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)),
	}
	detach := []string{"audit", "detach", "--before", day(3), "--archive", dir}
	runWith(t, environ, "", detach...).Check(t, 0, "", "")
	asked := []string{
		"export", "export --format jsonl", "sums", "export --from " + day(1) + " --to " + day(1), "export --to " + day(0), "sums --to " + day(0),
	}
	for _, id := range ids {
		asked = append(asked, "show "+id)
	}
	tell := func() (all []clitest.Result) {
		for _, args := range asked {
			words := strings.Fields("audit " + strings.Replace(args, " ", " --archive "+dir+" ", 1))
			all = append(all, runWith(t, environ, "", words...))
		}
		return all
	}
	asked[0], asked[2] = "export ", "sums "
	before := tell()
	runWith(t, environ, "", append(detach, "--fold")...).Check(t, 0, "archived, folded", "")
	var noted int
	must.Do(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM outcomes WHERE note IS NOT NULL").Scan(&noted))
	if noted > 0 {
		t.Errorf("%d outcomes have their notes", noted)
	}
	for i, now := range tell() {
		if was := before[i]; now != was || was.Code != 0 {
			t.Errorf("%s: %+v\nbefore\n%+v", asked[i], now, was)
		}
	}
	withoutLater(t, environ, dir, day, ids)
}

// Without an archive of batches everything that remains is exported and shown, and the missing part
// is named. With the archive, the file proves to agree with the record.
func withoutLater(t *testing.T, environ []string, dir string, day func(int) string, ids []string) {
	t.Helper()
	run := func(args ...string) clitest.Result {
		t.Helper()
		return runWith(t, environ, "", append([]string{"audit"}, args...)...)
	}
	tells := func(r clitest.Result, code int, text string) {
		t.Helper()
		if r.Code != code || !strings.Contains(r.Stdout+r.Stderr, text) {
			t.Errorf("%+v\nwant %d, %q", r, code, text)
		}
	}
	tells(run("show", "--archive", dir, ids[0]), 0, "refund's, version 1, P, in force from")
	whole, sums := run("export", "--archive", dir), run("sums", "--archive", dir)
	file := filepath.Join(t.TempDir(), "checks.csv")
	for _, part := range []string{"batches-" + day(2), "checks-" + day(2)} {
		// The copy has all but that part.
		few := t.TempDir()
		must.Do(t, os.CopyFS(few, os.DirFS(dir)))
		for _, name := range []string{part + ".jsonl.gz", part + ".manifest.json"} {
			must.Do(t, os.Remove(filepath.Join(few, name)))
		}
		tells(run("export", "--archive", few, "--out", file), 1, day(2))
		if strings.HasPrefix(part, "batches") {
			text := must.Get(os.ReadFile(file))(t)
			n := strings.Count(string(text), "\n")
			if n != strings.Count(whole.Stdout, "\n") || strings.Contains(string(text), "on the third day") ||
				!strings.Contains(string(text), "the day after") {
				t.Errorf("%d lines\n%s\nwant\n%s", n, text, whole.Stdout)
			}
			if r := run("sums", "--archive", few); r.Code != 1 || r.Stdout != sums.Stdout || !strings.Contains(r.Stderr, "batches of "+day(2)) {
				t.Errorf("%+v\nwant\n%s", r, sums.Stdout)
			}
			tells(run("show", "--archive", few, ids[0]), 0, "the day after")
			tells(run("show", "--archive", few, ids[2]), 1, "the batches of "+day(2)+" are not at hand")
			tells(run("show", "--archive", few, ids[3]), 1, "NOT COMPARED")
		}
		tells(run("export", "--archive", dir, "--check", file+".manifest.json"), 1, "are as the record has them")
		must.Do(t, os.WriteFile(file, []byte(whole.Stdout), 0o600))
		must.Do(t, os.WriteFile(file+".manifest.json", []byte(whole.Stderr), 0o600))
		tells(run("export", "--archive", dir, "--check", file+".manifest.json"), 0, "are as the record has them")
		tells(run("export", "--archive", few, "--check", file+".manifest.json"), 1, "is not at hand, and was when the file was made")
	}
}
