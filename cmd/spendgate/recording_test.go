package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
)

// S27: a node whose commits fail is not ready while others record, and is ready again
// when a rehearsal succeeds.
func TestRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &pgconn.PgError{Code: "53300", Message: "too many connections", Routine: "x"}
		var failures *commit.Failures
		others, stuck, rehearsal := true, false, error(full)
		asked := time.Time{}
		r := &recording{
			failures: func() *commit.Failures { return failures },
			forget:   func() { failures = nil },
			stuck:    func() bool { return stuck },
			recorded: func(_ context.Context, since time.Time) (bool, error) { asked = since; return others, nil },
			rehearse: func(context.Context) error { return rehearsal },
		}
		fail := func() {
			next := commit.Failures{Count: 1, First: time.Now(), Last: time.Now(), Err: full}
			if failures != nil {
				next.Count, next.First = failures.Count+1, failures.First
			}
			failures = &next
		}
		ready := func(want bool, when string) {
			t.Helper()
			if err := r.look(t.Context()); (err == nil) != want {
				t.Fatalf("%s: %v", when, err)
			}
		}
		ready(true, "nothing failed")
		fail()
		time.Sleep(time.Minute)
		ready(true, "one failure is none")
		failures = nil
		began := time.Now()
		for range 10 {
			fail()
		}
		ready(true, "many at once")
		time.Sleep(failuresFor)
		others = false
		ready(true, "no node records")
		others = true
		ready(false, "other nodes record")
		if !asked.Equal(began) {
			t.Errorf("others are to have recorded since %s, the failures began %s", asked, began)
		}
		err := r.look(t.Context())
		if want := "this node cannot record checks, and other nodes do: PostgreSQL refuses: SQLSTATE 53300"; publicDetail(fmt.Errorf("store: %w",
			err)) != want {
			t.Errorf("%q is told, want %q", publicDetail(err), want)
		}
		rehearsal = nil
		ready(false, "the failures have just been")
		time.Sleep(restAfter)
		rehearsal = errors.New("still")
		ready(false, "a rehearsal fails")
		rehearsal = nil
		ready(false, "just tried")
		time.Sleep(rehearseEvery)
		stuck = true
		ready(false, "a rehearsal would not fail, and no commit begins")
		stuck = false
		ready(true, "a rehearsal does not fail")
		if failures != nil {
			t.Error("the failures before still count")
		}
		for range 3 {
			fail()
			time.Sleep(failuresFor)
		}
		ready(false, "again")
		others = false
		ready(true, "the others do not record any more")
	})
}

// S27: checks that other nodes recorded before they stopped make a node unready once, not again and again.
func TestRecordingThatOthersStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := &commit.Failures{Count: failuresMost, First: time.Now(), Last: time.Now(), Err: errors.New("no connection")}
		time.Sleep(failuresFor)
		last := time.Now() // that others recorded
		r := &recording{
			failures: func() *commit.Failures { return failures },
			stuck:    func() bool { return false },
			recorded: func(_ context.Context, since time.Time) (bool, error) { return !last.Before(since), nil },
			rehearse: func(context.Context) error { return failures.Err },
		}
		for second := range 120 {
			if err := r.look(t.Context()); (err == nil) != (time.Since(last) > othersWithin) {
				t.Errorf("%d s after the last record of others: %v", second, err)
			}
			time.Sleep(time.Second)
		}
		last = time.Now()
		if r.look(t.Context()) == nil {
			t.Error("ready, though others record again")
		}
	})
}

// checkedAt is a store with checks that were made at these times.
type checkedAt struct {
	audit.Store
	times []time.Time
}

func (s checkedAt) ListChecks(_ context.Context, q audit.CheckQuery) (page audit.CheckPage, err error) {
	low, end := q.IDRange()
	for _, at := range s.times {
		if id := spend.NewID(at); low.Compare(id) <= 0 && id.Compare(end) < 0 {
			page.Checks = append(page.Checks, &spend.Check{ID: id})
		}
	}
	return page, nil
}

// S27: a check that was made by a clock days ahead does not show that others record now.
func TestRecordedSince(t *testing.T) {
	now := time.Now()
	for made, want := range map[time.Duration]bool{-time.Minute: false, -time.Second: true, 2 * time.Second: true, 48 * time.Hour: false} {
		n := &node{backends: backends{store: checkedAt{times: []time.Time{now.Add(made)}}}}
		if got, err := n.recordedSince(t.Context(), now.Add(-othersWithin)); got != want || err != nil {
			t.Errorf("a check made after %s: %v, %v", made, got, err)
		}
	}
}
