package export_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/checkpoint"
	"spendgate/audit/commit"
	"spendgate/audit/export"
	"spendgate/audit/postgres"
	"spendgate/audit/postgres/detach"
	"spendgate/audit/postgres/snapshot"
	"spendgate/audit/spend"
	"spendgate/audit/sqlite"
	"spendgate/audit/verify"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

func amount(text string) spend.Amount {
	a, err := spend.ParseAmount(text)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return a
}

// recorder writes a record into a store.
type recorder struct {
	audit.Store
	t      *testing.T
	writer *commit.Writer
	heads  func(context.Context) (record, func())
}

type record interface {
	export.Record
	verify.Evidence
}

var epoch = spend.NewID(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))

func newRecorder(t *testing.T, s audit.Store, open func(context.Context) (record, func())) *recorder {
	t.Helper()
	seen, err := s.Epoch(t.Context())
	must.Do(t, err)
	_, err = s.RotateEpoch(t.Context(), seen, epoch)
	must.Do(t, err)
	return &recorder{s, t, audittest.NewWriter(t, s), open}
}

func onPostgres(t *testing.T) (*recorder, string) {
	t.Helper()
	url := fleet.TestMigrated(t, postgres.Migrate)
	s := must.Get(postgres.Open(t.Context(), postgres.Options{URL: url, Logger: slog.New(slog.DiscardHandler), Migrate: true}))(t)
	t.Cleanup(s.Close)
	return newRecorder(t, s, func(ctx context.Context) (record, func()) {
		snapshot := must.Get(snapshot.Open(ctx, url, 3))(t)
		return snapshot, snapshot.Close
	}), url
}

func onSQLite(t *testing.T) *recorder {
	t.Helper()
	s := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"), slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(s.Close)
	return newRecorder(t, s, func(ctx context.Context) (record, func()) {
		snapshot := must.Get(s.Snapshot(ctx))(t)
		return snapshot, snapshot.Close
	})
}

// export returns the file and the manifest.
func (r *recorder) export(o export.Options) (string, *export.Manifest) {
	r.t.Helper()
	var done func()
	o.Record, done = r.heads(r.t.Context())
	defer done()
	var b bytes.Buffer
	m := must.Get(export.Write(r.t.Context(), &b, o))(r.t)
	return b.String(), m
}

// check returns the faults of a file.
func (r *recorder) check(file string, m *export.Manifest, o export.Options) (found []string) {
	r.t.Helper()
	var done func()
	o.Record, done = r.heads(r.t.Context())
	defer done()
	must.Get(export.Check(r.t.Context(), strings.NewReader(file), m, o, func(what string) { found = append(found, what) }))(r.t)
	return found
}

// made returns checks of one node, from an instant on, and the outcomes of some.
func made(at time.Time, node spend.ID, n int) (checks []*spend.Check, outcomes []*spend.Outcome) {
	f := spend.Fence{Node: node, Epoch: epoch}
	for i := range n {
		id := spend.NewID(at.Add(time.Duration(i) * time.Second))
		c := &spend.Check{
			ID: id, Fence: f, ActionType: spend.Refund, KeyID: "key_1", RequestID: "req_1", Principal: "till – ü <&>",
			Action: spend.Action{
				AgentID: "agent", PolicyID: "refunds", Amount: amount("125.5"), Currency: "USD", Counterparty: "=1+1",
				ReasonText: "\ttab \"quote\"\r\n, next", Metadata: spend.Metadata{JSON: `{"a": 1.10,  "b":["<", "\u00e9"]}`},
			},
			Decision:    spend.Decision{PolicyVersion: 3, Confidence: spend.High, Message: "@ok"},
			Fingerprint: spend.HashKey(id.Text("f")), RequestSHA: spend.HashKey(id.Text("r")),
		}
		checks = append(checks, c)
		switch i % 4 {
		case 1:
			c.Decision.Effect, c.Decision.RuleID = spend.Block, "cap"
		case 2:
			o := &spend.Outcome{
				ID: spend.NewOutcomeID(id.Time().Add(time.Minute)), CheckID: id, Step: 1, Number: 1, Status: spend.Executed,
				Amount:  amount("0.000000001"),
				Release: spend.ReleaseNone, KeyID: "key_1", RequestID: "req_1", Fence: f, Check: c, Reference: "-5", Note: "n",
			}
			outcomes = append(outcomes, o)
		}
	}
	return checks, outcomes
}

