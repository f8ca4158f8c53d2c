package guard

import (
	"slices"
	"time"

	"spendgate/hotpath/pipeline/resp"
	"spendgate/ratelimit"
)

// chore is a command that no request waits for: it goes with the next pipeline
// and is kept while Redis is away. A chore that is lost costs others a wait
// (stale claims are fenced), never a wrong answer.
type chore struct {
	queue func(*resp.Pipeline) resp.Index
	sent  resp.Index
	born  time.Time
	due   time.Time // not before; zero is at once
	once  bool      // not to be sent again: carried out twice it does harm
}

const (
	maxChores     = 1 << 14
	choreLifetime = time.Minute
	choreRetry    = 100 * time.Millisecond
)

// release deletes a claim, if it is still this one.
func release(name, value string) chore {
	return chore{born: time.Now(), queue: func(p *resp.Pipeline) resp.Index {
		return queueRelease(p, name, value)
	}}
}

// endWindow gives a counter an end that was opened without one.
func endWindow(key string) chore {
	return chore{born: time.Now(), queue: func(p *resp.Pipeline) resp.Index {
		return ratelimit.QueueEnd(p, key)
	}}
}

// resetCounter opens a new window in place of a counter that no node counted.
func resetCounter(key string) chore {
	return chore{born: time.Now(), queue: func(p *resp.Pipeline) resp.Index {
		return ratelimit.QueueReset(p, key)
	}}
}

// refund takes a refused request off its window.
func refund(key string, place ratelimit.Place) chore {
	return chore{born: time.Now(), once: true, queue: func(p *resp.Pipeline) resp.Index {
		return ratelimit.QueueRefund(p, key, place.ExpiresMS)
	}}
}

// markOrphan says of a recorded claim that its client was answered 500, and
// leaves its life as it is.
func markOrphan(name string, h holder) chore {
	return chore{born: time.Now(), queue: func(p *resp.Pipeline) resp.Index {
		return orphaned(name, h).queue(p)
	}}
}

// orphaned is the swap that marks a claim, however long it lives.
func orphaned(name string, h holder) *swap {
	return &swap{name: name, old: h.String(), new: h.as(orphan).String(), keepLonger: true}
}

// restore puts back the recorded claim that a failed one had replaced, for
// what was left of its life: other policies' windows may still see it (S17).
func restore(name, mine string, old holder, until time.Time) chore {
	return chore{born: time.Now(), queue: func(p *resp.Pipeline) resp.Index {
		left := time.Until(until)
		if left < time.Millisecond {
			return queueRelease(p, name, mine)
		}
		s := swap{name: name, old: mine, new: old.String(), px: left}
		return s.queue(p)
	}}
}

// choresDue reports whether a chore may be sent now. Called with mu held.
func (b *batcher) choresDue() bool {
	now := time.Now()
	for i := range b.chores {
		if !b.chores[i].due.After(now) {
			return true
		}
	}
	return false
}

// keepFailed keeps the chores whose command failed. One that met a value of
// another type has nothing left to do.
func (b *batcher) keepFailed(chores []chore) {
	b.keep(slices.DeleteFunc(chores, func(c chore) bool {
		err := b.pipe.Reply(c.sent).Err()
		return c.once || err == nil || mistyped(err)
	}))
}

// keep puts chores off: Redis did not answer just now.
func (b *batcher) keep(chores []chore) {
	if len(chores) == 0 {
		return
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range chores {
		if now.Sub(c.born) > choreLifetime {
			b.metrics.choresDropped.Inc()
			continue
		}
		c.due = now.Add(choreRetry)
		b.add(c)
	}
	time.AfterFunc(choreRetry, b.wake)
}

// add queues a chore if there is room (G9). Called with mu held.
func (b *batcher) add(c chore) {
	if len(b.chores) >= maxChores {
		b.metrics.choresDropped.Inc()
		return
	}
	b.chores = append(b.chores, c)
}

// refuse remembers a refusal and refunds it.
func (b *batcher) refuse(charge ratelimit.Charge, place ratelimit.Place) {
	b.mu.Lock()
	b.memory.NoteRefusal(charge.Key, charge.Limit, place)
	b.mu.Unlock()
	b.later(refund(charge.Key, place))
}

// forgetWindows: the counters went with the claims.
func (b *batcher) forgetWindows() {
	b.mu.Lock()
	b.memory.Forget()
	b.mu.Unlock()
}

// wake makes the batcher look again. The lock keeps it from falling asleep
// between its look and its wait.
func (b *batcher) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.Signal()
}
