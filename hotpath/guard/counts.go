package guard

import (
	"errors"
	"fmt"
	"time"

	"spendgate/hotpath/pipeline/resp"
	"spendgate/ratelimit"
)

// counts are the counters that one pipeline adds to, each once.
type counts struct {
	all   []counting
	byKey map[string]int // index in all
}

type counting struct {
	key   string
	n     int64
	ends  int64 // as in ask
	count ratelimit.Count

	spoilt bool
}

// queue adds the counters' commands and gives every counted ask its share.
func (c *counts) queue(p *resp.Pipeline, asks []*ask) {
	clear(c.all)
	clear(c.byKey)
	c.all = c.all[:0]
	for _, a := range asks {
		if !a.counted {
			continue
		}
		i, ok := c.byKey[a.charge.Key]
		if !ok {
			if c.byKey == nil {
				c.byKey = make(map[string]int)
			}
			i = len(c.all)
			c.byKey[a.charge.Key] = i
			c.all = append(c.all, counting{key: a.charge.Key, ends: a.ends})
		}
		a.share = share{i, c.all[i].n}
		c.all[i].n++
	}
	for i := range c.all {
		if g := &c.all[i]; g.ends > 0 {
			g.count = ratelimit.QueueCountWithin(p, g.key, g.n, g.ends)
		} else {
			g.count = ratelimit.QueueCount(p, g.key, g.n)
		}
	}
}

var errSpoiltCounter = errors.New("a counter in Redis holds what no node counts")

// placeAll tells every counted ask where it stands, and remembers the windows.
func (b *batcher) placeAll(asks []*ask, now time.Time) {
	var mend []chore
	for i := range b.counts.all {
		if c := &b.counts.all[i]; c.count.Spoilt(&b.pipe, now) {
			c.spoilt = true
			mend = append(mend, resetCounter(c.key))
		}
	}
	for _, a := range asks {
		if !a.counted {
			continue
		}
		var err error
		counting := &b.counts.all[a.share.counting]
		if a.place, err = counting.count.Place(&b.pipe, a.share.nth); err == nil && counting.spoilt {
			err = errSpoiltCounter
		}
		if err != nil && a.err == nil {
			a.err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	b.mu.Lock()
	for _, c := range b.counts.all {
		if c.spoilt {
			b.memory.ForgetWindow(c.key)
		} else if c.count.Endless(&b.pipe) {
			b.memory.ForgetWindow(c.key)
			mend = append(mend, endWindow(c.key))
		} else if first, err := c.count.Place(&b.pipe, 0); err == nil {
			b.memory.NoteEnd(c.key, first.ExpiresMS)
		}
	}
	b.mu.Unlock()
	if len(mend) > 0 {
		b.later(mend...)
	}
}
