package pipeline

import (
	"slices"
	"time"

	"spendgate/hotpath/pipeline/resp"
)

// deferred is a command that no request waits for: it is sent with the next batch, and is kept for a
// while if Redis is away. Correctness must not depend on it, since it may be lost.
type deferred struct {
	queue func(*resp.Pipeline) resp.Index
	sent  resp.Index
	born  time.Time
	due   time.Time // not before; zero is at once
	once  bool      // not to be sent again: carried out twice it does harm
}

const (
	maxDeferred      = 1 << 14
	deferredLifetime = time.Minute
	deferredRetry    = 100 * time.Millisecond
)

func release(name, value string) deferred {
	return deferred{born: time.Now(), queue: func(p *resp.Pipeline) resp.Index {
		return queueRelease(p, name, value)
	}}
}

// Release deletes a name with the next batch, if it still has the value.
func (c *Client) Release(name, value string) { c.later(release(name, value)) }

// Undo releases whatever the request may have set.
func (c *Client) Undo(r *Request) { c.later(r.releases()...) }

// SwapLater carries out a swap with the next batch; its outcome is not reported.
func (c *Client) SwapLater(s Swap) {
	c.later(deferred{born: time.Now(), queue: func(p *resp.Pipeline) resp.Index { return s.queue(p) }})
}

// Restore puts back the value that a name had before its current one, for the time that is left until
// then.
func (c *Client) Restore(name, current, before string, until time.Time) {
	c.later(deferred{born: time.Now(), queue: func(p *resp.Pipeline) resp.Index {
		left := time.Until(until)
		if left < time.Millisecond {
			return queueRelease(p, name, current)
		}
		s := Swap{Name: name, Old: current, New: before, Life: left}
		return s.queue(p)
	}})
}

// later sends commands with the next batch; nobody waits for them.
func (c *Client) later(commands ...deferred) {
	c.mu.Lock()
	for _, d := range commands {
		c.addLocked(d)
	}
	c.mu.Unlock()
	c.waiting.Signal()
}

// deferredDueLocked reports whether a deferred command may be sent now.
func (c *Client) deferredDueLocked() bool {
	if len(c.deferred) == 0 {
		return false
	}
	now := time.Now()
	for i := range c.deferred {
		if !c.deferred[i].due.After(now) {
			return true
		}
	}
	return false
}

// keepFailed keeps the deferred commands that failed. One that met a value of
// another type has nothing left to do.
func (c *Client) keepFailed(sent []deferred) {
	c.keep(slices.DeleteFunc(sent, func(d deferred) bool {
		err := c.commands.Reply(d.sent).Err()
		return d.once || err == nil || WrongType(err)
	}))
}

// keep puts commands off: Redis did not answer just now.
func (c *Client) keep(commands []deferred) {
	if len(commands) == 0 {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range commands {
		if now.Sub(d.born) > deferredLifetime {
			c.metrics.dropped.Inc()
			continue
		}
		d.due = now.Add(deferredRetry)
		c.addLocked(d)
	}
	time.AfterFunc(deferredRetry, c.wake)
}

// addLocked queues a deferred command if there is room (G9).
func (c *Client) addLocked(d deferred) {
	if len(c.deferred) >= maxDeferred {
		c.metrics.dropped.Inc()
		return
	}
	c.deferred = append(c.deferred, d)
}

// wake makes the goroutine that sends look again. The lock keeps it from going
// to sleep between its look and its wait.
func (c *Client) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting.Signal()
}
