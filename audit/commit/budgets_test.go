package commit_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// A check is refused only because of recorded amounts, not of amounts that other checks of its
// batch would take (F62, G12).
func TestRefusedForWhatIsRecorded(t *testing.T) {
	counter := spend.Counter{ID: spend.ID{7}}
	taking := func() *spend.Check {
		c := check(1, "")
		c.Charges = []spend.Charge{{Counter: counter, Counted: true, MaxCount: 1}}
		return c
	}
	for _, first := range []error{nil, audit.ErrUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			s := &trail{takes: time.Millisecond}
			var used spend.Usage
			alone := 0
			s.spoil = func(batch []*spend.Check) (bool, error) {
				if changes := audit.CounterChanges(batch, nil); !changes[0].Meets(used) {
					return false, &audit.ExceededError{Usages: []audit.CounterUsage{{Counter: counter, Usage: used}}}
				}
				if alone++; alone == 1 && first != nil {
					return false, first
				}
				used.Count += int64(len(batch))
				return true, nil
			}
			w := s.newWriter(100)
			errs := record(w, taking(), taking())
			w.Close()
			recorded, unavailable, refused := 0, 0, 0
			for _, err := range errs {
				var exceeded *audit.ExceededError
				switch {
				case err == nil:
					recorded++
				case errors.Is(err, audit.ErrUnavailable):
					unavailable++
				case errors.As(err, &exceeded) && exceeded.Usages[0].Count == 1:
					refused++
				}
			}
			if want := [3]int{1, 0, 1}; first == nil && [3]int{recorded, unavailable, refused} != want {
				t.Errorf("both commit: %v", errs)
			}
			if want := [3]int{1, 1, 0}; first != nil && [3]int{recorded, unavailable, refused} != want {
				t.Errorf("the first is not recorded: %v", errs)
			}
		})
	}
}

// A commit that the store refuses because of single checks does not count as a failure of the
// store, which would alert somebody.
func TestRefusalsAreNoFailuresOfTheStore(t *testing.T) {
	for want, refusal := range map[string]func(*spend.Check) error{
		"exceeded": func(*spend.Check) error { return &audit.ExceededError{} },
		"unapproved": func(c *spend.Check) error {
			return &audit.ApprovalsError{Refused: map[spend.ID]*audit.ApprovalError{c.ID: {}}}
		},
		"unavailable": func(*spend.Check) error { return audit.ErrUnavailable },
	} {
		s := new(trail)
		s.spoil = func(batch []*spend.Check) (bool, error) {
			return false, fmt.Errorf("cannot commit: %w", refusal(batch[0]))
		}
		w := s.newWriter(100)
		record(w, check(1, ""))
		w.Close()
		families := must.Get(s.metrics.Gather())(t)
		counted := make(map[string]float64)
		for _, f := range families {
			if f.GetName() == "spendgate_audit_commit_failures_total" {
				for _, m := range f.GetMetric() {
					if n := m.GetCounter().GetValue(); n > 0 {
						counted[m.GetLabel()[0].GetValue()] = n
					}
				}
			}
		}
		if !maps.Equal(counted, map[string]float64{want: 1}) {
			t.Errorf("a commit that is %s counts as %v", want, counted)
		}
	}
}

// A rolling window has a bucket for each check here. What the second is told to be
// used includes what the first would take, which another budget refuses: it is not
// refused for that (F62).
func TestRefusedForEarlierBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rolling, exhausted := spend.ID{7}, spend.Counter{ID: spend.ID{8}}
		first := check(1, "")
		time.Sleep(time.Second)
		second := check(1, "")
		for i, c := range []*spend.Check{first, second} {
			bucket := spend.Counter{ID: rolling, StartMS: int64(i+1) * 1000, BucketMS: 1000}
			c.Charges = []spend.Charge{{Counter: bucket, Counted: true, MaxCount: 1}}
		}
		first.Charges = append(first.Charges, spend.Charge{Counter: exhausted, Counted: true})
		s := &trail{takes: time.Millisecond}
		s.spoil = func(batch []*spend.Check) (bool, error) {
			var usages []audit.CounterUsage
			for i, c := range batch { // as in stores: what is taken from a bucket counts in the next one
				before := audit.CounterUsage{Counter: c.Charges[0].Counter, Usage: spend.Usage{Count: int64(i)}}
				if !c.Charges[0].Fits(before.Usage) {
					usages = append(usages, before)
				}
				if len(c.Charges) > 1 {
					usages = append(usages, audit.CounterUsage{Counter: exhausted})
				}
			}
			if usages != nil {
				return false, &audit.ExceededError{Usages: usages}
			}
			return true, nil
		}
		w := s.newWriter(100)
		errs := record(w, first, second)
		w.Close()
		if errs[1] != nil || errs[0] == nil {
			t.Errorf("the first %v, the second %v", errs[0], errs[1])
		}
	})
}
