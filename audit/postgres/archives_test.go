package postgres

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"spendgate/audit/archive"
	"spendgate/audit/verify"
	"spendgate/hotpath/spend"
)

// forge rewrites the archive of the first day as somebody would who knows how
// archives are made: the lines changed, the manifest right again. With noted,
// the database's note of the manifest is changed, too.
func (o *oldDays) forge(t *testing.T, noted bool, change func(lines []string) []string) {
	t.Helper()
	a, err := archive.Open(o.dir, archive.ChecksOf(o.first))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(a.Path())
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	lines := change(strings.SplitAfter(strings.TrimSuffix(string(content), "\n"), "\n"))
	text := strings.TrimSuffix(strings.Join(lines, ""), "\n") + "\n"
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text) // into memory
	_ = w.Close()
	sum := func(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }
	m := a.Manifest
	m.Rows, m.FileSHA256, m.ContentSHA256 = int64(len(lines)), sum(out.Bytes()), sum([]byte(text))
	id := func(line string) string { return spend.PrefixCheck + line[len(`{"check_id":"`):][:32] }
	m.FirstID, m.LastID = id(lines[0]), id(lines[len(lines)-1])
	manifest, err := json.MarshalIndent(&m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	o.write(t, a.Path(), out.Bytes())
	o.write(t, archive.ManifestPath(o.dir, archive.ChecksOf(o.first)), manifest)
	if noted {
		note := func(manifest string, rows int64) {
			statement(t, o.url, fmt.Sprintf(`ALTER TABLE archived_days DISABLE TRIGGER ALL;
				UPDATE archived_days SET manifest_sha256 = '\x%s', rows = %d WHERE day = '%s'`, manifest, rows, m.Day))
		}
		note(sum(manifest), m.Rows)
		t.Cleanup(func() { note(hex.EncodeToString(a.SHA256[:]), a.Rows) })
	}
}

