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

	"spendgate/audit/postgres/detach"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// files are the files of an archive.
type files struct {
	of             string // the day or month
	manifest, rows string
	table          string // in which the database notes it
	prefix         string // of the identifiers in the manifest
}

// archived is a trail with an old month: the checks of its one day were archived,
// then its violations.
type archived struct {
	*trail
	dir        string // of both archives
	day, month files
}

func newArchived(t *testing.T) *archived {
	t.Helper()
	return newArchivedIn(t, newTrail(t))
}

func newArchivedIn(t *testing.T, tr *trail) *archived {
	t.Helper()
	a := &archived{trail: tr, dir: t.TempDir()}
	now := time.Now().UTC()
	begin := time.Date(now.Year(), now.Month()-3, 1, 0, 0, 0, 0, time.UTC)
	day := begin.AddDate(0, 0, 4)
	a.recordOn(day)
	options := detach.Options{
		URL: a.url, Dir: a.dir, Before: begin.AddDate(0, 1, 0), Now: now,
		Report: func(detach.Detached) {}, Found: func(f verify.Finding) { t.Error(f) },
	}
	must.Do(t, detach.Checks(t.Context(), options))
	must.Do(t, detach.Violations(t.Context(), options))
	// Their events are numbered as if they had been committed then.
	a.exec(`CREATE TEMPORARY TABLE ordered AS
		SELECT source, type, row_number() OVER (ORDER BY type <> 'violation.recorded' OR source >= first_id(%d), sequence) AS n FROM events;
		UPDATE events SET sequence = -sequence; UPDATE events AS e SET sequence = o.n FROM ordered AS o WHERE o.source = e.source
		AND o.type = e.type;
		DROP TABLE ordered`, begin.AddDate(0, 1, 0).UnixMilli())
	a.day = files{of: day.Format(time.DateOnly), table: "archived_days", prefix: spend.PrefixCheck}
	a.month = files{of: begin.Format("2006-01"), table: "archived_violations", prefix: spend.PrefixViolation}
	a.locate()
	return a
}

// locate sets the names of the files.
func (a *archived) locate() {
	for of, f := range map[string]*files{"checks-": &a.day, "violations-": &a.month} {
		name := filepath.Join(a.dir, of+f.of)
		f.manifest, f.rows = name+".manifest.json", name+".jsonl.gz"
	}
}

// recordOn records checks of an old day.
func (tr *trail) recordOn(day time.Time) {
	tr.t.Helper()
	tr.exec("SELECT make_partition('%s')", day.Format(time.DateOnly))
	tr.exec("UPDATE migrations SET applied_at = now() - interval '30 days'")
	epoch := must.Get(tr.store.Epoch(tr.t.Context()))(tr.t)
	for i, c := range checksOfAllSorts(spend.Fence{Node: spend.NewID(day), Epoch: epoch}) {
		c.ID = spend.NewID(day.Add(time.Duration(i) * time.Hour))
		charge(c)
		if c.Pass.Passed() {
			c.Pass.ClaimedMS, c.Pass.UntilMS = c.ID.Time().UnixMilli(), c.ID.Time().UnixMilli()+300_000
		}
		must.Do(tr.t, tr.writer.Append(c).Final())
	}
	tr.exec("DELETE FROM idempotency_keys WHERE check_id < first_id(%d)", day.AddDate(0, 0, 1).UnixMilli()) // they would have expired
}

// lines rewrites the lines of an archive, and with noted also the manifest and the database's note,
// as somebody could who knows how archives are made.
func (a *archived) lines(f *files, noted bool, change func([]string) []string) {
	a.t.Helper()
	var lines []string
	var content, packed []byte
	rewrite(a.t, f.rows, func(b []byte) []byte {
		lines = change(strings.SplitAfter(strings.TrimSuffix(string(unpacked(a.t, b)), "\n"), "\n"))
		content = []byte(strings.TrimSuffix(strings.Join(lines, ""), "\n") + "\n")
		packed = pack(a.t, content, gzip.DefaultCompression)
		return packed
	})
	if !noted {
		return
	}
	sum := func(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }
	id := func(line string) string { return f.prefix + strings.SplitN(line, `"`, 5)[3] }
	rewrite(a.t, f.manifest, func(b []byte) []byte {
		var members map[string]any
		must.Do(a.t, json.Unmarshal(b, &members))
		members["rows"], members["first_id"], members["last_id"] = len(lines), id(lines[0]), id(lines[len(lines)-1])
		members["file_sha256"], members["content_sha256"] = sum(packed), sum(content)
		text := must.Get(json.Marshal(members))(a.t)
		a.exec(`UPDATE %s SET rows = %d, manifest_sha256 = '\x%s'`, f.table, len(lines), sum(text))
		return text
	})
}

func unpacked(t *testing.T, b []byte) []byte {
	t.Helper()
	r := must.Get(gzip.NewReader(bytes.NewReader(b)))(t)
	content := must.Get(io.ReadAll(r))(t)
	return content
}

