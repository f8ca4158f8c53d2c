package commit_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// G9: a commit that does not end keeps a connection in a server that waits for its standby. While 4
// commits are in doubt, no further one is begun.
func TestCommitsInDoubtAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, answers := 0, false
		s := &trail{takes: time.Second, spoil: func([]*spend.Check) (bool, error) { begun++; return answers, audit.ErrUnknown }}
		s.fence = func() error {
			if !answers {
				return audit.ErrUnavailable
			}
			return nil
		}
		w := s.newWriter(100)
		defer w.Close()
		node := byte(0)
		for range 20 {
			if _, ok := w.Reserve(); !ok {
				break
			}
			w.Free()
			node++ // the node has another incarnation
			_ = w.Append(check(node, "")).Wait(time.Now().Add(1700 * time.Millisecond))
		}
		if begun != 4 || !w.Full() {
			t.Errorf("%d commits were begun of which no end is known", begun)
		}
		// Checks admitted before are refused at once, with certainty.
		started := time.Now()
		if err := w.Append(check(node+1, "")).Final(); !errors.Is(err, audit.ErrUnavailable) || time.Since(started) > 0 {
			t.Errorf("%v after %s", err, time.Since(started))
		}
		s.mu.Lock()
		answers, s.spoil = true, nil
		s.mu.Unlock()
		time.Sleep(100 * time.Millisecond) // a look, and its pause
		if _, ok := w.Reserve(); !ok {
			t.Error("refused when the store answers again")
		}
		must.Check(t, w.Append(check(node+2, "")).Final())
	})
}
