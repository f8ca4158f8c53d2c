package backtest

import (
	"spendgate/audit/spend"
)

// counters are the amounts taken from budgets on one side.
type counters struct {
	byID  map[spend.ID]*counter
	count int // of buckets
}

// counter is one of a budget: its present window, or the buckets of a rolling one that
// may count.
type counter struct {
	buckets []bucket // by their start
	end     int64    // when the newest is no longer needed; 0 for a lifetime
}

type bucket struct {
	start int64
	usage spend.Usage
}

// usage returns the amounts taken, as the charge sees them.
func (c *counters) usage(charge *spend.Charge) (u spend.Usage) {
	found := c.byID[charge.Counter.ID]
	if found == nil {
		return u
	}
	oldest := charge.Counter.StartMS - spend.RollingBuckets*charge.Counter.BucketMS
	for i := range found.buckets {
		if b := &found.buckets[i]; b.start >= oldest {
			u.Used, u.Count = u.Used.Plus(b.usage.Used), u.Count+b.usage.Count
		}
	}
	return u
}

// take takes the charge, and forgets buckets that count no more.
func (c *counters) take(charge *spend.Charge) {
	at := c.byID[charge.Counter.ID]
	if at == nil {
		at = new(counter)
		c.byID[charge.Counter.ID] = at
	}
	oldest, kept := charge.Counter.StartMS-spend.RollingBuckets*charge.Counter.BucketMS, 0
	for _, b := range at.buckets {
		if b.start >= oldest {
			at.buckets[kept] = b
			kept++
		}
	}
	c.count -= len(at.buckets) - kept
	at.buckets, at.end = at.buckets[:kept], max(at.end, charge.EndMS)
	i := kept - 1
	for i >= 0 && at.buckets[i].start > charge.Counter.StartMS {
		i--
	}
	if i < 0 || at.buckets[i].start != charge.Counter.StartMS {
		i++
		at.buckets = append(at.buckets, bucket{})
		copy(at.buckets[i+1:], at.buckets[i:])
		at.buckets[i] = bucket{start: charge.Counter.StartMS}
		c.count++
	}
	at.buckets[i].usage = at.buckets[i].usage.Plus(charge)
}

// correct changes the amounts that the charge took, if its window is still there.
func (c *counters) correct(charge *spend.Charge, by spend.Correction) {
	at := c.byID[charge.Counter.ID]
	if at == nil {
		return
	}
	for i := range at.buckets {
		b := &at.buckets[i]
		if b.start != charge.Counter.StartMS {
			continue
		}
		left, ok := b.usage.Used.Plus(by.Over).Minus(by.Back)
		if !ok {
			left = spend.Total{}
		}
		b.usage = spend.Usage{Used: left, Count: max(b.usage.Count-by.Count, 0)}
	}
}

// sweep forgets counters whose windows have ended.
func (c *counters) sweep(now int64) {
	for id, at := range c.byID {
		if at.end != 0 && at.end <= now {
			c.count -= len(at.buckets)
			delete(c.byID, id)
		}
	}
}
