package detach

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/archive"
	"spendgate/audit/audittest"
	"spendgate/audit/checkpoint"
	writing "spendgate/audit/commit"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
	"spendgate/bench/must"
)

func foldingKey(t *testing.T) checkpoint.Key {
	t.Helper()
	return must.Get(checkpoint.NewKey(bytes.Repeat([]byte{7}, 32)))(t)
}

// longChain is a trail with old days and a chain that has batches of these days and one batch of
// today.
type longChain struct {
	*oldDays
	fence    spend.Fence
	writer   *writing.Writer
	reported *spend.Outcome // on the second day, of the first check
}

func newLongChain(t *testing.T) *longChain {
	t.Helper()
	l := &longChain{oldDays: newOldDays(t)}
	l.fence, l.writer = newFence(t, l.Store), audittest.NewWriter(t, l.Store)
	var first *spend.Check
	for d := range 2 {
		for i := range 3 {
			c := l.commit(t, l.first.AddDate(0, 0, d).Add(time.Duration(i)*time.Hour+time.Minute))
			if first == nil {
				first = c
			}
		}
	}
	l.reported = l.report(t, first, l.first.AddDate(0, 0, 1).Add(3*time.Hour))
	l.commit(t, time.Now())
	l.checks = slices.DeleteFunc(l.checks, func(c *spend.Check) bool { return c.ID.Time().After(l.before()) })
	return l
}

// commit records a check in a batch of its own.
func (l *longChain) commit(t *testing.T, at time.Time) *spend.Check {
	t.Helper()
	c := minimal(l.fence)
	c.ID, c.Action.PolicyID = spend.NewID(at), "p"
	must.Do(t, l.writer.Append(c).Final())
	l.checks = append(l.checks, c)
	return c
}

func (l *longChain) report(t *testing.T, of *spend.Check, at time.Time) *spend.Outcome {
	t.Helper()
	o := &spend.Outcome{
		ID: spend.NewOutcomeID(at), CheckID: of.ID, Check: of, Step: 1, Number: 1, Status: spend.Failed, Release: spend.ReleaseNone,
		Reference: "psp-1", Note: "a \"note\" – ü", KeyID: "key_1", RequestID: "req_1", Fence: l.fence,
	}
	must.Do(t, l.writer.AppendOutcome(o).Final())
	return o
}

func (l *longChain) fold(t *testing.T, change func(*Options)) ([]Detached, []verify.Finding, error) {
	t.Helper()
	return l.detach(t, func(o *Options) {
		o.Fold, o.Key = true, foldingKey(t)
		if change != nil {
			change(o)
		}
	})
}

// proved checks that the whole trail verifies, signatures included.
func (l *longChain) proved(t *testing.T) {
	t.Helper()
	s := l.snapshot(t)
	defer s.Close()
	var found []string
	summary, err := verify.Verify(t.Context(), verify.Options{
		Evidence: s, Archives: l.dir, FoldKeys: []checkpoint.PublicKey{foldingKey(t).Public()}, Workers: 2, SliceSize: 8,
		Found: func(f verify.Finding) { found = append(found, f.String()) },
	})
	if err != nil || !summary.Clean() || summary.Outcomes != 1 {
		t.Errorf("%v, %+v: %q", err, summary, found)
	}
}

func (l *longChain) left(t *testing.T) int {
	t.Helper()
	return count(t, l.Store, "batches WHERE chain_id = '"+l.fence.Node.Text("")+"'")
}

func (l *longChain) counted(t *testing.T) []audit.CheckCount {
	t.Helper()
	until := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	counts := must.Get(l.CheckCounts(t.Context(), audit.CountQuery{
		From: until.AddDate(0, 0, -20), Until: until, Step: 24 * time.Hour, PolicyID: "p",
	}))(t)
	return counts
}