func (o *oldDays) write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTamperedArchives: whatever becomes of an archive, verify names it. Where
// files, manifest and database were all made to agree, the chain names the check.
func TestTamperedArchives(t *testing.T) {
	const (
		manifest = "altered archive of "
		garbled  = "a byte of the file" // which may take any number of rows with it
	)
	detached := newOldDays(t)
	if _, _, err := detached.detach(t, nil); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, o *oldDays)
		want   []string // parts of findings; CHECK is the fourth of the day
	}{
		"altered": {func(t *testing.T, o *oldDays) {
			o.forge(t, false, func(lines []string) []string { return altered(lines, 3) })
		}, []string{manifest, "altered check CHECK"}},
		"altered everywhere": {func(t *testing.T, o *oldDays) {
			o.forge(t, true, func(lines []string) []string { return altered(lines, 3) })
		}, []string{"altered check CHECK"}},
		"removed everywhere": {func(t *testing.T, o *oldDays) {
			o.forge(t, true, func(lines []string) []string { return append(lines[:3:3], lines[4:]...) })
		}, []string{"removed check CHECK"}},
		"the last removed everywhere": {func(t *testing.T, o *oldDays) {
			o.forge(t, true, func(lines []string) []string { return lines[:len(lines)-1] })
		}, []string{"removed check "}},
		"inserted everywhere": {func(t *testing.T, o *oldDays) {
			o.forge(t, true, func(lines []string) []string {
				more := strings.Replace(lines[3], lines[3][13:45], lines[3][13:44]+flipped(lines[3][44]), 1)
				if more < lines[3] {
					return append(append(lines[:3:3], more), lines[3:]...)
				}
				return append(append(lines[:4:4], more), lines[4:]...)
			})
		}, []string{"inserted check "}},
		"of another day": {func(t *testing.T, o *oldDays) {
			o.forge(t, true, func(lines []string) []string {
				return append([]string{strings.Replace(lines[0], lines[0][13:45], "00000000000070008000000000000000", 1)}, lines...)
			})
		}, []string{"is of another day"}},
		"null for empty": {func(t *testing.T, o *oldDays) {
			o.forge(t, true, func(lines []string) []string {
				lines[3] = strings.Replace(lines[3], `"payment_method":null`, `"payment_method":""`, 1)
				return lines
			})
		}, []string{"altered check CHECK"}},
		"another amount's digits": {func(t *testing.T, o *oldDays) {
			o.forge(t, true, func(lines []string) []string {
				lines[3] = strings.Replace(lines[3], `"amount":"0"`, `"amount":"0.0"`, 1)
				return lines
			})
		}, []string{"altered check CHECK"}},
		"not a line": {func(t *testing.T, o *oldDays) {
			o.forge(t, true, func(lines []string) []string { lines[3] = lines[3][:20] + "\n"; return lines })
		}, []string{manifest, "line 4"}},
		"manifest": {func(t *testing.T, o *oldDays) {
			o.edit(t, func(m []byte) []byte { return append(m, ' ') })
		}, []string{manifest, "not the one with which"}},
		"no manifest": {func(t *testing.T, o *oldDays) {
			o.edit(t, func(m []byte) []byte { return m[:20] })
		}, []string{manifest}},
		"manifest of another day": {func(t *testing.T, o *oldDays) {
			o.edit(t, func(m []byte) []byte {
				return bytes.ReplaceAll(m, []byte(o.first.Format("2006-01-02")), []byte(o.first.AddDate(0, 0, 1).Format("2006-01-02")))
			})
		}, []string{manifest, "not the manifest of that day"}},
		garbled: {func(t *testing.T, o *oldDays) {
			o.spoil(t, func(f []byte) []byte { f[len(f)/2] ^= 1; return f })
		}, []string{manifest}},
		"packed anew": {func(t *testing.T, o *oldDays) {
			o.spoil(t, func(f []byte) []byte {
				unpacked, err := gzip.NewReader(bytes.NewReader(f))
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				w, _ := gzip.NewWriterLevel(&out, gzip.NoCompression)
				_, _ = io.Copy(w, unpacked) // into memory
				_ = w.Close()
				return out.Bytes()
			})
		}, []string{manifest, "SHA-256"}},
		"the end of the file": {func(t *testing.T, o *oldDays) {
			o.spoil(t, func(f []byte) []byte { return f[:len(f)-9] })
		}, []string{manifest}},
		"no file": {func(t *testing.T, o *oldDays) {
			a, err := archive.Open(o.dir, archive.ChecksOf(o.first))
			if err == nil {
				err = os.Remove(a.Path())
			}
			if err != nil {
				t.Fatal(err)
			}
		}, []string{"unchecked day ", "is not there; its manifest is"}},
		"behind the end of the file": {func(t *testing.T, o *oldDays) {
			o.spoil(t, func(f []byte) []byte { return append(f, "more"...) })
		}, []string{manifest}},
		"in the database, too": {func(t *testing.T, o *oldDays) {
			statement(t, o.url, "DROP TRIGGER archived ON checks_default; INSERT INTO checks SELECT * FROM checks_"+o.first.Format("20060102")+" LIMIT 1")
			t.Cleanup(func() {
				statement(t, o.url, "ALTER TABLE checks_default DISABLE TRIGGER ALL; DELETE FROM checks_default")
			})
		}, []string{"inserted day ", "the database has checks of it"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &oldDays{Store: detached.Store, url: detached.url, dir: t.TempDir(), first: detached.first, checks: detached.checks}
			if err := os.CopyFS(o.dir, os.DirFS(detached.dir)); err != nil {
				t.Fatal(err)
			}
			test.change(t, o)
			summary, found := o.verified(t, o.dir)
			all := strings.Join(found, "\n")
			for _, want := range test.want {
				want = strings.Replace(want, "CHECK", o.checks[3].ID.Text(spend.PrefixCheck), 1)
				if !strings.Contains(all, want) {
					t.Errorf("found\n%s\nwant %q", all, want)
				}
			}
			if summary.Clean() || summary.Findings[verify.Unchecked] > 1 && name != garbled {
				t.Errorf("%+v", summary.Findings)
			}
		})
	}
	detached.mustBeClean(t) // each case was told for itself
}