func pack(t *testing.T, content []byte, level int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, level)
	must.Do(t, err)
	_, err = w.Write(content)
	must.Do(t, err)
	must.Do(t, w.Close())
	return out.Bytes()
}

func rewrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	must.Do(t, os.WriteFile(path, change(content), 0o600))
}

// tampering is a change of archives, and the beginnings of its findings, sorted.
type tampering struct {
	spoil func(a *archived)
	want  []string
}

// named demands that each tampering is reported, also by the stranger unless it gives up where it
// cannot read.
func (a *archived) named(t *testing.T, stranger bool, tampered map[string]tampering) {
	t.Helper()
	for name, c := range tampered {
		a.alter(t, name, func(tr *trail) {
			one := *a
			one.trail, one.dir = tr, tr.t.TempDir()
			must.Do(tr.t, os.CopyFS(one.dir, os.DirFS(a.dir)))
			one.locate()
			c.spoil(&one)
			own, _, err := one.verify(func(o *verify.Options) { o.Archives = one.dir })
			must.Do(tr.t, err)
			if stranger {
				if theirs := one.stranger(false, "--archive", one.dir); !slices.Equal(own, theirs) {
					tr.t.Errorf("found\n  %s\nthe stranger:\n  %s", strings.Join(own, "\n  "), strings.Join(theirs, "\n  "))
				}
			}
			names := strings.NewReplacer("MONTH", a.month.of, "DAY", a.day.of)
			if len(own) != len(c.want) {
				tr.t.Fatalf("found\n  %s\nwant\n  %s", strings.Join(own, "\n  "), strings.Join(c.want, "\n  "))
			}
			for i, want := range c.want {
				if !strings.HasPrefix(own[i], names.Replace(want)) {
					tr.t.Errorf("found %q, want %q", own[i], want)
				}
			}
		})
	}
}

// inLine returns a change of a line.
func inLine(i int, old, text string) func([]string) []string {
	return func(lines []string) []string {
		lines[i] = strings.Replace(lines[i], old, text, 1)
		return lines
	}
}

// TestTamperedArchives: both verifiers report any change of an archive. Where files, manifest and
// database were all made to agree, the chain shows the check (G8).
func TestTamperedArchives(t *testing.T) {
	t.Parallel()
	day := func(noted bool, change func([]string) []string) func(*archived) {
		return func(a *archived) { a.lines(&a.day, noted, change) }
	}
	manifest := func(change func([]byte) []byte) func(*archived) {
		return func(a *archived) { rewrite(a.t, a.day.manifest, change) }
	}
	file := func(change func([]byte) []byte) func(*archived) {
		return func(a *archived) { rewrite(a.t, a.day.rows, change) }
	}
	const altered = "altered archive of DAY"
	const allowed = 2                                       // the line of a check that is no violation
	const inserted = "inserted principal key_1 of counter " // whose checks are not there
	const ever, everUnchecked = `altered counter of budget "ever"`, `unchecked counter of budget "ever"`
	unread := []string{altered, everUnchecked} // what took from the counter is not all there
	a := newArchived(t)
	a.named(t, true, map[string]tampering{
		"clean":       {func(*archived) {}, nil},
		"no rows":     {func(a *archived) { must.Do(a.t, os.Remove(a.day.rows)) }, []string{everUnchecked, "unchecked day DAY"}},
		"no manifest": {func(a *archived) { must.Do(a.t, os.Remove(a.day.manifest)) }, []string{everUnchecked, "unchecked day DAY"}},

		"manifest":                {manifest(func(b []byte) []byte { return append(b, ' ') }), unread},
		"manifest of another day": {manifest(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("-05"), []byte("-06")) }), unread},

		"altered": {
			day(false, inLine(allowed, `"customer"`, `"another"`)), []string{altered, "altered check ", everUnchecked},
		},
		"altered everywhere":      {day(true, inLine(allowed, `"customer"`, `"another"`)), []string{"altered check "}},
		"null for empty":          {day(true, inLine(allowed, `"payment_method":null`, `"payment_method":""`)), []string{"altered check "}},
		"another amount's digits": {day(true, inLine(allowed, `"amount":"125.5"`, `"amount":"125.50"`)), []string{"altered check "}},
		"removed everywhere": {
			day(true, func(lines []string) []string { return slices.Delete(lines, allowed, allowed+1) }),
			[]string{ever, inserted, inserted, inserted, "removed check "},
		},
		"the last removed everywhere": {
			day(true, func(lines []string) []string { return lines[:len(lines)-1] }), []string{"removed check ", "unchecked violation "},
		},
		"inserted everywhere": {day(true, func(lines []string) []string {
			of := lines[allowed][13:45]
			another := of[:31] + "0"
			if another == of {
				another = of[:31] + "1"
			}
			lines = append(lines, strings.Replace(lines[allowed], of, another, 1))
			slices.Sort(lines) // by the identifiers, with which they begin
			return lines
		}), []string{ever, "inserted check "}},

		"packed anew": {file(func(b []byte) []byte { return pack(t, unpacked(t, b), gzip.NoCompression) }), unread},
	})
	a.named(t, false, map[string]tampering{
		"half a manifest": {manifest(func(b []byte) []byte { return b[:20] }), unread},
		"of another day": {day(true, func(lines []string) []string {
			return slices.Insert(lines, 0, strings.Replace(lines[0], lines[0][13:45], "00000000000070008000000000000000", 1))
		}), unread},
		"not a line": {
			day(true, func(lines []string) []string { lines[allowed] = lines[allowed][:20] + "\n"; return lines }), unread,
		},
		"a byte of the checksum":     {file(func(b []byte) []byte { b[len(b)-6] ^= 1; return b }), unread},
		"the end of the file":        {file(func(b []byte) []byte { return b[:len(b)-9] }), unread},
		"behind the end of the file": {file(func(b []byte) []byte { return append(b, "more"...) }), unread},
		"in the database, too": {func(a *archived) {
			a.exec("INSERT INTO checks SELECT * FROM checks_%s LIMIT 1", strings.ReplaceAll(a.day.of, "-", ""))
		}, []string{"inserted day DAY"}},
	})
}