// TestFold has the batches of two days leave; nothing that anybody asks for changes (G8).
func TestFold(t *testing.T) {
	l := newLongChain(t)
	l.proved(t)
	heads := must.Get(l.Heads(t.Context()))(t)
	counts := l.counted(t)
	var left []NotFolded
	done, found, err := l.fold(t, func(o *Options) { o.Left = func(u NotFolded) { left = append(left, u) } })
	if err != nil || len(found) > 0 || len(done) != 4 {
		t.Fatalf("%+v, %v, %v", done, found, err)
	}
	for i, rows := range []int64{3, 4} { // the first day's; the second's, and the report on the first's
		if d := done[2+i]; d.Rows != rows || !slices.Equal(d.Steps, []string{"archived", "folded"}) || d.Part.Table() != "batches" {
			t.Errorf("%+v", d)
		}
	}
	if n := l.left(t); n != 1 || len(left) != 1 || left[0] != (NotFolded{Last: 6}) { // the other chains have one each
		t.Errorf("%d batches of the chain are left, %+v", n, left)
	}
	l.proved(t)
	if n := count(t, l.Store, "outcomes WHERE reference IS NULL AND note IS NULL"); n != 1 {
		t.Errorf("%d outcomes without texts", n)
	}
	if now, err := l.Heads(t.Context()); err != nil || !slices.Equal(now.Chains, heads.Chains) {
		t.Errorf("the heads are %v, were %v: %v", now, heads, err)
	}
	same := func(when string) {
		t.Helper()
		if now := l.counted(t); !slices.Equal(now, counts) {
			t.Errorf("%s there are %v checks, were %v", when, now, counts)
		}
	}
	same("folded")
	statement(t, l.url, "UPDATE check_counts SET allows = 77; SELECT recount_checks()")
	same("recounted")
	statement(t, l.url, "UPDATE check_count_state SET cluster = 1")
	same("in another cluster")
	statement(t, l.url, "SELECT recount_checks()")
	l.commit(t, time.Now())
	l.proved(t)
	if done, _, err := l.fold(t, nil); err != nil || len(done) > 0 {
		t.Errorf("again: %+v, %v", done, err)
	}
	l.report(t, l.recent, l.first.Add(time.Hour)) // its batch stays
	for _, change := range []string{
		"UPDATE batches SET head = ''", "DELETE FROM batches", "TRUNCATE batches", "UPDATE outcomes SET note = 'x'",
		"UPDATE outcomes SET reference = NULL, note = NULL",
		"UPDATE outcomes SET status = 'v'", "DELETE FROM outcomes", "TRUNCATE outcomes",
		"UPDATE folded_chains SET entries = 1", "DELETE FROM folded_chains", "TRUNCATE folded_chains",
	} {
		if _, err := l.Reads.Exec(t.Context(), change); err == nil || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("%s: got %v, want a refusal", change, err)
		}
	}
}

// TestFoldWithTheNextDay: an outcome of a time before its check's day has its batch wait until that day
// is detached, too (G8).
func TestFoldWithTheNextDay(t *testing.T) {
	l := newLongChain(t)
	l.fence, l.writer = newFence(t, l.Store), audittest.NewWriter(t, l.Store)
	next := l.first.AddDate(0, 0, 1)
	l.report(t, l.checks[len(l.checks)-1], next.Add(-time.Second))
	l.commit(t, time.Now())
	early := func(o *Options) { o.Before = next }
	if _, _, err := l.fold(t, early); err == nil || !strings.Contains(err.Error(), "outcomes of checks that are still here") {
		t.Errorf("of a check that is here: %v", err)
	}
	if done, found, err := l.fold(t, nil); err != nil || len(found) > 0 || len(done) != 3 {
		t.Errorf("with the next day: %+v, %v, %v", done, found, err)
	}
	if n := count(t, l.Store, "outcomes WHERE note IS NOT NULL"); n != 0 || l.left(t) != 1 {
		t.Errorf("%d notes, %d batches are left", n, l.left(t))
	}
}

