package verify_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/archive"
	"spendgate/audit/checkpoint"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// folded is a trail of which one old day left with its batches: the first of a chain that has
// others of today.
type folded struct {
	*archived
	chain   spend.ID
	batches files
	noted   *spend.Outcome // had a reference and a note
}

func newFolded(t *testing.T) *folded {
	t.Helper()
	tr := newTrail(t)
	a := &archived{trail: tr, dir: t.TempDir()}
	f := &folded{archived: a, chain: spend.NewID(time.Now())}
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -12)
	tr.exec("SELECT make_partition('%s'), make_partition('%s')", day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly))
	tr.exec("UPDATE migrations SET applied_at = now() - interval '30 days'")
	epoch, err := tr.store.Epoch(t.Context())
	act(t, err)
	fence := spend.Fence{Node: f.chain, Epoch: epoch}
	record := func(at time.Time) (all []*spend.Check) {
		all = checksOfAllSorts(fence)
		for i, c := range all {
			c.ID = spend.NewID(at.Add(time.Duration(i) * time.Hour))
			charge(c)
			if c.Pass.Passed() {
				c.Pass.ClaimedMS, c.Pass.UntilMS = c.ID.Time().UnixMilli(), c.ID.Time().UnixMilli()+300_000
			}
			act(t, tr.writer.Append(c).Final())
		}
		return all
	}
	report := func(of *spend.Check, after time.Duration, number int, note string) *spend.Outcome {
		o := &spend.Outcome{
			ID: spend.NewOutcomeID(of.ID.Time().Add(after)), CheckID: of.ID, Step: number, Number: number, Status: spend.Failed,
			Release: spend.ReleaseNone, KeyID: "key_1", RequestID: "req_1", Fence: fence, Check: of, MayRelease: number > 1,
			Reference: strings.Repeat("r – ü ", len(note)), Note: note,
		}
		act(t, tr.writer.AppendOutcome(o).Final())
		return o
	}
	first := record(day)
	f.noted = report(first[2], time.Hour, 1, "a\t\"note\" – ü")
	report(first[2], 2*time.Hour, 2, "")
	second := record(day.AddDate(0, 0, 1))
	report(second[2], time.Minute, 1, "of the next day")
	tr.exec("DELETE FROM idempotency_keys WHERE check_id < first_id(%d)", day.AddDate(0, 0, 2).UnixMilli()) // they would have expired
	for _, c := range checksOfAllSorts(fence) {
		act(t, tr.writer.Append(c).Final())
	}
	act(t, os.Remove(tr.file)) // it would have had what was recorded then
	tr.checkpoints = tr.newCheckpoints()
	tr.sign()
	f.detach(day.AddDate(0, 0, 2), nil)
	tr.sign()
	a.day = files{of: day.Format(time.DateOnly), table: "archived_days", prefix: spend.PrefixCheck}
	f.batches = files{of: a.day.of, table: "folded_chains"}
	f.place()
	return f
}

func (f *folded) place() {
	for of, one := range map[string]*files{"checks-": &f.day, "batches-": &f.batches} {
		name := filepath.Join(f.dir, of+one.of)
		one.manifest, one.rows = name+".manifest.json", name+".jsonl.gz"
	}
}

func foldingKey(t *testing.T) checkpoint.Key {
	t.Helper()
	key, err := checkpoint.NewKey(bytes.Repeat([]byte{7}, 32)) // the trail's
	act(t, err)
	return key
}

func (f *folded) detach(before time.Time, change func(*postgres.DetachOptions)) {
	f.t.Helper()
	options := postgres.DetachOptions{
		URL: f.url, Dir: f.dir, Before: before, Now: time.Now(), Fold: true, Key: foldingKey(f.t),
		Report: func(postgres.Detached) {}, Found: func(found verify.Finding) { f.t.Error(found) },
	}
	if change != nil {
		change(&options)
	}
	act(f.t, postgres.Detach(f.t.Context(), options))
}

// TestFoldedIsProved: with the archives all is as it was, without them it is said what is not
// known, and both verifiers agree.
func TestFoldedIsProved(t *testing.T) {
	t.Parallel()
	f := newFolded(t)
	for _, held := range []bool{false, true} {
		for _, size := range []int64{0, 3} {
			got, s, err := f.verify(func(o *verify.Options) {
				o.Archives, o.SliceSize = f.dir, size
				if held {
					f.held(o)
				}
			})
			if err != nil || len(got) > 0 {
				t.Errorf("held %v, slices of %d: %v\n  %s", held, size, err, strings.Join(got, "\n  "))
			}
			if s.Checks == 0 || s.Batches != int64(f.count("batches"))+f.rows() {
				t.Errorf("%+v", s)
			}
		}
		if theirs := f.stranger(held, "--archive", f.dir); len(theirs) > 0 {
			t.Errorf("the stranger: %q", theirs)
		}
	}
	if n := f.count("outcomes WHERE reference IS NOT NULL OR note IS NOT NULL"); n != 0 {
		t.Errorf("%d outcomes have their texts still", n)
	}
}

func (f *folded) rows() (n int64) {
	all, err := filepath.Glob(filepath.Join(f.dir, "batches-*.manifest.json"))
	act(f.t, err)
	for _, path := range all {
		day, err := time.Parse(time.DateOnly, filepath.Base(path)[len("batches-"):][:10])
		act(f.t, err)
		a, err := archive.Open(f.dir, archive.BatchesOf(day))
		act(f.t, err)
		n += a.Rows
	}
	return n
}

var _ = fmt.Sprint
var _ = slices.Sort[[]string]
