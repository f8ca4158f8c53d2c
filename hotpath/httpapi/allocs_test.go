//go:build !race

package httpapi

import (
	"testing"

	"spendgate/hotpath/spend"
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
			if err := readObject(body, func(r *reader) error { return decodeCheck(r, a) }); err != nil {
				t.Fatal(err)
			}
		})
	}
	f("handling", 1, preparePost(t, nil))
}
