package verify_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

// archivedMonth is a trail with an old month whose violations were archived.
type archivedMonth struct {
	*trail
	dir, day, name string // of the archives; the one day with checks; the month
	manifest, rows string // files
}

func newArchivedMonth(t *testing.T) *archivedMonth {
	t.Helper()
	tr := newTrail(t)
	now := time.Now().UTC()
	begin := time.Date(now.Year(), now.Month()-3, 1, 0, 0, 0, 0, time.UTC)
	manifest, _, day := tr.archiveOf(begin.AddDate(0, 0, 4))
	m := &archivedMonth{trail: tr, dir: filepath.Dir(manifest), day: day, name: begin.Format("2006-01")}
	m.manifest, m.rows = filepath.Join(m.dir, "violations-"+m.name+".manifest.json"), filepath.Join(m.dir, "violations-"+m.name+".jsonl.gz")
	act(t, postgres.DetachViolations(t.Context(), postgres.DetachOptions{
		URL: tr.url, Dir: m.dir, Before: begin.AddDate(0, 1, 0), Now: now,
		Report: func(postgres.Detached) {}, Found: func(f verify.Finding) { t.Error(f) },
	}))
	return m
}

// lines rewrites the archive's lines, and where it is noted, the manifest and the
// database's note.
func (m *archivedMonth) lines(noted bool, change func([]string) []string) {
	m.t.Helper()
	sum := func(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }
	var lines []string
	var content, packed []byte
	rewrite(m.t, m.rows, func(b []byte) []byte {
		unpacked, err := gzip.NewReader(bytes.NewReader(b))
		act(m.t, err)
		content, err = io.ReadAll(unpacked)
		act(m.t, err)
		lines = change(strings.SplitAfter(strings.TrimSuffix(string(content), "\n"), "\n"))
		content = []byte(strings.TrimSuffix(strings.Join(lines, ""), "\n") + "\n")
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err = w.Write(content)
		act(m.t, err)
		act(m.t, w.Close())
		packed = out.Bytes()
		return packed
	})
	if !noted {
		return
	}
	id := func(line string) string { return spend.PrefixViolation + line[len(`{"id":"`):][:32] }
	rewrite(m.t, m.manifest, func(b []byte) []byte {
		var members map[string]any
		act(m.t, json.Unmarshal(b, &members))
		members["rows"], members["first_id"], members["last_id"] = len(lines), id(lines[0]), id(lines[len(lines)-1])
		members["file_sha256"], members["content_sha256"] = sum(packed), sum(content)
		text, err := json.Marshal(members)
		act(m.t, err)
		m.exec(`UPDATE archived_violations SET rows = %d, manifest_sha256 = '\x%s'`, len(lines), sum(text))
		return text
	})
}

// counted notes other figures for blocks of refunds.
func (m *archivedMonth) counted(more int) {
	m.exec("UPDATE archived_violations SET refund_blocks = refund_blocks + %d", more)
}

// TestTamperedMonths: whatever becomes of archived violations, both verifiers name it.
func TestTamperedMonths(t *testing.T) {
	t.Parallel()
	const (
		altered   = "altered archive of MONTH"
		unchecked = `unchecked counter of budget "ever"`
	)
	another := func(lines []string) []string {
		lines[0] = strings.Replace(lines[0], `"counterparty":"customer"`, `"counterparty":"another"`, 1)
		return lines
	}
	for name, c := range map[string]struct {
		spoil func(m *archivedMonth)
		want  []string
	}{
		"clean":       {func(*archivedMonth) {}, nil},
		"no rows":     {func(m *archivedMonth) { act(m.t, os.Remove(m.rows)) }, []string{"unchecked month MONTH"}},
		"no manifest": {func(m *archivedMonth) { act(m.t, os.Remove(m.manifest)) }, []string{"unchecked month MONTH"}},
		"manifest": {func(m *archivedMonth) {
			rewrite(m.t, m.manifest, func(b []byte) []byte { return append(b, ' ') })
		}, []string{altered}},
		"a violation": {func(m *archivedMonth) { m.lines(false, another) }, []string{altered, "altered violation ", "inserted violation "}},
		"a violation everywhere": {func(m *archivedMonth) {
			m.lines(true, another)
			m.exec("UPDATE violations SET counterparty = 'another' WHERE id = (SELECT id FROM violations ORDER BY id LIMIT 1)")
		}, []string{"altered violation "}},
		"removed everywhere": {func(m *archivedMonth) {
			m.lines(true, func(lines []string) []string {
				m.exec("DELETE FROM violations WHERE id = '%s'", strings.TrimPrefix(lines[len(lines)-1], `{"id":"`)[:32])
				return lines[:len(lines)-1]
			})
			m.exec("UPDATE archived_violations SET refund_escalations = refund_escalations - 1")
		}, []string{"removed violation "}},
		"inserted everywhere, on a day without checks": {func(m *archivedMonth) {
			m.lines(true, func(lines []string) []string {
				at, err := time.Parse("2006-01", m.name)
				act(m.t, err)
				return append([]string{strings.Replace(lines[0], lines[0][7:39], spend.NewID(at).Text(""), 1)}, lines...)
			})
			m.exec("UPDATE archived_violations SET refund_blocks = refund_blocks + 1")
		}, []string{"inserted violation "}},
		"how many of a kind": {func(m *archivedMonth) { m.counted(1) }, []string{"altered month MONTH"}},
		"what is left of a row": {func(m *archivedMonth) {
			m.exec("UPDATE violations SET owner = 'x' WHERE id = (SELECT id FROM violations ORDER BY id LIMIT 1)")
		}, []string{"inserted violation "}},
		"the note": {func(m *archivedMonth) {
			m.exec("DELETE FROM archived_violations; DELETE FROM violations WHERE id = (SELECT id FROM violations ORDER BY id LIMIT 1)")
		}, []string{"removed violation "}},
		"a month that is not": {func(m *archivedMonth) {
			m.exec("DELETE FROM violations WHERE id = (SELECT id FROM violations ORDER BY id DESC LIMIT 1)")
		}, []string{"removed violation "}},
		"the archive of its day": {func(m *archivedMonth) { act(m.t, os.Remove(filepath.Join(m.dir, "checks-"+m.day+".manifest.json"))) }, []string{unchecked, "unchecked day DAY"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newArchivedMonth(t)
			c.spoil(m)
			own, _, err := m.verify(func(o *verify.Options) { o.Archives = m.dir })
			if theirs := m.stranger(false, "--archive", m.dir); err != nil || !slices.Equal(own, theirs) {
				t.Errorf("%v:\n  %s\nthe stranger:\n  %s", err, strings.Join(own, "\n  "), strings.Join(theirs, "\n  "))
			}
			if len(own) != len(c.want) {
				t.Fatalf("found %q, want %q", own, c.want)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(own[i], strings.NewReplacer("MONTH", m.name, "DAY", m.day).Replace(want)) {
					t.Errorf("found %q, want %q", own[i], want)
				}
			}
		})
	}
}

// TestGarbledMonth: a file that cannot be read to its end is named once.
func TestGarbledMonth(t *testing.T) {
	m := newArchivedMonth(t)
	rewrite(t, m.rows, func(b []byte) []byte { return b[:len(b)-9] })
	if own, s, err := m.verify(func(o *verify.Options) { o.Archives = m.dir }); err != nil || s.Clean() || !slices.Equal(own, []string{"altered archive of " + m.name}) {
		t.Errorf("found %q, %v", own, err)
	}
}
