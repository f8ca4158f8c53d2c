package commit_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/audit"
	"spendgate/audit/commit"
	"spendgate/audit/spend"
)

var errAway = errors.New("away")

// An entry that was used before tells of its own check only, and once: nil if
// and only if that is recorded. Clients lose patience meanwhile, and the store
// refuses, hesitates and falls silent.
func TestEntriesUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{}
		s.spoil = func([]*spend.Check) (record bool, err error) {
			s.takes = time.Duration(rand.IntN(20)) * time.Millisecond
			switch rand.IntN(10) {
			case 0:
				return true, audit.ErrUnknown
			case 1:
				return false, audit.ErrUnknown
			case 2:
				return false, audit.ErrStaleEpoch
			}
			return true, nil
		}
		s.fence = func() error {
			if rand.IntN(3) == 0 {
				return errAway
			}
			return nil
		}
		w := s.newWriter(1000)
		var clients sync.WaitGroup
		var incarnations atomic.Int32
		for range 16 {
			clients.Go(func() {
				for range 300 {
					c := check(byte(incarnations.Add(1)/64), "") // one for some commits
					e := w.Append(c)
					err := e.Wait(time.Now().Add(time.Duration(rand.IntN(30)) * time.Millisecond))
					if errors.Is(err, commit.ErrPending) {
						err = e.Final()
					}
					s.mu.Lock()
					if recorded := s.rows[c.ID] != nil; recorded != (err == nil) {
						t.Errorf("recorded: %v, answered %v", recorded, err)
					}
					s.mu.Unlock()
				}
			})
		}
		clients.Wait()
		w.Close()
	})
}

// A writer that is closed while a commit is in doubt says that it is pending
// to those who wait, and again to those who then ask how it ended.
func TestClosedWhileInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trail{fence: func() error { return errAway }}
		s.spoil = func([]*spend.Check) (record bool, err error) { return true, audit.ErrUnknown }
		w := s.newWriter(10)
		e := w.Append(check(1, ""))
		waits := make(chan error)
		go func() { waits <- e.Wait(time.Now().Add(3 * time.Second)) }()
		time.Sleep(100 * time.Millisecond)
		w.Close()
		if err := <-waits; !errors.Is(err, commit.ErrPending) {
			t.Fatal(err)
		}
		if late := w.Append(check(1, "")); late == e {
			t.Error("the entry is used again")
		} else if err := late.Wait(time.Now().Add(time.Second)); !errors.Is(err, audit.ErrUnavailable) {
			t.Errorf("a check that came late: %v", err)
		}
		for range 2 {
			if err := e.Final(); !errors.Is(err, commit.ErrPending) {
				t.Errorf("settled: %v", err)
			}
		}
	})
}