func (r *recorder) append(checks []*spend.Check, outcomes []*spend.Outcome) {
	r.t.Helper()
	for _, c := range checks {
		must.Do(r.t, r.writer.Append(c).Final())
	}
	for _, o := range outcomes {
		must.Do(r.t, r.writer.AppendOutcome(o).Final())
	}
}

// Equal records of both stores are the same bytes, and so is the manifest; more is found to be
// missing than is wanted by anybody.
func TestStoresExportTheSame(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-time.Minute).UTC()
	checks, outcomes := made(at, spend.NewID(at), 41)
	fleet, _ := onPostgres(t)
	single := onSQLite(t)
	for _, r := range []*recorder{fleet, single} {
		r.append(checks, outcomes)
	}
	for _, o := range []export.Options{
		{Format: export.CSV},
		{Format: export.JSONL},
		{Format: export.CSV, From: at.Add(5 * time.Second), To: at.Add(20 * time.Second)},
		{Format: export.JSONL, Sample: &export.Sample{Checks: 7, Seed: "March"}},
	} {
		file, m := fleet.export(o)
		other, n := single.export(o)
		if file != other || !bytes.Equal(m.Text(), n.Text()) {
			t.Errorf("%v:\n%s%s\nand\n%s%s", o, file, m.Text(), other, n.Text())
		}
		if m.Checks == 0 || m.Whole() != nil {
			t.Errorf("%s", m.Text())
		}
		for _, r := range []*recorder{fleet, single} {
			if found := r.check(file, m, export.Options{}); found != nil {
				t.Errorf("%v", found)
			}
		}
	}
}

// A tampered record cannot be exported as if nothing had happened.
func TestExportOfATamperedRecord(t *testing.T) {
	t.Parallel()
	r, url := onPostgres(t)
	at := time.Now().Add(-time.Minute).UTC()
	checks, outcomes := made(at, spend.NewID(at), 12)
	r.append(checks, outcomes)
	file, m := r.export(export.Options{Format: export.CSV})
	conn, err := pgx.Connect(t.Context(), url)
	must.Do(t, err)
	defer conn.Close(context.Background()) //nolint:errcheck // of the test
	for _, c := range []struct {
		tamper                     string
		unlisted, altered, missing int64
		batches                    int64
	}{
		{"UPDATE checks SET amount = 1 WHERE check_id = '" + checks[0].ID.Text("") + "'", 0, 1, 0, 0},
		{"DELETE FROM checks WHERE check_id = '" + checks[4].ID.Text("") + "'", 0, 0, 1, 0},
		{"UPDATE outcomes SET amount = 1 WHERE check_id = '" + checks[2].ID.Text("") + "'", 0, 1, 0, 0},
		{"CREATE TEMPORARY TABLE one AS SELECT * FROM checks LIMIT 1; UPDATE one SET check_id = '" + spend.NewID(at).Text("") +
			"'; INSERT INTO checks SELECT * FROM one; DROP TABLE one", 1, 0, 0, 0},
		{"DELETE FROM checks WHERE check_id = '" + checks[4].ID.Text("") + "'; " +
			"DELETE FROM batches WHERE first_id = '" + checks[4].ID.Text("") + "'", 0, 0, 0, 1},
	} {
		tx, err := conn.Begin(t.Context())
		must.Do(t, err)
		_, err = tx.Exec(t.Context(),
			"SET LOCAL session_replication_role = replica; CREATE TABLE kept AS TABLE checks; CREATE TABLE kept_batches AS TABLE batches; "+
				"CREATE TABLE kept_outcomes AS TABLE outcomes; "+
				c.tamper)
		must.Do(t, err)
		must.Do(t, tx.Commit(t.Context()))
		_, n := r.export(export.Options{Format: export.CSV})
		if n.NotInChain != c.unlisted || n.Altered != c.altered || n.Missing != c.missing || n.Batches != c.batches || n.Whole() == nil {
			t.Errorf("%s: %s", c.tamper, n.Text())
		}
		if found := r.check(file, m, export.Options{}); len(found) < 2 {
			t.Errorf("%s: %v", c.tamper, found)
		}
		// In a range without anything else, the surrounding numbers show the gap.
		_, n = r.export(export.Options{Format: export.CSV, From: checks[4].ID.Time(), To: checks[4].ID.Time()})
		if n.Batches != c.batches {
			t.Errorf("%s: of its moment alone: %s", c.tamper, n.Text())
		}
		_, err = conn.Exec(t.Context(), `SET session_replication_role = replica; DELETE FROM checks; INSERT INTO checks SELECT *
			FROM kept; DROP TABLE kept;
			DELETE FROM batches; INSERT INTO batches SELECT * FROM kept_batches; DROP TABLE kept_batches;
			DELETE FROM outcomes; INSERT INTO outcomes SELECT * FROM kept_outcomes; DROP TABLE kept_outcomes`)
		must.Do(t, err)
	}
	if found := r.check(file, m, export.Options{}); found != nil {
		t.Errorf("%v", found)
	}
}

