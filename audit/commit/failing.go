package commit

import (
	"sync"
	"sync/atomic"
	"time"
)

// Failures are the commits that failed since the last one that did not. A refusal of a
// check's own data is no failure.
type Failures struct {
	Count       int
	First, Last time.Time
	Err         error // of the last
}

// Failures describes the present failure of commits; nil if the last commit did not fail.
func (w *Writer) Failures() *Failures { return w.failing.now.Load() }

// ForgetFailures has the next commit that fails be the first.
func (w *Writer) ForgetFailures() { w.failing.end() }

// failing keeps the failures. A commit that does not fail costs one atomic read.
type failing struct {
	mu  sync.Mutex // of those who change it
	now atomic.Pointer[Failures]
}

func (f *failing) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := Failures{Count: 1, First: time.Now(), Last: time.Now(), Err: err}
	if before := f.now.Load(); before != nil {
		next.Count, next.First = before.Count+1, before.First
	}
	f.now.Store(&next)
}

func (f *failing) end() {
	if f.now.Load() == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now.Store(nil)
}
