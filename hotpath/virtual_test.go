package hotpath_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// inVirtualTime returns a test in which time passes only while all goroutines wait: what a busy machine takes
// for the rest does not count, and a bound is held by the timeouts of the code or not at all. It is for embedded backends.
func inVirtualTime(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			t.Cleanup(func() { time.Sleep(time.Minute) }) // what still hangs is given up
			f(t)
		})
	}
}