// A file of a range with an end is complete: a manifest that was cut together with its file is
// detected. A changed manifest proves nothing.
func TestExportThatWasCut(t *testing.T) {
	t.Parallel()
	r, _ := onPostgres(t)
	at := time.Now().Add(-time.Minute).UTC()
	checks, outcomes := made(at, spend.NewID(at), 8)
	r.append(checks, outcomes)
	cut, m := r.export(export.Options{Format: export.CSV, From: at, To: at.Add(30 * time.Second)})
	whole, all := r.export(export.Options{Format: export.CSV})
	more, _ := made(at.Add(10*time.Second), spend.NewID(at), 3)
	r.append(more, nil)
	if found := r.check(cut, m, export.Options{}); len(found) != 1 ||
		!strings.HasPrefix(found[0], "3 checks of the range are behind the heads") {
		t.Errorf("%q", found)
	}
	if found := r.check(whole, all, export.Options{}); found != nil {
		t.Errorf("without an end: %q", found)
	}
	text := string(all.Text())
	for _, changed := range []string{
		text + "{}\n", strings.Replace(text, `"checks": 8`, `"checks": 9, "checks": 8`, 1), strings.TrimSpace(text),
	} {
		if _, err := export.ParseManifest([]byte(changed)); changed == text || err == nil {
			t.Errorf("taken for a manifest:\n%s", changed)
		}
	}
}

