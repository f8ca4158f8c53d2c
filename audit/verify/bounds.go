package verify

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"spendgate/audit/spend"
)

// bounds add up the least and the most that checks had taken from counters when these were noted as
// exhausted, or as having reached a percentage, allowing a minute for commits and clocks. All are kept in memory, at some 100
// bytes each.
type bounds struct {
	mu sync.Mutex
	by map[spend.ID][]bound // by counter, in the order of starts
}

// bound is what was taken before one exhaustion.
type bound struct {
	of                  spend.ID // the exhaustion
	startMS, bucketMS   int64
	beginMS, endMS      int64 // of a calendar window, by the checks that took from it: the earliest and the latest
	at                  time.Time
	others              bool // checks took from buckets of another length
	low, high           spend.Total
	lowCount, highCount int64
}

// expect adds an exhaustion. Exhaustions must come in the order of counters and starts.
func (s *bounds) expect(e *Exhaustion) {
	if s.by == nil {
		s.by = make(map[spend.ID][]bound)
	}
	s.by[e.Counter.ID] = append(s.by[e.Counter.ID], bound{of: e.ID, startMS: e.StartMS, bucketMS: e.BucketMS, at: e.At, beginMS: 1<<63 - 1})
}

// of returns the bound of an exhaustion; nil if it was not expected.
func (s *bounds) of(e *Exhaustion) *bound {
	all := s.by[e.Counter.ID]
	i, _ := from(all, e.StartMS)
	for ; i < len(all) && all[i].startMS == e.StartMS; i++ {
		if all[i].of == e.ID {
			return &all[i]
		}
	}
	return nil
}

// from finds the first of a counter's bounds that starts at or after a time.
func from(all []bound, startMS int64) (int, bool) {
	return slices.BinarySearchFunc(all, startMS, func(b bound, startMS int64) int { return cmp.Compare(b.startMS, startMS) })
}

// span returns the time range of the checks that count.
func (v *verifier) span(b *bound) (startMS, endMS int64) {
	if b.bucketMS == 0 && b.startMS == 0 {
		return 0, 0
	}
	begin := earliest(&spend.Counter{StartMS: b.startMS, BucketMS: b.bucketMS})
	if b.endMS > 0 {
		begin, _ = v.reach(b.beginMS, b.endMS, b.bucketMS)
	}
	return begin - spend.RollingBuckets*b.bucketMS, b.at.Add(lateCommit).UnixMilli()
}

// late reports whether the exhaustion is noted after its window, or after its bucket.
func (b *bound) late() bool {
	end := b.endMS + mayMove(b.endMS, b.bucketMS) // by a node with other rules of the time zone
	if b.bucketMS > 0 {
		end = b.startMS + b.bucketMS
	}
	return end != 0 && b.at.UnixMilli() > end+lateCommit.Milliseconds()
}

// take adds what a check took. A check with several reports may have taken less in between than
// after the last.
func (s *bounds) take(at time.Time, charge *spend.Charge, c *course) {
	all := s.by[charge.Counter.ID] // which nobody changes while checks are read
	first, last := charge.Counter.StartMS, charge.Counter.StartMS+spend.RollingBuckets*charge.Counter.BucketMS
	if charge.Counter.BucketMS > 0 {
		first -= charge.Counter.BucketMS + 3*lateCommit.Milliseconds() // see bound.late
	}
	i, _ := from(all, first)
	for ; i < len(all) && all[i].startMS <= last; i++ {
		b := &all[i]
		s.mu.Lock()
		b.others = b.others || b.bucketMS != charge.Counter.BucketMS
		if charge.Counter.BucketMS == 0 {
			b.beginMS, b.endMS = min(b.beginMS, charge.BeginMS()), max(b.endMS, charge.EndMS)
		}
		if at.After(b.at.Add(lateCommit)) {
			s.mu.Unlock()
			continue
		}
		most := charge.Amount.Total()
		if c.most != nil {
			most = most.Plus(c.most.Corrected(charge).Over)
		}
		b.high, b.highCount = b.high.Plus(most), b.highCount+1
		if at.Before(b.at.Add(-lateCommit)) {
			low, count := least(charge, c)
			b.low, b.lowCount = b.low.Plus(low), b.lowCount+count
		}
		s.mu.Unlock()
	}
}

// least returns the least that a check had taken from a counter at any later time.
func least(charge *spend.Charge, c *course) (used spend.Total, count int64) {
	if c.again {
		return used, 0
	}
	by := c.last.Corrected(charge)
	used, _ = charge.Amount.Total().Minus(by.Back)
	return used, 1 - by.Count
}
