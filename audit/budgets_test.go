package audit_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// A check is refused only for what is recorded, not for what others of its batch
// would take (F62).
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