// TestFoldKilled kills the process between each two steps that write: another run finishes, and all is proved
// before and after, also when the chain went on meanwhile (G8).
func TestFoldKilled(t *testing.T) {
	for _, step := range []string{"archive batches", "verify batches", "count", "fold"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			l := newLongChain(t)
			if _, _, err := l.detach(t, nil); err != nil {
				t.Fatal(err)
			}
			leaveHalf(t, l.dir, "batches-"+l.first.Format(time.DateOnly))
			killAt(t, step, "batches", l.url, l.dir, l.before())
			l.proved(t)
			if n := l.left(t); n != 8 {
				t.Errorf("%d batches are left", n)
			}
			l.commit(t, time.Now())
			if done, found, err := l.fold(t, nil); err != nil || len(found) > 0 || len(done) != 2 {
				t.Fatalf("the next run: %+v, %v, %v", done, found, err)
			}
			if n := l.left(t); n != 2 {
				t.Errorf("%d batches are left after the next run", n)
			}
			l.proved(t)
		})
	}
}

// TestFoldGoesOn: a call was killed after it wrote its archive. The next call takes this archive,
// although the chain has meanwhile grown beyond the batch that was its last; that batch leaves with
// the next day.
func TestFoldGoesOn(t *testing.T) {
	l := newLongChain(t)
	l.fence, l.writer = newFence(t, l.Store), audittest.NewWriter(t, l.Store)
	for i := range 2 { // the second is the last of its chain
		l.commit(t, l.first.Add(time.Duration(i)*time.Hour))
	}
	if _, _, err := l.detach(t, nil); err != nil {
		t.Fatal(err)
	}
	killAt(t, "fold", "batches", l.url, l.dir, l.before())
	l.commit(t, time.Now())
	done, found, err := l.fold(t, nil)
	if err != nil || len(found) > 0 || len(done) != 2 || done[0].Rows != 4 || done[1].Rows != 5 || l.left(t) != 1 {
		t.Fatalf("%+v, %v, %v, %d left", done, found, err, l.left(t))
	}
	l.proved(t)
}

// TestFoldKeepsWhatIsNeeded: a chain's batches leave in their order, and only with all that they list.
func TestFoldKeepsWhatIsNeeded(t *testing.T) {
	l := newLongChain(t)
	l.fence, l.writer = newFence(t, l.Store), audittest.NewWriter(t, l.Store)
	l.commit(t, l.first)
	late := l.commit(t, time.Now()) // its clock was set
	l.commit(t, l.first.Add(time.Hour))
	l.commit(t, l.first.Add(2*time.Hour))
	var left NotFolded
	done, _, err := l.fold(t, func(o *Options) { o.Left = func(u NotFolded) { left = u } })
	if err != nil || len(done) != 4 || done[2].Rows != 4 || l.left(t) != 3 || left.Behind != 1 || left.Last != 7 {
		t.Errorf("%+v, %v, %d left, %+v", done, err, l.left(t), left)
	}
	l.proved(t)

	// An outcome of an old time, of a check that is here.
	o := newLongChain(t)
	o.fence, o.writer = newFence(t, o.Store), audittest.NewWriter(t, o.Store)
	here := o.commit(t, o.first.AddDate(0, 0, 1).Add(50*time.Hour))
	here.ID = late.ID
	recent := o.recent
	recent.Fence = o.fence
	o.fence, o.writer = newFence(t, o.Store), audittest.NewWriter(t, o.Store)
	o.report(t, recent, o.first.Add(time.Hour))
	o.commit(t, time.Now())
	if _, _, err := o.fold(t, nil); err == nil || !strings.Contains(err.Error(), "outcomes of checks that are still here") {
		t.Errorf("an outcome whose check is here: %v", err)
	}
}

