package commit_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// A lone check is committed at once; those that come meanwhile share the next.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: 10 * time.Millisecond}
		w := s.newWriter(100)
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if err := record(w, check(1, ""))[0]; err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		w.Close()
		if len(s.batches) != 2 || len(s.batches[0]) != 1 || len(s.batches[1]) != 9 {
			t.Errorf("%d batches", len(s.batches))
		}
	})
}

// One commit has one fence, and an idempotency key once.
func TestBatchesAreOfOneFenceAndDistinctKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: time.Millisecond}
		w := s.newWriter(100)
		errs := record(w, check(1, "a"), check(1, "b"), check(2, "c"), check(2, "c"), check(1, ""), check(1, "d"))
		w.Close()
		must.Check(t, errors.Join(errs...))
		for _, batch := range s.batches {
			keys := map[string]bool{}
			for _, c := range batch {
				if c.Fence != batch[0].Fence || keys[c.Action.IdempotencyKey] && c.Action.IdempotencyKey != "" {
					t.Errorf("a batch mixes fences or repeats a key")
				}
				keys[c.Action.IdempotencyKey] = true
			}
		}
		if len(s.rows) != 6 {
			t.Errorf("%d rows", len(s.rows))
		}
	})
}

// A commit changes few enough counters of budgets to end in time, whatever its checks
// take.
func TestBatchesHaveFewCharges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: time.Millisecond}
		w := s.newWriter(100)
		checks := make([]*spend.Check, 24)
		for i := range checks {
			checks[i] = check(1, "")
			checks[i].Charges, checks[i].Refused = make([]spend.Charge, 500), make([]spend.Charge, 100*(i%2))
		}
		checks[9].Charges = make([]spend.Charge, 5000)
		must.Check(t, errors.Join(record(w, checks...)...))
		w.Close()
		for _, batch := range s.batches {
			charges := 0
			for _, c := range batch {
				charges += len(c.Charges) + len(c.Refused)
			}
			if charges > 2048 && len(batch) > 1 {
				t.Errorf("%d checks have %d charges", len(batch), charges)
			}
		}
		if len(s.rows) != len(checks) || len(s.batches) > 12 {
			t.Errorf("%d rows in %d batches", len(s.rows), len(s.batches))
		}
	})
}

// A taken key fails its own check; the others are committed without it.
func TestTakenKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: time.Millisecond}
		s.spoil = func(batch []*spend.Check) (bool, error) {
			for _, c := range batch {
				if c.Action.IdempotencyKey == "taken" {
					return false, &audit.KeysTakenError{Hashes: []spend.Hash{spend.HashKey("taken")}}
				}
			}
			return true, nil
		}
		w := s.newWriter(100)
		errs := record(w, check(1, ""), check(1, "free"), check(1, "taken"), check(1, "other"))
		w.Close()
		for i, want := range []error{nil, nil, commit.ErrKeyTaken, nil} {
			if !errors.Is(errs[i], want) {
				t.Errorf("check %d: %v", i, errs[i])
			}
		}
		if len(s.rows) != 3 {
			t.Errorf("%d rows", len(s.rows))
		}
	})
}

// F136: a store that names one unread redemption at a time does not have the commit made once for each
// of an API key, and refuses those of no other key.
func TestUnreadRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: time.Millisecond}
		var commits [][]*spend.Outcome
		s.refuse = func(outcomes []*spend.Outcome) error {
			commits = append(commits, outcomes)
			for _, o := range outcomes {
				if o.Note == "differs" {
					return &audit.ReportedError{CheckIDs: []spend.ID{o.CheckID}}
				}
			}
			return nil
		}
		w := s.newWriter(100)
		redemption := func(key, note string, unread bool) *commit.Entry {
			c := check(1, "")
			return w.AppendOutcome(&spend.Outcome{
				ID: spend.NewOutcomeID(time.Now()), CheckID: c.ID, Check: c, Status: spend.Redeemed, Release: spend.ReleaseNone,
				KeyID: key, Note: note, Unread: unread, Fence: c.Fence,
			})
		}
		w.Append(check(1, "")) // during whose commit the others come
		synctest.Wait()
		entries := []*commit.Entry{redemption("k", "", false), redemption("other", "", true)}
		for range 50 {
			entries = append(entries, redemption("k", "differs", true))
		}
		for i, e := range entries {
			if err := e.Final(); (err == nil) != (i < 2) || err != nil && !errors.Is(err, commit.ErrReported) {
				t.Errorf("redemption %d: %v", i, err)
			}
		}
		w.Close()
		if len(commits) != 3 || len(commits[1]) != len(entries) || len(commits[2]) != 2 {
			t.Errorf("%d commits", len(commits))
		}
	})
}

// A row that the store refuses fails alone.
func TestPoisonRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: time.Millisecond}
		s.spoil = func(batch []*spend.Check) (bool, error) {
			for _, c := range batch {
				if c.Action.AgentID == "poison" {
					return false, &audit.RowError{Err: errors.New("bad")}
				}
			}
			return true, nil
		}
		w := s.newWriter(100)
		checks := make([]*spend.Check, 50)
		for i := range checks {
			checks[i] = check(1, "")
		}
		checks[37].Action.AgentID = "poison"
		for i, err := range record(w, checks...) {
			var row *audit.RowError
			if errors.As(err, &row) != (i == 37) {
				t.Errorf("check %d: %v", i, err)
			}
		}
		w.Close()
		if len(s.rows) != 49 {
			t.Errorf("%d rows", len(s.rows))
		}
	})
}

