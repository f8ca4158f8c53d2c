package verify_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// writeKept makes the record of this release, once: it is kept as it is from then on.
var writeKept = flag.String("write-kept", "", "make the record to be kept of this `RELEASE`")

// TestKeptRecords migrates the databases of releases, restored from backups, and verifies them with
// their archives: every later build reads what was recorded once.
func TestKeptRecords(t *testing.T) {
	t.Parallel()
	if *writeKept != "" {
		writeRecord(t, filepath.Join("testdata", "kept", *writeKept))
	}
	kept := must.Get(filepath.Glob("testdata/kept/*"))(t)
	if len(kept) == 0 {
		t.Fatal("no record is kept")
	}
	for _, dir := range kept {
		t.Run(filepath.Base(dir), func(t *testing.T) { readRecord(t, dir) })
	}
}

func readRecord(t *testing.T, dir string) {
	tr := &trail{t: t, url: fleet.OwnTestDatabase(t) + "&search_path=public"} // as verify.py wants it
	tr.conn = connect(t, tr.url)
	_, err := tr.conn.PgConn().Exec(t.Context(), keptSQL(t, dir)).ReadAll()
	must.Do(t, err)
	tr.exec("SET search_path = public") // the file sets another
	checks := tr.count("checks")
	must.Do(t, postgres.Migrate(t.Context(), tr.url))
	_, err = postgres.BeginRestored(t.Context(), tr.url)
	must.Do(t, err)
	tr.store, err = postgres.Open(t.Context(), postgres.Options{URL: tr.url, Logger: slog.New(slog.DiscardHandler)})
	must.Do(t, err)
	t.Cleanup(tr.store.Close)
	tr.finds(func(o *verify.Options) { o.Archives = dir })
	if found := tr.stranger(false, "--archive", dir); len(found) > 0 {
		t.Errorf("verify.py found\n  %s", strings.Join(found, "\n  "))
	}
	listed := 0
	for q := (audit.CheckQuery{Limit: 100, Examine: 200}); ; {
		page := must.Get(tr.store.ListChecks(t.Context(), q))(t)
		listed += len(page.Checks)
		if !page.More {
			break
		}
		q.Before = page.Next
	}
	if listed != checks || checks < 50 {
		t.Errorf("%d of %d checks are listed", listed, checks)
	}
}

func keptSQL(t *testing.T, dir string) string {
	t.Helper()
	packed := must.Get(os.ReadFile(filepath.Join(dir, "record.sql.gz")))(t)
	unpack := must.Get(gzip.NewReader(bytes.NewReader(packed)))(t)
	sql := must.Get(io.ReadAll(unpack))(t)
	return string(sql)
}

// writeRecord makes a record of every kind, with archives, and dumps it.
func writeRecord(t *testing.T, dir string) {
	must.Do(t, os.MkdirAll(dir, 0o755))
	asked := newApprovalTrailIn(t, newTrailIn(t, fleet.OwnTestDatabase(t)))
	tr := asked.trail
	a := newArchivedIn(t, tr)
	must.Do(t, os.CopyFS(dir, os.DirFS(a.dir)))
	tr.addKey()
	tr.addWebhook()
	tr.recordCharged(2)
	tr.recordCapped(1, time.Now())
	paid := newRedemptionTrailIn(t, tr)
	paid.steps(paid.check(spend.Allow, 0), 0, "redeemed by gw", "executed by gw+")
	paid.steps(paid.check(spend.Allow, 0), 0, "redeemed by gw", "in_doubt by gw")
	paid.steps(paid.check(spend.Allow, 0), 0, "redeemed by gw")
	once := paid.newPayer("taken over, and executed")
	once.allowed("redeemed n1", "in_doubt", "taken_over n2", "executed")
	again := paid.newPayer("given back, blocked, and redeemed with its check")
	failed := again.allowed("redeemed n1", "failed")
	again.commits(again.asks(spend.Block, 0))
	last := again.asks(spend.Allow, 0)
	again.commits(last, again.becomes(last, "redeemed n2", 0))
	again.records(last, "executed")
	again.records(failed, "executed") // it is paid twice
	granted := &grantTrail{asked}
	granted.change(audit.GrantCreated, spend.NewID(time.Now()), granted.terms("100", 0, 0), asked.member("dora"), "dora")
	tr.took("1", given(t, "100", 0, 1))
	over, _, err := tr.store.CreateFreeze(t.Context(), audit.Actor{KeyID: "key_1"}, audit.NewFreeze{
		ID: spend.NewID(time.Now()), Scope: audit.FreezeScope{Kind: audit.FreezeAll}, Reason: "it loops", Seen: -1,
	})
	must.Do(t, err)
	must.Do(t, tr.store.ReleaseFreeze(t.Context(), audit.Actor{KeyID: "key_1"}, audit.FreezeRelease{Freeze: over, Keys: over.Seq, Note: "n"}))
	d := &audit.Draft{PolicyID: "refunds", Name: "next – ü", Rules: `[{"rule_id":"cap"}]`, Note: "tighter"}
	must.Do(t, tr.store.PutDraft(t.Context(), audit.Actor{KeyID: "key_1"}, d, time.Now()))
	tr.exec("SELECT sequence_events(1000)")
	tr.finds(func(o *verify.Options) { o.Archives = a.dir })
	bin := os.Getenv("TEST_POSTGRES_BIN")
	dump := must.Get(exec.CommandContext(t.Context(), filepath.Join(bin, "pg_dump"), "--inserts", "--rows-per-insert=100", "--no-owner",
		"--no-privileges", tr.url).Output())(t)
	var sql strings.Builder
	for line := range strings.Lines(string(dump)) {
		if !strings.HasPrefix(line, `\`) && line != "CREATE SCHEMA public;\n" { // psql's own commands
			sql.WriteString(line)
		}
	}
	var packed bytes.Buffer
	pack, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	must.Do(t, err)
	_, err = pack.Write([]byte(sql.String()))
	must.Do(t, err)
	must.Do(t, pack.Close())
	must.Do(t, os.WriteFile(filepath.Join(dir, "record.sql.gz"), packed.Bytes(), 0o600))
}