// The database itself refuses to fold what is not proved, is folded already, or is not counted.
func TestFoldOfTheDatabase(t *testing.T) {
	l := newLongChain(t)
	if _, _, err := l.detach(t, nil); err != nil {
		t.Fatal(err)
	}
	node := l.fence.Node.Text("")
	fold := func(day string, from, to int, zero string) error {
		_, err := l.Reads.Exec(t.Context(), fmt.Sprintf(`SELECT fold_chains('%s', '\x00', ARRAY(SELECT ROW(chain_id, %d, %d, %s, head,
			(SELECT sum(length(entries)) / 48 FROM batches WHERE chain_id = '%s' AND seq BETWEEN %[2]d AND %[3]d), '%[1]s', '\x00', '\x00',
				now())::folded_chains
			FROM batches WHERE chain_id = '%[5]s' AND seq = %[3]d))`, day, from, to, zero, node))
		return err
	}
	day, zero := l.first.AddDate(0, 0, 1).Format(time.DateOnly), `decode(repeat('00', 32), 'hex')`
	refused := func(what, want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("what is not counted", "not counted", fold(day, 1, 3, zero))
	must.Do(t, l.CountChecks(t.Context()))
	refused("a day that is here", "still here", fold(time.Now().UTC().Format(time.DateOnly), 1, 3, zero))
	refused("behind a gap", "not those", fold(day, 2, 3, zero))
	refused("a head of another", "not those", fold(day, 1, 3, `'\x01'`))
	refused("the last", "not those", fold(day, 1, 8, zero))
	must.Do(t, fold(day, 1, 3, zero))
	_, err := l.Reads.Exec(t.Context(), "SELECT fold_chains($1, manifest_sha256, ARRAY[f]) FROM folded_chains AS f", l.first.AddDate(0, 0, 1))
	refused("again", "not those", err)
	if n := l.left(t); n != 5 {
		t.Errorf("%d are left", n)
	}
}

// TestFoldWhatIsProved: batches stay whose outcomes or checks are not as they were recorded, and no
// archive of others is taken.
func TestFoldWhatIsProved(t *testing.T) {
	l := newLongChain(t)
	if _, _, err := l.detach(t, nil); err != nil {
		t.Fatal(err)
	}
	id := l.reported.ID.Text("")
	change := func(sql string) { statement(t, l.url, "SET session_replication_role = replica; "+sql) }
	change("UPDATE outcomes SET note = 'another' WHERE outcome_id = '" + id + "'")
	done, found, err := l.fold(t, nil)
	if err == nil || len(done) != 0 && len(found) != 1 || !strings.Contains(fmt.Sprint(found), id) {
		t.Errorf("another note: %+v, %v, %v", done, found, err)
	}
	change("UPDATE outcomes SET note = 'a \"note\" – ü' WHERE outcome_id = '" + id + "'")
	if _, _, err := l.fold(t, nil); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("an archive with another note: %v", err)
	}
	act := func(err error) {
		t.Helper()
		must.Do(t, err)
	}
	second := l.first.AddDate(0, 0, 1)
	act(os.Remove(archive.ManifestPath(l.dir, archive.BatchesOf(second))))
	path := archive.ManifestPath(l.dir, archive.ChecksOf(second))
	rewrite(t, path, func(m []byte) []byte { return append(m, ' ') })
	if _, found, err := l.fold(t, nil); err == nil || len(found) != 1 {
		t.Errorf("with another archive of the checks: %v, %v", found, err)
	}
	act(os.Rename(path, path+".away"))
	if _, found, err := l.fold(t, nil); err == nil || len(found) != 1 || found[0].Kind != verify.Unchecked {
		t.Errorf("without the archive of the checks: %v, %v", found, err)
	}
	if n := l.left(t); n != 5 {
		t.Errorf("%d batches are left", n)
	}
	rewrite(t, path+".away", func(m []byte) []byte { return m[:len(m)-1] })
	act(os.Rename(path+".away", path))
	if _, found, err := l.fold(t, nil); err != nil || len(found) > 0 || l.left(t) != 1 {
		t.Errorf("mended: %v, %v", found, err)
	}
	l.proved(t)
}