// TestVerifiedWhileADayLeaves: a verification from before a day left does not
// say that somebody removed its checks, but that it cannot go on.
func TestVerifiedWhileADayLeaves(t *testing.T) {
	o := newOldDays(t)
	before := o.snapshot(t)
	defer before.Close()
	if _, _, err := o.detach(t, nil); err != nil {
		t.Fatal(err)
	}
	s, err := verify.Verify(t.Context(), verify.Options{Evidence: before, Workers: 2, Found: func(f verify.Finding) { t.Error(f) }})
	if err == nil || !strings.Contains(err.Error(), "was taken out of checks meanwhile") || len(s.Findings) > 0 {
		t.Errorf("%v, %+v", err, s.Findings)
	}
	o.mustBeClean(t)
}

// failing is evidence of which rows cannot be read, which is told while the
// second day is being weighed.
type failing struct {
	verify.Evidence
	second  verify.Day
	weighed chan struct{}
}

var errUnreadable = errors.New("unreadable")

func (f failing) Rows(context.Context, verify.Range, func([]byte) error) error {
	<-f.weighed
	return errUnreadable
}

func (f failing) Weigh(ctx context.Context, r verify.Range) (verify.Weight, error) {
	if verify.DayOf(r.Low) != f.second {
		return f.Evidence.Weigh(ctx, r)
	}
	close(f.weighed)
	<-ctx.Done()
	return verify.Weight{}, ctx.Err()
}

// TestWhyVerifyingFailed: told is what went wrong, not what ended for that.
func TestWhyVerifyingFailed(t *testing.T) {
	o := newOldDays(t)
	s := o.snapshot(t)
	defer s.Close()
	_, err := verify.Verify(t.Context(), verify.Options{
		Evidence: failing{s, verify.Day(o.first.Unix()/86400 + 1), make(chan struct{})},
		From:     o.first, To: o.before().Add(-time.Millisecond), Workers: 1, Found: func(f verify.Finding) { t.Error(f) },
	})
	if !errors.Is(err, errUnreadable) || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTamperedBehindTheRange: a verification up to some hour still tells that
// the file is not whole.
func TestTamperedBehindTheRange(t *testing.T) {
	o := newOldDays(t)
	if _, _, err := o.detach(t, nil); err != nil {
		t.Fatal(err)
	}
	to := o.first.Add(3 * time.Hour)
	if s, found := o.verifiedTo(t, o.dir, to); !s.Clean() || s.Checks != 3 {
		t.Errorf("%d checks of the first hours: %q", s.Checks, found)
	}
	o.spoil(t, func(f []byte) []byte { return append(f, "more"...) })
	if s, _ := o.verifiedTo(t, o.dir, to); s.Findings[verify.Altered] != 1 {
		t.Errorf("%+v", s.Findings)
	}
}

func altered(lines []string, i int) []string {
	lines[i] = strings.Replace(lines[i], `"counterparty":"`, `"counterparty":"another`, 1)
	return lines
}

func flipped(digit byte) string {
	if digit == '0' {
		return "1"
	}
	return "0"
}

// edit changes the manifest of the first day, spoil its file.
func (o *oldDays) edit(t *testing.T, change func([]byte) []byte) {
	t.Helper()
	o.rewrite(t, archive.ManifestPath(o.dir, archive.ChecksOf(o.first)), change)
}

func (o *oldDays) spoil(t *testing.T, change func([]byte) []byte) {
	t.Helper()
	a, err := archive.Open(o.dir, archive.ChecksOf(o.first))
	if err != nil {
		t.Fatal(err)
	}
	o.rewrite(t, a.Path(), change)
}

func (o *oldDays) rewrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o.write(t, path, change(content))
}
