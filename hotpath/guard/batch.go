package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/ratelimit"
)

// maxBatch bounds one pipeline, and so the stall that it is for others.
const maxBatch = 1024

// reading is what a round trip saw of the world.
type reading struct {
	now        time.Time // Redis' TIME
	generation string    // of the configuration, within the epoch
	windows    marker    // known before the trip and still there after it
	lost       bool      // the windows are others now: claims of this trip are void
	values     []string  // of gets, in order; empty for absent
}

// batcher sends one pipeline at a time, made of all the asks that wait: at
// once when idle, else when the one in flight returns. Claims gather a little
// longer while a commit is under way, since theirs must wait for it anyway.
type batcher struct {
	conns   *connections
	windows *atomic.Pointer[marker]
	busy    func() time.Duration
	clock   atomic.Pointer[clockReading]
	metrics *metrics

	mu      sync.Mutex
	waiting *sync.Cond
	asks    []*ask
	chores  []chore
	memory  ratelimit.Memory
	closed  bool
	stopped chan struct{}
}

type clockReading struct{ redis, local time.Time }

func newBatcher(conns *connections, windows *atomic.Pointer[marker], busy func() time.Duration, m *metrics) *batcher {
	b := &batcher{conns: conns, windows: windows, busy: busy, metrics: m, stopped: make(chan struct{})}
	b.waiting = sync.NewCond(&b.mu)
	return b
}

// do sends the ask with the next pipeline. Its error is also in a.err.
func (b *batcher) do(a *ask) error {
	a.done = make(chan struct{})
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		a.err = fmt.Errorf("%w: guard is closed", ErrUnavailable)
		return a.err
	}
	b.asks = append(b.asks, a)
	b.mu.Unlock()
	b.waiting.Signal()
	<-a.done
	return a.err
}

// later sends chores with the next pipeline; nobody waits for them.
func (b *batcher) later(chores ...chore) {
	b.mu.Lock()
	b.chores = append(b.chores, chores...)
	b.mu.Unlock()
	b.waiting.Signal()
}

// now is Redis' time as well as this node knows it.
func (b *batcher) now() time.Time {
	c := b.clock.Load()
	if c == nil {
		return time.Now()
	}
	return c.redis.Add(time.Since(c.local))
}

// close sends what waits and stops.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.waiting.Signal()
	<-b.stopped
}

func (b *batcher) run() {
	defer close(b.stopped)
	for {
		b.gather()
		asks, chores, ok := b.take()
		if !ok {
			return
		}
		b.send(asks, chores)
		for _, a := range asks {
			close(a.done)
		}
	}
}

const (
	// gatherShare of the running commit's time left is spent gathering; the
	// rest is for the round trip.
	gatherShare = 0.7
	gatherMost  = 10 * time.Millisecond
)

// gather waits for company while only claims wait and a commit is under way.
// It costs them nothing and spares round trips; whatever else is asked is not
// kept waiting.
func (b *batcher) gather() {
	if b.busy == nil {
		return
	}
	b.mu.Lock()
	for len(b.asks) == 0 && !b.choresDue() && !b.closed {
		b.waiting.Wait()
	}
	only := len(b.asks) > 0 && len(b.asks) < maxBatch && !slices.ContainsFunc(b.asks, func(a *ask) bool { return a.claims[1].name == "" })
	b.mu.Unlock()
	if !only {
		return
	}
	if left := min(time.Duration(float64(b.busy())*gatherShare), gatherMost); left > 0 {
		time.Sleep(left)
	}
}

// take waits for work and takes all of it, up to a full pipeline.
func (b *batcher) take() (asks []*ask, chores []chore, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.asks) == 0 && !b.choresDue() {
		if b.closed {
			return nil, nil, false
		}
		b.waiting.Wait()
	}
	asks, b.asks = cut(b.asks)
	chores, b.chores = cut(b.chores)
	now := b.now()
	for _, a := range asks {
		if a.charge.Key != "" {
			var refused bool
			a.place, refused = b.memory.Refused(a.charge.Key, a.charge.Limit, now)
			a.counted = !refused
			if ends, ok := b.memory.End(a.charge.Key, now); ok {
				a.ends = ends
			}
		}
	}
	return asks, chores, true
}

// cut takes what fits into one pipeline.
func cut[T any](waiting []T) (taken, left []T) {
	if len(waiting) <= maxBatch {
		return waiting, nil
	}
	return waiting[:maxBatch:maxBatch], waiting[maxBatch:]
}

// trip is one pipeline and the commands that every one of them has.
type trip struct {
	pipe       redis.Pipeliner
	time       *redis.TimeCmd
	generation *redis.StringCmd
	counts     map[string]*counting
	marker     *redis.StringCmd
}

type counting struct {
	asks  []*ask
	count ratelimit.Count
}

