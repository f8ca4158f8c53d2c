//go:build !race

package httpapi

import (
	"runtime"
	"testing"

	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

// The one allocation of a check here is the copy of its body, which all its
// strings share. (The race detector empties pools at random.)
func TestAllocationsOfACheck(t *testing.T) {
	f := func(name string, most float64, run func()) {
		t.Helper()
		if n := testing.AllocsPerRun(500, run); n > most {
			t.Errorf("%s allocates %v times, at most %v are allowed", name, n, most)
		}
	}
	for name, text := range map[string]string{"with metadata": plainCheck, "bare": bareCheck} {
		body, a := []byte(text), new(spend.Action)
		f("decoding "+name, 1, func() {
			must.Do(t, readObject(body, func(r *reader) { decodeCheck(r, a) }))
		})
	}
	f("handling", 1, preparePost(t, nil))
}

// Reading a check from its connection and answering it there allocates nothing more.
func TestAllocationsOnAConnection(t *testing.T) {
	const warm, measured = 100, 1000
	a := New(Options{Authorizer: instantly{answer: hotpath.Answer{Check: blockedCheck()}}, Store: &fakeStore{}})
	request := []byte(post(length(plainCheck), plainCheck))
	var n int
	var before, after runtime.MemStats
	a.serveWire(t, &scripted{segments: func() []byte {
		switch n++; n {
		case warm:
			runtime.ReadMemStats(&before)
		case warm + measured:
			runtime.ReadMemStats(&after)
			return nil
		}
		return request
	}})
	if each := float64(after.Mallocs-before.Mallocs) / measured; each > 1.5 { // now and then a pool is emptied
		t.Errorf("a check allocates %.2f times", each)
	}
}
