package verify_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/archive"
	"spendgate/audit/checkpoint"
	"spendgate/audit/postgres/detach"
	"spendgate/audit/postgres/snapshot"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

// folded is a trail in which one old day left with its batches, which began a chain that has later
// batches of today.
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
	epoch := must.Get(tr.store.Epoch(t.Context()))(t)
	fence := spend.Fence{Node: f.chain, Epoch: epoch}
	record := func(at time.Time) (all []*spend.Check) {
		all = checksOfAllSorts(fence)
		for i, c := range all {
			c.ID = spend.NewID(at.Add(time.Duration(i) * time.Hour))
			charge(c)
			if c.Pass.Passed() {
				c.Pass.ClaimedMS, c.Pass.UntilMS = c.ID.Time().UnixMilli(), c.ID.Time().UnixMilli()+300_000
			}
			must.Do(t, tr.writer.Append(c).Final())
		}
		return all
	}
	report := func(of *spend.Check, after time.Duration, number int, note string) *spend.Outcome {
		o := &spend.Outcome{
			ID: spend.NewOutcomeID(of.ID.Time().Add(after)), CheckID: of.ID, Step: number, Number: number, Status: spend.Failed,
			Release: spend.ReleaseNone, KeyID: "key_1", RequestID: "req_1", Fence: fence, Check: of, MayRelease: number > 1,
			Reference: strings.Repeat("r – ü ", len(note)), Note: note,
		}
		must.Do(t, tr.writer.AppendOutcome(o).Final())
		return o
	}
	first := record(day)
	f.noted = report(first[2], time.Hour, 1, "a\t\"note\" – ü")
	report(first[2], 2*time.Hour, 2, "")
	second := record(day.AddDate(0, 0, 1))
	report(second[2], time.Minute, 1, "of the next day")
	tr.exec("DELETE FROM idempotency_keys WHERE check_id < first_id(%d)", day.AddDate(0, 0, 2).UnixMilli()) // they would have expired
	for _, c := range checksOfAllSorts(fence) {
		must.Do(t, tr.writer.Append(c).Final())
	}
	must.Do(t, os.Remove(tr.file)) // it would have the checks recorded until now
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
	key := must.Get(checkpoint.NewKey(bytes.Repeat([]byte{7}, 32)))(t)
	return key
}

func (f *folded) detach(before time.Time, change func(*detach.Options)) {
	f.t.Helper()
	options := detach.Options{
		URL: f.url, Dir: f.dir, Before: before, Now: time.Now(), Fold: true, Key: foldingKey(f.t),
		Report: func(detach.Detached) {}, Found: func(found verify.Finding) { f.t.Error(found) },
	}
	if change != nil {
		change(&options)
	}
	must.Do(f.t, detach.Checks(f.t.Context(), options))
}

// TestFoldedIsProved: with the archives everything verifies. Without them both verifiers report
// what is not known, in the same way.
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
	all := must.Get(filepath.Glob(filepath.Join(f.dir, "batches-*.manifest.json")))(f.t)
	for _, path := range all {
		day := must.Get(time.Parse(time.DateOnly, filepath.Base(path)[len("batches-"):][:10]))(f.t)
		a := must.Get(archive.Open(f.dir, archive.BatchesOf(day)))(f.t)
		n += a.Rows
	}
	return n
}

