//go:build !race

package commit_test

import (
	"fmt"
	"testing"

	"spendgate/audit/commit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// The writer allocates a handful of things for a batch, and nothing for a check:
// entries are used again.
func TestAllocations(t *testing.T) {
	const checks, most = 64, 0.3
	s := &trail{}
	w := s.newWriter(checks)
	defer w.Close()
	s.spoil = func([]*spend.Check) (record bool, err error) {
		s.batches = s.batches[:0]
		return false, nil
	}
	all := make([]*spend.Check, checks)
	for i := range all {
		all[i] = check(1, fmt.Sprint(i))
	}
	entries := make([]*commit.Entry, checks)
	allocs := testing.AllocsPerRun(100, func() {
		for i, c := range all {
			entries[i] = w.Append(c)
		}
		for _, e := range entries {
			must.Check(t, e.Final())
		}
	})
	if allocs > most*checks {
		t.Errorf("%.2f allocations a check", allocs/checks)
	}
}
