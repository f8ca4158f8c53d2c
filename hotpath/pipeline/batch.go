package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"spendgate/hotpath/pipeline/resp"
)

// maxBatch bounds the requests of one batch, and so how long others wait for it.
const maxBatch = 1024

// batch is the requests of one round trip.
type batch struct {
	requests []*Request
	born     time.Time     // not after the first of them
	failed   bool          // a round trip failed while they waited
	done     chan struct{} // closed when they are answered
}

func (c *Client) run() {
	defer close(c.stopped)
	for {
		b, deferred, ok := c.take()
		if !ok {
			return
		}
		if err := c.send(b.requests, deferred); err != nil {
			c.failLate(err)
		}
		close(b.done)
		clear(b.requests)
		c.mu.Lock()
		c.spare = b.requests[:0]
		c.mu.Unlock()
	}
}

// dueLocked reports whether there is anything to do.
func (c *Client) dueLocked() bool { return len(c.batches) > 0 || c.deferredDueLocked() || c.closed }

// take waits for work and takes at most one full batch. It returns false when the client is closed and
// nothing is left.
func (c *Client) take() (b *batch, due []deferred, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.dueLocked() {
		c.waiting.Wait()
	}
	c.yieldLocked()
	switch {
	case len(c.batches) > 0:
		b = c.batches[0]
		c.batches = slices.Delete(c.batches, 0, 1)
	case c.deferredDueLocked():
		b = &batch{done: make(chan struct{})}
	default:
		return nil, nil, false
	}
	n := min(len(c.deferred), maxBatch)
	due, c.deferred = c.deferred[:n:n], c.deferred[n:]
	now := c.Latest()
	for _, r := range b.requests {
		c.chargeLocked(r, now)
	}
	return b, due, true
}

// yieldLocked lets ready goroutines add their requests before the batch is sent, until none of them
// does: requests are read from the network in bursts.
func (c *Client) yieldLocked() {
	for before := 0; len(c.batches) == 1 && before < len(c.batches[0].requests); {
		before = len(c.batches[0].requests)
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
}

// readings are the indexes of the replies that every batch reads.
type readings struct{ time, first, last resp.Index }

// send runs one batch: TIME, the first value, deferred commands, counters, the requests' own commands,
// and last the value that shows whether all replies before it are valid (F5).
func (c *Client) send(requests []*Request, due []deferred) error {
	p := &c.commands
	p.Reset()
	at := readings{time: p.Command("TIME"), first: queueStart(p, c.o.First)}
	for i := range due {
		due[i].sent = due[i].queue(p)
	}
	c.counters.queue(p, requests)
	for _, r := range requests {
		r.queue(p)
	}
	at.last = queueStart(p, c.o.Last)

	ctx := context.Background() // bounded by the connection's own timeouts
	sent := time.Now()
	err := c.hot.run(ctx, p)
	received := time.Now()
	c.metrics.observe(len(requests), received.Sub(sent))
	c.keepFailed(due)
	now, err := c.read(at, err)
	valid := false
	if err == nil {
		c.clock.Store(&clockReading{redis: now, sent: sent, received: received})
		valid = c.o.Verify(c.firstText, c.lastText)
	}
	if !valid || p.Refused("READONLY") {
		c.distrust(ctx)
	}
	if err != nil {
		c.fail(requests, err)
		return err
	}
	for _, r := range requests {
		r.Now, r.First, r.Last, r.Void = now, c.firstText, c.lastText, !valid
		r.err = r.read(p)
	}
	c.placeAll(requests, now)
	c.undoFailed(requests)
	return nil
}

// read returns Redis' time and keeps the two values. Commands fail one by one, so the round trip's own
// error is not enough: without these values no reply is valid.
func (c *Client) read(at readings, runErr error) (now time.Time, err error) {
	if runErr != nil {
		return now, runErr
	}
	if now, err = c.commands.Reply(at.time).Time(); err != nil {
		return now, fmt.Errorf("cannot read the time: %w", err)
	}
	if err := c.readStart(at.last, c.o.Last, &c.lastText); err != nil {
		return now, err
	}
	return now, c.readStart(at.first, c.o.First, &c.firstText)
}

// readStart reads the reply to queueStart, which is nearly always the same as in
// the last batch.
func (c *Client) readStart(at resp.Index, v Value, kept *string) error {
	text, err := c.commands.Reply(at).Text()
	if err != nil && !WrongType(err) {
		return fmt.Errorf("cannot read %s: %w", v.Name, err)
	}
	if string(text) != *kept {
		*kept = string(text)
	}
	return nil
}

// fail answers every request of a batch whose replies are missing.
func (c *Client) fail(requests []*Request, err error) {
	c.metrics.failures.Inc()
	for _, r := range requests {
		r.err = err
	}
	c.undoFailed(requests)
}

// failLate refuses batches that have waited for two round trips in vain, the
// second just now: when Redis hangs, each takes as long as it may, and the last
// of many would be refused too late (G7). Nothing of them was sent. One round
// trip may fail for a connection alone that was dead, and the next makes another.
func (c *Client) failLate(err error) {
	c.mu.Lock()
	n := 0
	for i, b := range c.batches {
		if b.failed && time.Since(b.born) >= ioTimeout {
			n = i + 1
		}
		b.failed = true
	}
	late := slices.Clone(c.batches[:n])
	c.batches = slices.Delete(c.batches, 0, n)
	c.mu.Unlock()
	for _, b := range late {
		for _, r := range b.requests {
			r.err = err
		}
		close(b.done)
	}
}

// undoFailed releases what failed requests may have set or may still set (G7).
func (c *Client) undoFailed(requests []*Request) {
	var releases []deferred
	for _, r := range requests {
		if r.err != nil {
			releases = append(releases, r.releases()...)
		}
	}
	c.keep(releases)
}
