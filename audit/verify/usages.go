package verify

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"spendgate/audit/spend"
)

// usages add up what checks had taken from counters by the time at which these are noted as
// exhausted, with a minute for commits and clocks: at least and at most. All exhaustions are
// kept, of some 200 bytes each: there is one in a window of a counter.
type usages struct {
	mu sync.Mutex
	by map[spend.ID][]*usage // by counter, in the order of their starts
}

// usage is what was taken by one exhaustion.
type usage struct {
	startMS, bucketMS   int64
	endMS               int64 // of a calendar window, if checks took from it
	at                  time.Time
	low, high           spend.Total
	lowCount, highCount int64
}

// expect makes place for an exhaustion. They come in the order of counters and starts.
func (s *usages) expect(e *Exhaustion) {
	if s.by == nil {
		s.by = make(map[spend.ID][]*usage)
	}
	s.by[e.Counter.ID] = append(s.by[e.Counter.ID], &usage{startMS: e.StartMS, bucketMS: e.BucketMS, at: e.At})
}

// of returns what was taken by an exhaustion; nil of one that was not there.
func (s *usages) of(e *Exhaustion) *usage {
	all := s.by[e.Counter.ID]
	i := slices.IndexFunc(all, func(u *usage) bool { return u.startMS == e.StartMS })
	if i < 0 {
		return nil
	}
	return all[i]
}

// span is the time of the checks that count.
func (u *usage) span() (startMS, endMS int64) {
	if u.bucketMS == 0 && u.startMS == 0 {
		return 0, 0
	}
	return u.startMS - spend.RollingBuckets*u.bucketMS, u.at.Add(lateCommit).UnixMilli()
}

// late reports whether the exhaustion is noted after its window, or after its bucket.
func (u *usage) late() bool {
	end := u.endMS
	if u.bucketMS > 0 {
		end = u.startMS + u.bucketMS
	}
	return end != 0 && u.at.UnixMilli() > end+lateCommit.Milliseconds()
}

// take adds what a check took. Who had several reports may have taken less in between than
// after the last.
func (s *usages) take(at time.Time, charge *spend.Charge, c *course) {
	all := s.by[charge.Counter.ID] // which nobody changes while checks are read
	from, to := charge.Counter.StartMS, charge.Counter.StartMS+spend.RollingBuckets*charge.Counter.BucketMS
	if charge.Counter.BucketMS > 0 {
		from -= charge.Counter.BucketMS + 3*lateCommit.Milliseconds() // see usage.late
	}
	i, _ := slices.BinarySearchFunc(all, from, func(u *usage, from int64) int { return cmp.Compare(u.startMS, from) })
	for ; i < len(all) && all[i].startMS <= to; i++ {
		u := all[i]
		s.mu.Lock()
		if charge.Counter.BucketMS == 0 {
			u.endMS = max(u.endMS, charge.EndMS)
		}
		if at.After(u.at.Add(lateCommit)) {
			s.mu.Unlock()
			continue
		}
		most := charge.Amount.Total()
		if c.most != nil {
			most = most.Plus(c.most.Effect(charge).Over)
		}
		u.high, u.highCount = u.high.Plus(most), u.highCount+1
		if at.Before(u.at.Add(-lateCommit)) {
			low, count := least(charge, c)
			u.low, u.lowCount = u.low.Plus(low), u.lowCount+count
		}
		s.mu.Unlock()
	}
}

// least is what a check has taken from a counter at any time after it.
func least(charge *spend.Charge, c *course) (used spend.Total, count int64) {
	if c.again {
		return used, 0
	}
	by := c.last.Effect(charge)
	used, _ = charge.Amount.Total().Minus(by.Back)
	return used, 1 - by.Count
}