// F3: an unknown outcome is found out behind a fence of the old incarnation.
func TestUnknownOutcome(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		t.Run(fmt.Sprint("recorded=", recorded), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &trail{takes: time.Millisecond}
				s.spoil = func([]*spend.Check) (bool, error) {
					s.spoil = nil
					return recorded, audit.ErrUnknown
				}
				w := s.newWriter(100)
				err := record(w, check(7, ""))[0]
				w.Close()
				if recorded && err != nil || !recorded && !errors.Is(err, audit.ErrFencedNode) {
					t.Errorf("got %v", err)
				}
				if len(s.fenced) == 0 || s.fenced[0] != (spend.ID{7}) || len(s.retired) == 0 || s.retired[0] != s.fenced[0] {
					t.Errorf("fenced %v, retired %v", s.fenced, s.retired)
				}
			})
		})
	}
}

// A check whose commit has not begun by its deadline is never recorded; one
// whose commit is in progress is pending, and settles (G9).
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: 3 * time.Second}
		w := s.newWriter(100)
		underWay := w.Append(check(1, ""))
		synctest.Wait()
		waiting := check(1, "")
		errs := make([]error, 2)
		var wg sync.WaitGroup
		wg.Go(func() { errs[0] = underWay.Wait(time.Now().Add(time.Second)) })
		e := w.Append(waiting)
		wg.Go(func() { errs[1] = e.Wait(time.Now().Add(time.Second)) })
		wg.Wait()
		if !errors.Is(errs[0], commit.ErrPending) || !errors.Is(errs[1], audit.ErrUnavailable) {
			t.Errorf("got %v", errs)
		}
		if err := underWay.Final(); err != nil {
			t.Errorf("settled with %v", err)
		}
		w.Close()
		if len(s.rows) != 1 || s.rows[waiting.ID] != nil {
			t.Errorf("%d rows", len(s.rows))
		}
	})
}

// While the store is down, one line a second in the log stands for all refused checks.
func TestRefusedChecksAreSummarized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		s := &trail{log: slog.NewTextHandler(&logged, nil), spoil: func([]*spend.Check) (bool, error) { return false, audit.ErrUnavailable }}
		w := s.newWriter(100)
		for range 9 {
			record(w, check(1, ""))
		}
		time.Sleep(2 * time.Second)
		record(w, check(1, ""))
		w.Close()
		if text := logged.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "checks=1 ") ||
			!strings.Contains(text, "checks=9 ") {
			t.Errorf("logged\n%s", text)
		}
	})
}

// G9: past capacity checks are refused at once, and places come back.
func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{}
		w := s.newWriter(3)
		reserve := func() bool {
			_, ok := w.Reserve()
			return ok
		}
		for range 3 {
			if !reserve() {
				t.Fatal("refused below capacity")
			}
		}
		if reserve() {
			t.Error("taken above capacity")
		}
		w.Free()
		if !reserve() {
			t.Error("a place that was given back is lost")
		}
		w.Close()
	})
}

// G11: Close finishes queued checks and refuses later ones.
func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{takes: 10 * time.Millisecond}
		w := s.newWriter(100)
		entries := []*commit.Entry{w.Append(check(1, "")), w.Append(check(1, "")), w.Append(check(1, ""))}
		w.Close()
		for _, e := range entries {
			must.Check(t, e.Final())
		}
		if err := w.Append(check(1, "")).Final(); !errors.Is(err, audit.ErrUnavailable) {
			t.Errorf("after closing: %v", err)
		}
		if len(s.rows) != 3 {
			t.Errorf("%d rows", len(s.rows))
		}
	})
}

// Checks that return from one round trip share a commit, although the writer is idle when the first
// of them arrives.
func TestReadyChecksShareACommit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // their order is then the scheduler's alone
	const checks, most = 32, 4
	var s trail
	w := s.newWriter(checks)
	defer w.Close()
	trip := make(chan struct{})
	var waiting, done sync.WaitGroup
	for range checks {
		waiting.Add(1)
		done.Go(func() {
			c := check(1, "")
			waiting.Done()
			<-trip
			must.Check(t, w.Append(c).Wait(time.Now().Add(time.Minute)))
		})
	}
	waiting.Wait()
	close(trip)
	done.Wait()
	if n := len(s.batches); n > most {
		t.Errorf("%d checks took %d commits", checks, n)
	}
}

// The answers of a commit do not wait for the next one, and the next one does
// not wait for them.
func TestNextCommitAndAnswersOverlap(t *testing.T) {
	var begun atomic.Int32
	overlaps := func(t *testing.T) bool {
		s := &trail{takes: 10 * time.Millisecond}
		begun.Store(0)
		s.begin = func() { begun.Add(1) }
		w := s.newWriter(2)
		defer w.Close()
		started := time.Now()
		first := w.Append(check(1, ""))
		time.Sleep(time.Millisecond)
		second := w.Append(check(1, ""))
		if err := first.Final(); err != nil || time.Since(started) != s.takes {
			t.Errorf("%v after %v", err, time.Since(started))
		}
		n := begun.Load()
		must.Check(t, second.Final())
		return n == 2
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // their order is then the scheduler's alone
	synctest.Test(t, func(t *testing.T) {
		for range 5 { // the scheduler may separate them
			if overlaps(t) {
				return
			}
		}
		t.Error("a commit began only when the answers of the one before were told")
	})
}
