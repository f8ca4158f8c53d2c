package pipeline

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"spendgate/hotpath/pipeline/resp"
	"spendgate/ratelimit"
)

// Options configure a Client.
type Options struct {
	Redis      redis.UniversalOptions // addresses and credentials; timeouts and retries are the client's
	KeyPrefix  string                 // of every name in Redis, without braces: they choose a cluster's slot
	Embedded   bool                   // an in-process Redis that dies with the process
	Registerer prometheus.Registerer

	// First and Last are read by every batch, before and after the commands of
	// its requests. Last also names the slot of a cluster.
	First, Last Value
	// Verify receives the two values, "" for a value that is not text, and reports whether the batch's
	// replies are valid. If not, its requests are void and the connection is closed. It is called by
	// the goroutine that sends.
	Verify func(first, last string) bool
	// Vet receives the name of a newly connected server and its value of Last. After an error nothing
	// is sent to the server.
	Vet func(server, last string) error
}

// Value names a value of which at most Length bytes are read.
type Value struct {
	Name   string
	Length int64
}

var errClosed = errors.New("the redis client is closed")

// Client sends requests in batches. It is safe for concurrent use.
type Client struct {
	Servers

	o       Options
	clock   atomic.Pointer[clockReading]
	metrics *metrics

	// Of the goroutine that sends, reused from batch to batch.
	commands            resp.Pipeline
	counters            counters
	firstText, lastText string // as the last batch read them

	mu       sync.Mutex
	waiting  *sync.Cond
	batches  []*batch   // that wait to be sent
	spare    []*Request // an empty slice that was a batch's
	deferred []deferred
	memory   ratelimit.Memory
	closed   bool
	stopped  chan struct{}
}

// clockReading is a reply to TIME, with the local times at which TIME was sent and the reply received.
type clockReading struct{ redis, sent, received time.Time }

// New returns a running Client. It connects with the first request.
func New(o Options) *Client {
	c := &Client{o: o, metrics: newMetrics(o.Registerer), stopped: make(chan struct{})}
	c.connect(o)
	c.commands.Prefix = o.KeyPrefix
	c.waiting = sync.NewCond(&c.mu)
	go c.run()
	return c
}

// Do sends the request with the next batch and returns when it was answered. After an error the effect
// of its commands is unknown, and what it may have set is released.
func (c *Client) Do(r *Request) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		r.err = errClosed
		return r.err
	}
	if n := len(c.batches); n == 0 || len(c.batches[n-1].requests) == maxBatch {
		c.batches = append(c.batches, &batch{requests: c.spare, born: time.Now(), done: make(chan struct{})})
		c.spare = nil
	}
	b := c.batches[len(c.batches)-1]
	b.requests = append(b.requests, r)
	c.mu.Unlock()
	c.waiting.Signal()
	<-b.done
	return r.err
}

// Latest returns Redis' time, or a time that is later by at most the last round trip: new windows are
// stamped with it, so that none ends early.
func (c *Client) Latest() time.Time {
	clock := c.clock.Load()
	if clock == nil {
		return time.Now()
	}
	return clock.redis.Add(time.Since(clock.sent))
}

// Earliest returns a time that Redis' clock has certainly reached: a window that ends before it has
// ended.
func (c *Client) Earliest() time.Time {
	clock := c.clock.Load()
	if clock == nil {
		return time.Now()
	}
	return clock.redis.Add(time.Since(clock.received))
}

// Close sends waiting requests, deferred commands included, and disconnects.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.waiting.Signal()
	<-c.stopped
	return c.Disconnect()
}