// TestWithoutFolded: an unreadable archive is reported once, and nothing that depends on it is
// reported as altered.
func TestWithoutFolded(t *testing.T) {
	t.Parallel()
	f := newFolded(t)
	next := f.next()
	for name, c := range map[string]struct {
		spoil func(*folded)
		want  []string
	}{
		"rows":      {func(f *folded) { must.Do(f.t, os.Remove(f.batches.rows)) }, []string{"unchecked batches of DAY"}},
		"manifest":  {func(f *folded) { must.Do(f.t, os.Remove(f.batches.manifest)) }, []string{"unchecked batches of DAY"}},
		"the later": {func(f *folded) { must.Do(f.t, os.Remove(f.next().rows)) }, []string{"unchecked batches of " + next.of}},
		"both": {func(f *folded) {
			must.Do(f.t, os.Remove(f.batches.rows))
			must.Do(f.t, os.Remove(f.next().rows))
		}, []string{"unchecked batches of DAY", "unchecked batches of " + next.of}},
		"all": {func(f *folded) {
			all := must.Get(filepath.Glob(filepath.Join(f.dir, "*")))(f.t)
			for _, path := range all {
				must.Do(f.t, os.Remove(path))
			}
		}, []string{
			"unchecked batches of DAY", "unchecked batches of " + next.of, "unchecked day DAY", "unchecked day " + next.of,
		}},
	} {
		f.spoiled(name, c.spoil, func(f *folded, own []string) {
			for i := range c.want {
				c.want[i] = strings.ReplaceAll(c.want[i], "DAY", f.day.of)
			}
			slices.Sort(c.want)
			if name == "all" {
				own = slices.DeleteFunc(own, func(f string) bool { return strings.HasPrefix(f, "unchecked counter") })
			}
			if !slices.Equal(own, c.want) {
				f.t.Errorf("found\n  %s\nwant\n  %s", strings.Join(own, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
	found, s, err := f.verify(func(o *verify.Options) { o.From = time.Now().AddDate(0, 0, -1) })
	if err != nil || len(found) > 0 || s.Checks == 0 {
		t.Errorf("of today: %q, %v", found, err)
	}
}

// next are the files of the day behind the first.
func (f *folded) next() files {
	day := must.Get(time.Parse(time.DateOnly, f.day.of))(f.t)
	name := filepath.Join(f.dir, "batches-"+day.AddDate(0, 0, 1).Format(time.DateOnly))
	return files{of: day.AddDate(0, 0, 1).Format(time.DateOnly), manifest: name + ".manifest.json", rows: name + ".jsonl.gz"}
}

// spoiled checks that both verifiers find the same after spoil, and undoes spoil.
func (f *folded) spoiled(name string, spoil func(*folded), test func(*folded, []string)) {
	f.alter(f.t, name, func(tr *trail) {
		one := *f
		a := *f.archived
		one.archived, a.trail, a.dir = &a, tr, tr.t.TempDir()
		must.Do(tr.t, os.CopyFS(a.dir, os.DirFS(f.dir)))
		one.place()
		spoil(&one)
		own, _, err := one.verify(func(o *verify.Options) {
			o.Archives = a.dir
			one.held(o)
		})
		must.Do(tr.t, err)
		own = slices.Compact(own)
		if theirs := one.stranger(true, "--archive", a.dir); !slices.Equal(own, theirs) {
			tr.t.Errorf("found\n  %s\nthe stranger:\n  %s", strings.Join(own, "\n  "), strings.Join(theirs, "\n  "))
		}
		test(&one, own)
	})
}

// TestTamperedFolds: each column of a note and each member of an archive is named if it was
// altered, even if files, manifests and notes were all made to agree (G8).
func TestTamperedFolds(t *testing.T) {
	t.Parallel()
	f := newFolded(t)
	named := func(name string, spoil func(*folded), wants ...string) {
		f.spoiled(name, spoil, func(f *folded, own []string) {
			for _, want := range wants {
				if !slices.ContainsFunc(own, func(found string) bool { return strings.HasPrefix(found, strings.ReplaceAll(want, "DAY", f.day.of)) }) {
					f.t.Errorf("found\n  %s\nwithout %q", strings.Join(own, "\n  "), want)
				}
			}
			if len(own) == 0 {
				f.t.Error("nothing was found")
			}
		})
	}
	const first = "(SELECT min(to_seq) FROM folded_chains)"
	for _, c := range f.columns("folded_chains") {
		if c[0] == "folded_at" { // for people
			continue
		}
		other := map[string]string{
			"uuid": "gen_random_uuid()", "bigint": c[0] + " + 1", "date": "day - 1",
			"bytea": fmt.Sprintf("set_byte(%s, 3, 255 - get_byte(%[1]s, 3))", c[0]),
		}[c[1]]
		for _, which := range []string{"="} {
			named(c[0]+" "+which, func(f *folded) {
				f.exec("UPDATE folded_chains SET %s = %s WHERE to_seq %s %s", c[0], other, which, first)
			},
				"altered fold of chain ")
		}
	}
	signed := func(sql string) func(*folded) { return func(f *folded) { f.exec(sql); f.resign() } }
	named("a note", func(f *folded) { f.exec("DELETE FROM folded_chains WHERE to_seq = " + first) },
		"altered fold", "removed batch 1 of chain")
	named("the last note", func(f *folded) { f.exec("DELETE FROM folded_chains WHERE to_seq > " + first) }, "removed batch")
	named("all notes", func(f *folded) { f.exec("DELETE FROM folded_chains") }, "inserted check", "removed batch 1 of chain")
	named("the head, signed", signed("UPDATE folded_chains SET head = sha256(head) WHERE to_seq > "+first), "altered fold")
	named("the entries, signed", signed("UPDATE folded_chains SET entries = entries + 1 WHERE to_seq > "+first), "altered fold")
	named("a forged note", func(f *folded) {
		f.exec("INSERT INTO folded_chains SELECT b.chain_id, seq, seq, decode(repeat('00', 32), 'hex'), b.head, "+
			"length(b.entries) / 48, day, manifest_sha256, signature FROM (SELECT * FROM batches WHERE chain_id = '%s' AND seq = 1) AS b, "+
			"(SELECT * FROM folded_chains LIMIT 1) AS f; "+
			"DELETE FROM batches WHERE chain_id = '%[1]s' AND seq = 1", f.chains[0].Text("")) // folded_at has a default
	}, "altered fold of chain "+f.chains[0].Text(""))
	named("the batch behind it", func(f *folded) { f.exec("DELETE FROM batches WHERE chain_id = '%s'", f.chain.Text("")) }, "removed batch")
	named("a batch that left", func(f *folded) {
		f.exec("INSERT INTO batches SELECT chain_id, 1, first_id, last_id, version, head, entries FROM batches WHERE chain_id = '%s' LIMIT 1",
			f.chain.Text(""))
	}, "inserted batch 1 of chain")
	named("an outcome", func(f *folded) { f.exec("UPDATE outcomes SET note = 'x' WHERE outcome_id = '%s'", f.noted.ID.Text("")) },
		"altered outcome")
	named("an outcome's status", func(f *folded) {
		f.exec("UPDATE outcomes SET status = 'v' WHERE outcome_id = '%s'", f.noted.ID.Text(""))
	},
		"altered outcome")
	named("no outcome", func(f *folded) { f.exec("DELETE FROM outcomes WHERE outcome_id = '%s'", f.noted.ID.Text("")) }, "removed outcome")

	for _, noted := range []bool{false, true} {
		change := func(name string, change func([]string) []string, want ...string) {
			if !noted {
				if name != "texts" && name != "removed" {
					return
				}
				want = []string{"altered archive of batches of DAY"}
			}
			named(fmt.Sprint(name, " noted ", noted), func(f *folded) { f.lines(noted, change) }, want...)
		}
		inMember := func(name string) func([]string) []string {
			return func(lines []string) []string {
				i := slices.IndexFunc(lines, func(l string) bool { return !strings.Contains(l, `"texts":null`) })
				lines[i] = regexp.MustCompile(`("`+name+`":"?.*?)([0-9a-f])("?[,}])`).ReplaceAllStringFunc(lines[i], func(m string) string {
					at := regexp.MustCompile(`[0-9a-f]("?[,}])$`).FindStringIndex(m)[0]
					digit := map[bool]string{true: "1", false: "2"}[m[at] != '1']
					return m[:at] + digit + m[at+1:]
				})
				return lines
			}
		}
		change("chain_id", inMember("chain_id"), "altered archive of batches of DAY")
		change("seq", inMember("seq"), "altered archive of batches of DAY")
		change("version", inMember("version"), "unchecked batch")
		change("first_id", inMember("first_id"), "altered batch")
		change("last_id", inMember("last_id"), "altered batch")
		change("head", inMember("head"), "altered batch")
		change("entries", inMember("entries"), "altered batch", "altered outcome")
		change("texts", func(lines []string) []string {
			for i := range lines {
				lines[i] = strings.ReplaceAll(lines[i], "note", "nota")
			}
			return lines
		}, "altered outcome")
		change("no texts", func(lines []string) []string {
			for i := range lines {
				lines[i] = regexp.MustCompile(`"texts":".*"}`).ReplaceAllString(lines[i], `"texts":null}`)
			}
			return lines
		}, "altered outcome")
		change("removed", func(lines []string) []string { return lines[1:] }, "altered archive of batches of DAY")
		change("the last", func(lines []string) []string { return lines[:len(lines)-1] }, "altered archive of batches of DAY")
		change("twice", func(lines []string) []string { return slices.Insert(lines, 1, lines[0]) }, "altered archive of batches of DAY")
		change("order", func(lines []string) []string {
			lines[0], lines[1] = lines[1], lines[0]
			return lines
		}, "altered archive of batches of DAY")
	}
}

// resign signs all folds in their present state, as anybody with the key could.
func (f *folded) resign() {
	f.t.Helper()
	snapshot := must.Get(snapshot.Open(f.t.Context(), f.url, 1))(f.t)
	defer snapshot.Close()
	must.Do(f.t, snapshot.Folds(f.t.Context(), func(fold verify.Fold) error {
		f.exec("UPDATE folded_chains SET signature = '\\x%x' WHERE chain_id = '%s' AND to_seq = %d", foldingKey(f.t).SignFold(&fold.Fold),
			fold.Chain.Text(""), fold.To)
		return nil
	}))
}

// lines rewrites the lines of the first archive of batches, and with noted the manifest and the
// database's note.
func (f *folded) lines(noted bool, change func([]string) []string) {
	f.t.Helper()
	var lines []string
	var content, packed []byte
	rewrite(f.t, f.batches.rows, func(b []byte) []byte {
		lines = change(strings.SplitAfter(strings.TrimSuffix(string(unpacked(f.t, b)), "\n"), "\n"))
		content = []byte(strings.TrimSuffix(strings.Join(lines, ""), "\n") + "\n")
		packed = pack(f.t, content, gzip.DefaultCompression)
		return packed
	})
	if !noted {
		return
	}
	sum := func(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }
	rewrite(f.t, f.batches.manifest, func(b []byte) []byte {
		var members map[string]any
		must.Do(f.t, json.Unmarshal(b, &members))
		var low, high []string
		for _, l := range lines {
			var of struct {
				First string `json:"first_id"`
				Last  string `json:"last_id"`
			}
			must.Do(f.t, json.Unmarshal([]byte(l), &of))
			low, high = append(low, of.First), append(high, of.Last)
		}
		members["rows"], members["first_id"], members["last_id"] = len(lines), slices.Min(low), slices.Max(high)
		members["file_sha256"], members["content_sha256"] = sum(packed), sum(content)
		text := must.Get(json.Marshal(members))(f.t)
		f.exec(`UPDATE folded_chains SET manifest_sha256 = '\x%s' WHERE day = '%s'`, sum(text), f.batches.of)
		return text
	})
	f.resign()
}