// send runs one pipeline: TIME, the generation, chores, counters, claims, and
// last the marker, whose equality with the one known before certifies
// everything in between (F5).
func (b *batcher) send(asks []*ask, chores []chore) {
	ctx := context.Background() // bounded by the client's own timeouts
	known := *b.windows.Load()
	t := trip{pipe: b.conns.hot.Pipeline()}
	t.time = t.pipe.Time(ctx)
	t.generation = t.pipe.Get(ctx, generationKey)
	for i := range chores {
		chores[i].cmd = chores[i].queue(ctx, t.pipe)
	}
	t.queueCounts(ctx, asks)
	queued := make([][]*redis.StringCmd, len(asks))
	for i, a := range asks {
		queued[i] = a.queue(ctx, t.pipe)
	}
	t.marker = t.pipe.Get(ctx, markerKey)

	sent := time.Now()
	_, err := t.pipe.Exec(ctx)
	b.metrics.batch(len(asks), time.Since(sent))
	b.keepFailed(chores)
	r, err := b.read(t, known, sent, err)
	_, answered := errors.AsType[redis.Error](err)
	b.conns.distrust(ctx, err, answered || readOnly(asks))
	if err != nil {
		b.fail(asks, err)
		return
	}
	for i, a := range asks {
		a.reading = r
		a.reading.lost = r.lost || !r.windows.sameWindows(a.windows)
		a.reading.windows.full = r.windows.full && a.windows.full
		a.err = a.answers(queued[i])
	}
	b.placeAll(t.counts)
}

// placeAll tells every counted ask where it stands, and remembers the windows.
func (b *batcher) placeAll(counts map[string]*counting) {
	var endless []chore
	b.mu.Lock()
	for key, c := range counts {
		for i, a := range c.asks {
			var err error
			if a.place, err = c.count.Place(int64(i)); err != nil && a.err == nil {
				a.err = fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
		}
		if c.count.Endless() {
			b.memory.ForgetWindow(key)
			endless = append(endless, endWindow(key))
		} else {
			b.memory.NoteEnd(key, c.asks[0].place.ExpiresMS)
		}
	}
	b.mu.Unlock()
	if len(endless) > 0 {
		b.later(endless...)
	}
}

// readOnly reports whether the server is a replica by now.
func readOnly(asks []*ask) bool {
	for _, a := range asks {
		for _, c := range a.claims {
			if c.cmd != nil && redis.HasErrorPrefix(c.cmd.Err(), "READONLY") {
				return true
			}
		}
	}
	return false
}

func (t *trip) queueCounts(ctx context.Context, asks []*ask) {
	for _, a := range asks {
		if !a.counted {
			continue
		}
		if t.counts == nil {
			t.counts = make(map[string]*counting, 8)
		}
		c := t.counts[a.charge.Key]
		if c == nil {
			c = &counting{}
			t.counts[a.charge.Key] = c
		}
		c.asks = append(c.asks, a)
	}
	for key, c := range t.counts {
		if ends := c.asks[0].ends; ends > 0 {
			c.count = ratelimit.QueueCountWithin(ctx, t.pipe, key, int64(len(c.asks)), ends)
		} else {
			c.count = ratelimit.QueueCount(ctx, t.pipe, key, int64(len(c.asks)))
		}
	}
}

// read takes what the whole trip saw. Commands fail one by one, so that the
// pipeline's own error says too little: without time and marker nothing holds.
func (b *batcher) read(t trip, known marker, sent time.Time, pipeErr error) (r reading, err error) {
	if r.now, err = t.time.Result(); err != nil {
		return r, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	text, err := t.marker.Result()
	if failed(err) {
		return r, fmt.Errorf("%w: cannot read the marker: %w", ErrUnavailable, err)
	}
	nonce, err := t.generation.Result()
	if failed(err) {
		return r, fmt.Errorf("%w: cannot read the generation: %w (pipeline: %w)", ErrUnavailable, err, pipeErr)
	}
	b.clock.Store(&clockReading{redis: r.now, local: sent})
	found := parseMarker(text)
	r.lost = known.epoch.IsZero() || !found.sameWindows(known) || nonce == ""
	r.windows = known
	r.windows.full = known.full && found.full // what was lazy when the trip began is lazy for it
	if !r.lost && found != known {
		if now := b.windows.Load(); *now == known {
			b.windows.CompareAndSwap(now, &found)
		}
	}
	r.generation = generationLabel(known.epoch.Text(""), nonce)
	return r, nil
}

// generationLabel names a state of the configuration. A nonce alone could come
// back after Redis was lost; no epoch comes back (F12).
func generationLabel(epoch, nonce string) string { return epoch + "/" + nonce }

// fail answers every ask of a trip whose replies are missing. Its claims may
// stand all the same, or be carried out later: they are swept.
func (b *batcher) fail(asks []*ask, err error) {
	b.metrics.tripErrors.Inc()
	var sweep []chore
	for _, a := range asks {
		a.err = err
		sweep = append(sweep, a.releases()...)
	}
	b.keep(sweep)
}
