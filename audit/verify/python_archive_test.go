package verify_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/postgres"
	"spendgate/audit/verify"
	"spendgate/hotpath/spend"
)

// archive records checks of an old day and detaches it. It returns the paths of
// the manifest and of the rows, and the day.
func (tr *trail) archive() (manifest, rows, day string) {
	tr.t.Helper()
	return tr.archiveOf(time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -5))
}

// archiveOf is archive of checks of that day.
func (tr *trail) archiveOf(old time.Time) (manifest, rows, day string) {
	tr.t.Helper()
	day = old.Format(time.DateOnly)
	tr.exec("SELECT make_partition('%s')", day)
	tr.exec("UPDATE migrations SET applied_at = now() - interval '30 days'")
	epoch, err := tr.store.Epoch(tr.t.Context())
	if err != nil {
		tr.t.Fatal(err)
	}
	for i, c := range checksOfAllSorts(spend.Fence{Node: spend.NewID(old), Epoch: epoch}) {
		c.ID = spend.NewID(old.Add(time.Duration(i) * time.Hour))
		charge(c)
		if c.Pass.Passed() {
			c.Pass.ClaimedMS, c.Pass.UntilMS = c.ID.Time().UnixMilli(), c.ID.Time().UnixMilli()+300_000
		}
		if err := tr.writer.Append(c).Final(); err != nil {
			tr.t.Fatal(err)
		}
	}
	dir := tr.t.TempDir()
	err = postgres.Detach(tr.t.Context(), postgres.DetachOptions{
		URL: tr.url, Dir: dir, Before: old.AddDate(0, 0, 1), Now: time.Now(),
		Report: func(postgres.Detached) {}, Found: func(f verify.Finding) { tr.t.Error(f) },
	})
	if err != nil {
		tr.t.Fatal(err)
	}
	return filepath.Join(dir, "checks-"+day+".manifest.json"), filepath.Join(dir, "checks-"+day+".jsonl.gz"), day
}

// TestStrangerReadsArchives has both verifiers find the same in an archive.
func TestStrangerReadsArchives(t *testing.T) {
	const unchecked = `unchecked counter of budget "ever"`
	for name, c := range map[string]struct {
		spoil func(t *testing.T, manifest, rows string)
		want  []string // the kinds that are found
	}{
		"clean":       {func(*testing.T, string, string) {}, nil},
		"no rows":     {func(t *testing.T, _, rows string) { act(t, os.Remove(rows)) }, []string{unchecked, "unchecked day DAY"}},
		"no manifest": {func(t *testing.T, manifest, _ string) { act(t, os.Remove(manifest)) }, []string{unchecked, "unchecked day DAY"}},
		"manifest": {func(t *testing.T, manifest, _ string) {
			rewrite(t, manifest, func(b []byte) []byte { return append(b, ' ') })
		}, []string{"altered archive of DAY", unchecked}},
		"a check": {func(t *testing.T, _, rows string) {
			rewrite(t, rows, func(b []byte) []byte {
				unpacked, err := gzip.NewReader(bytes.NewReader(b))
				act(t, err)
				content, err := io.ReadAll(unpacked)
				act(t, err)
				var out bytes.Buffer
				w := gzip.NewWriter(&out)
				_, err = w.Write(bytes.Replace(content, []byte(`"customer"`), []byte(`"another"`), 1))
				act(t, err)
				act(t, w.Close())
				return out.Bytes()
			})
		}, []string{"altered archive of DAY", "altered check ", unchecked, "unchecked violation "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrail(t)
			manifest, rows, day := tr.archive()
			c.spoil(t, manifest, rows)
			dir := filepath.Dir(rows)
			own, _, err := tr.verify(func(o *verify.Options) { o.Archives = dir })
			if theirs := tr.stranger(false, "--archive", dir); err != nil || !slices.Equal(own, theirs) {
				t.Errorf("%v:\n  %s\nthe stranger:\n  %s", err, strings.Join(own, "\n  "), strings.Join(theirs, "\n  "))
			}
			if len(own) != len(c.want) {
				t.Fatalf("found %q", own)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(own[i], strings.Replace(want, "DAY", day, 1)) {
					t.Errorf("found %q, want %q", own[i], want)
				}
			}
		})
	}
}

func act(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func rewrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	act(t, err)
	act(t, os.WriteFile(path, change(content), 0o600))
}