// TestTamperedMonths: both verifiers report any change of archived violations (G8).
func TestTamperedMonths(t *testing.T) {
	t.Parallel()
	const altered = "altered archive of MONTH"
	another := func(lines []string) []string {
		lines[0] = strings.Replace(lines[0], `"counterparty":"customer"`, `"counterparty":"another"`, 1)
		return lines
	}
	a := newArchived(t)
	a.named(t, true, map[string]tampering{
		"clean":       {func(*archived) {}, nil},
		"no rows":     {func(m *archived) { must.Do(m.t, os.Remove(m.month.rows)) }, []string{"unchecked month MONTH"}},
		"no manifest": {func(m *archived) { must.Do(m.t, os.Remove(m.month.manifest)) }, []string{"unchecked month MONTH"}},
		"manifest": {func(m *archived) {
			rewrite(m.t, m.month.manifest, func(b []byte) []byte { return append(b, ' ') })
		}, []string{altered}},
		"a violation": {func(m *archived) { m.lines(&m.month, false, another) }, []string{altered, "altered violation ", "inserted violation "}},
		"a violation everywhere": {func(m *archived) {
			m.lines(&m.month, true, another)
			m.exec("UPDATE violations SET counterparty = 'another' WHERE id = (SELECT id FROM violations ORDER BY id LIMIT 1)")
		}, []string{"altered violation "}},
		"removed everywhere": {func(m *archived) {
			m.lines(&m.month, true, func(lines []string) []string {
				m.exec("DELETE FROM violations WHERE id = '%s'", strings.TrimPrefix(lines[len(lines)-1], `{"id":"`)[:32])
				return lines[:len(lines)-1]
			})
			m.exec("UPDATE archived_violations SET refund_escalations = refund_escalations - 1")
		}, []string{"altered events of month MONTH", "removed violation "}},
		"inserted everywhere, on a day without checks": {func(m *archived) {
			m.lines(&m.month, true, func(lines []string) []string {
				at := must.Get(time.Parse("2006-01", m.month.of))(m.t)
				return append([]string{strings.Replace(lines[0], lines[0][7:39], spend.NewID(at).Text(""), 1)}, lines...)
			})
			m.exec("UPDATE archived_violations SET refund_blocks = refund_blocks + 1")
		}, []string{"altered events of month MONTH", "inserted violation "}},
		"how many of a kind": {
			func(m *archived) { m.exec("UPDATE archived_violations SET refund_blocks = refund_blocks + 1") }, []string{"altered month MONTH"},
		},
		"what is left of a row": {func(m *archived) {
			m.exec("UPDATE violations SET owner = 'x' WHERE id = (SELECT id FROM violations ORDER BY id LIMIT 1)")
		}, []string{"inserted violation "}},
		"the note": {func(m *archived) {
			m.exec("DELETE FROM archived_violations; DELETE FROM violations WHERE id = (SELECT id FROM violations ORDER BY id LIMIT 1)")
		}, []string{"inserted event ", "removed violation "}},
		"a month that is not": {func(m *archived) {
			m.exec("DELETE FROM violations WHERE id = (SELECT id FROM violations ORDER BY id DESC LIMIT 1)")
		}, []string{"inserted event ", "removed violation "}},
		"the archive of its day": {
			func(m *archived) { must.Do(m.t, os.Remove(m.day.manifest)) }, []string{`unchecked counter of budget "ever"`, "unchecked day DAY"},
		},
	})
	a.named(t, false, map[string]tampering{
		"the end of the file": {func(m *archived) {
			rewrite(m.t, m.month.rows, func(b []byte) []byte { return b[:len(b)-9] })
		}, []string{altered}},
	})
}