// Archived days are in the file if their archive is given; otherwise the manifest names them.
func TestExportOfArchivedDays(t *testing.T) {
	t.Parallel()
	r, url := onPostgres(t)
	now := time.Now().UTC()
	day := now.AddDate(0, 0, -10).Truncate(24 * time.Hour).Add(time.Hour)
	conn, err := pgx.Connect(t.Context(), url)
	must.Do(t, err)
	defer conn.Close(context.Background()) //nolint:errcheck // of the test
	_, err = conn.Exec(t.Context(), "SELECT make_partition('"+day.Format(time.DateOnly)+"')")
	must.Do(t, err)
	_, err = conn.Exec(t.Context(), "UPDATE migrations SET applied_at = now() - interval '30 days'")
	must.Do(t, err)
	old, reported := made(day, spend.NewID(day), 9)
	r.append(old, reported)
	checks, outcomes := made(now.Add(-time.Minute), spend.NewID(now), 5)
	r.append(checks, outcomes)
	_, err = conn.Exec(t.Context(), "DELETE FROM idempotency_keys")
	must.Do(t, err)
	before, manifest := r.export(export.Options{Format: export.CSV})
	dir := t.TempDir()
	must.Do(t, detach.Checks(t.Context(), detach.Options{
		URL: url, Dir: dir, Before: day.AddDate(0, 0, 1).Truncate(24 * time.Hour), Now: now,
		Report: func(detach.Detached) {}, Found: func(f verify.Finding) { t.Error(f) },
	}))
	if file, m := r.export(export.Options{Format: export.CSV, Archives: dir}); file != before || m.Whole() != nil ||
		!bytes.Equal(m.Text(), manifest.Text()) {
		t.Errorf("with the archive\n%s%s\nbefore\n%s", file, m.Text(), before)
	}
	file, m := r.export(export.Options{Format: export.CSV})
	if err := m.Whole(); m.Checks != 5 || len(m.Absent) != 1 || m.Absent[0].Checks != 9 || err == nil ||
		!strings.Contains(err.Error(), "its 9 checks are in an archive") {
		t.Errorf("%s", m.Text())
	}
	if found := r.check(file, m, export.Options{Archives: dir}); found != nil {
		t.Errorf("%v", found)
	}
	if found := r.check(before, manifest, export.Options{Archives: dir}); found != nil {
		t.Errorf("%v", found)
	}
	if found := r.check(before, manifest, export.Options{}); len(found) == 0 {
		t.Error("a day that was not read was found to be as it was")
	}
	names := must.Get(filepath.Glob(filepath.Join(dir, "*.jsonl.gz")))(t)
	must.Do(t, os.WriteFile(names[0], []byte("x"), 0o600))
	snapshot, done := r.heads(t.Context())
	defer done()
	if _, err := export.Write(t.Context(), new(bytes.Buffer),
		export.Options{Record: snapshot, Format: export.CSV, Archives: dir}); err == nil {
		t.Error("an altered archive was exported")
	}
}

// A manifest is compared with signed checkpoints.
func TestManifestIsHeld(t *testing.T) {
	t.Parallel()
	r, _ := onPostgres(t)
	at := time.Now().Add(-time.Minute).UTC()
	node := spend.NewID(at)
	checks, _ := made(at, node, 6)
	r.append(checks[:3], nil)
	key := must.Get(checkpoint.NewKey(bytes.Repeat([]byte{7}, 32)))(t)
	path := filepath.Join(t.TempDir(), "checkpoints.jsonl")
	store, _ := r.Store.(*postgres.Store)
	writer := checkpoint.NewWriter(checkpoint.Options{
		Heads: store.Heads, HeadsAt: store.HeadsAt, Key: key, File: path, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	must.Do(t, writer.Write(t.Context()))
	hold := func(m *export.Manifest) (covered bool, found []string) {
		t.Helper()
		text := must.Get(os.ReadFile(path))(t)
		at := must.Get(m.Hold(bytes.NewReader(text), key.Public(), func(what string) { found = append(found, what) }))(t)
		return !at.IsZero(), found
	}
	_, m := r.export(export.Options{Format: export.CSV})
	if covered, found := hold(m); !covered || found != nil {
		t.Errorf("%v, %v", covered, found)
	}
	r.append(checks[3:], nil)
	_, n := r.export(export.Options{Format: export.CSV})
	if covered, found := hold(n); covered || found != nil {
		t.Errorf("%v, %v", covered, found)
	}
	must.Do(t, writer.Write(t.Context()))
	if covered, found := hold(n); !covered || found != nil {
		t.Errorf("%v, %v", covered, found)
	}
	m.Heads[0].Head[0] ^= 1
	if _, found := hold(m); len(found) != 1 || !strings.Contains(found[0], "another head") {
		t.Errorf("%v", found)
	}
}
