package commit_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// A Writer reports the commits that failed since the last success. Late commits, and commits that
// failed because of a check's own data, its epoch or its fence, do not count.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var next error
		recorded := false
		s := &trail{takes: time.Millisecond, spoil: func([]*spend.Check) (bool, error) { return recorded, next }}
		w := s.newWriter(100)
		defer w.Close()
		node := byte(0)
		commits := func(keep bool, err error, want int) {
			t.Helper()
			node++ // a chain that ended takes no more
			recorded, next = keep, err
			_ = record(w, check(node, ""))
			synctest.Wait()
			count := 0
			if f := w.Failures(); f != nil {
				count = f.Count
			}
			if count != want {
				t.Fatalf("after %v %d failures, want %d", err, count, want)
			}
		}
		commits(true, nil, 0)
		commits(false, audit.ErrUnavailable, 1)
		began := time.Now()
		time.Sleep(time.Second)
		commits(false, &audit.RowError{Err: errors.New("x")}, 1)
		commits(false, audit.ErrStaleEpoch, 1)
		commits(false, audit.ErrFencedNode, 1)
		commits(false, audit.ErrUnknown, 2)
		if f := w.Failures(); !f.First.Equal(began) || !f.Last.After(began) || !errors.Is(f.Err, audit.ErrUnknown) {
			t.Errorf("%+v, want the first at %s", f, began)
		}
		commits(true, audit.ErrUnknown, 0)
		commits(false, audit.ErrForked, 1)
		commits(true, nil, 0)
		commits(false, audit.ErrUnavailable, 1)
		w.ForgetFailures()
		commits(false, audit.ErrUnavailable, 1)
	})
}
