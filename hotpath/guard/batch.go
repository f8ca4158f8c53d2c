package guard

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"spendgate/hotpath/pipeline/resp"
	"spendgate/hotpath/spend"
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
// once when idle, else when the one in flight returns.
type batcher struct {
	conns   *connections
	windows *atomic.Pointer[marker]
	clock   atomic.Pointer[clockReading]
	metrics *metrics

	// Of the goroutine that sends, reused from trip to trip.
	pipe   resp.Pipeline
	counts counts
	last   lastSeen

	mu      sync.Mutex
	waiting *sync.Cond
	rounds  []*round // that wait to be sent
	spare   []*ask   // an empty slice that was a round's
	chores  []chore
	memory  ratelimit.Memory
	closed  bool
	stopped chan struct{}
}

// round is the asks of one pipeline.
type round struct {
	asks   []*ask
	born   time.Time     // not after the first of them
	failed bool          // a trip failed while they waited
	done   chan struct{} // closed when they are answered
}

// clockReading is what TIME said, and when by the local clock it was asked for
// and known.
type clockReading struct{ redis, sent, received time.Time }

func newBatcher(conns *connections, windows *atomic.Pointer[marker], m *metrics) *batcher {
	b := &batcher{conns: conns, windows: windows, metrics: m, stopped: make(chan struct{})}
	b.pipe.Prefix = conns.prefix
	b.waiting = sync.NewCond(&b.mu)
	return b
}

// do sends the ask with the next pipeline. Its error is also in a.err.
func (b *batcher) do(a *ask) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		a.err = fmt.Errorf("%w: guard is closed", ErrUnavailable)
		return a.err
	}
	if n := len(b.rounds); n == 0 || len(b.rounds[n-1].asks) == maxBatch {
		b.rounds = append(b.rounds, &round{asks: b.spare, born: time.Now(), done: make(chan struct{})})
		b.spare = nil
	}
	r := b.rounds[len(b.rounds)-1]
	r.asks = append(r.asks, a)
	b.mu.Unlock()
	b.waiting.Signal()
	<-r.done
	return a.err
}

// later sends chores with the next pipeline; nobody waits for them.
func (b *batcher) later(chores ...chore) {
	b.mu.Lock()
	for _, c := range chores {
		b.add(c)
	}
	b.mu.Unlock()
	b.waiting.Signal()
}

// now is Redis' time, or later by no more than the last trip took: what begins
// now is stamped with it, and no window ends early.
func (b *batcher) now() time.Time {
	c := b.clock.Load()
	if c == nil {
		return time.Now()
	}
	return c.redis.Add(time.Since(c.sent))
}

// reached is a time that Redis' clock has certainly come to: what is over by
// then is over.
func (b *batcher) reached() time.Time {
	c := b.clock.Load()
	if c == nil {
		return time.Now()
	}
	return c.redis.Add(time.Since(c.received))
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
		r, chores, ok := b.take()
		if !ok {
			return
		}
		if err := b.send(r.asks, chores); err != nil {
			b.failLate(err)
		}
		close(r.done)
		clear(r.asks)
		b.mu.Lock()
		b.spare = r.asks[:0]
		b.mu.Unlock()
	}
}

// due reports whether there is anything to do. Called with mu held.
func (b *batcher) due() bool { return len(b.rounds) > 0 || b.choresDue() || b.closed }

// take waits for work and takes a full pipeline of it at most. It gives false
// when the batcher is closed and nothing is left.
func (b *batcher) take() (r *round, chores []chore, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.due() {
		b.waiting.Wait()
	}
	b.yield()
	switch {
	case len(b.rounds) > 0:
		r = b.rounds[0]
		b.rounds = slices.Delete(b.rounds, 0, 1)
	case b.choresDue():
		r = &round{done: make(chan struct{})}
	default:
		return nil, nil, false
	}
	n := min(len(b.chores), maxBatch)
	chores, b.chores = b.chores[:n:n], b.chores[n:]
	now := b.now()
	for _, a := range r.asks {
		if a.charge.Key != "" {
			var refused bool
			a.place, refused = b.memory.Refused(a.charge.Key, a.charge.Limit, now)
			if a.counted = !refused; refused {
				a.claims = [2]claim{}
			}
			if ends, ok := b.memory.End(a.charge.Key, now); ok {
				a.ends = ends
			}
		}
	}
	return r, chores, true
}

// yield lets goroutines that are ready ask before the pipeline leaves, until
// none of them does: requests are read from the network in bunches. Called
// with mu held.
func (b *batcher) yield() {
	for before := 0; len(b.rounds) == 1 && before < len(b.rounds[0].asks); {
		before = len(b.rounds[0].asks)
		b.mu.Unlock()
		runtime.Gosched()
		b.mu.Lock()
	}
}

// trip is where the commands that every pipeline has are in it.
type trip struct{ time, generation, marker resp.Index }

// send runs one pipeline: TIME, the generation, chores, counters, claims, and
// last the marker, whose equality with the one known before certifies
// everything in between (F5).
func (b *batcher) send(asks []*ask, chores []chore) error {
	known := *b.windows.Load()
	p := &b.pipe
	p.Reset()
	t := trip{time: p.Command("TIME"), generation: queueStart(p, generationKey, maxGeneration)}
	for i := range chores {
		chores[i].sent = chores[i].queue(p)
	}
	b.counts.queue(p, asks)
	for _, a := range asks {
		a.queue(p)
	}
	t.marker = queueStart(p, markerKey, maxMarker)

	ctx := context.Background() // bounded by the connection's own timeouts
	sent := time.Now()
	err := b.conns.hot.run(ctx, p)
	received := time.Now()
	b.metrics.batch(len(asks), received.Sub(sent))
	b.keepFailed(chores)
	r, err := b.read(t, known, sent, received, err)
	if err != nil || r.lost || p.Refused("READONLY") {
		b.conns.distrust(ctx)
	}
	if err != nil {
		b.fail(asks, err)
		return err
	}
	for _, a := range asks {
		a.reading = r
		a.reading.lost = r.lost || !r.windows.sameWindows(a.windows)
		a.reading.windows.full = r.windows.full && a.windows.full
		a.err = a.answers(p)
	}
	b.placeAll(asks, r.now)
	b.sweep(asks)
	return nil
}

// lastSeen is what the last trip read, parsed: it hardly ever changes.
type lastSeen struct {
	markerText string
	marker     marker
	epoch      spend.ID
	nonce      string
	generation string // the label of epoch and nonce
}

func (l *lastSeen) parseMarker(text []byte) marker {
	if string(text) != l.markerText {
		l.markerText = string(text)
		l.marker, _ = parseMarker(l.markerText) // a newer one is none of this node's
	}
	return l.marker
}

func (l *lastSeen) label(epoch spend.ID, nonce []byte) string {
	if l.generation == "" || epoch != l.epoch || string(nonce) != l.nonce {
		l.epoch, l.nonce = epoch, string(nonce)
		l.generation = generationLabel(epoch.Text(""), l.nonce)
	}
	return l.generation
}

// read takes what the whole trip saw. Commands fail one by one, so that the
// pipeline's own error says too little: without time and marker nothing holds.
func (b *batcher) read(t trip, known marker, sent, received time.Time, pipeErr error) (r reading, err error) {
	if pipeErr != nil {
		return r, fmt.Errorf("%w: %w", ErrUnavailable, pipeErr)
	}
	if r.now, err = b.pipe.Reply(t.time).Time(); err != nil {
		return r, fmt.Errorf("%w: cannot read the time: %w", ErrUnavailable, err)
	}
	// What is no text is what no node wrote: a new epoch, or generation, takes its place.
	text, err := b.pipe.Reply(t.marker).Text()
	if err != nil && !mistyped(err) {
		return r, fmt.Errorf("%w: cannot read the marker: %w", ErrUnavailable, err)
	}
	nonce, err := b.pipe.Reply(t.generation).Text()
	if err != nil && !mistyped(err) {
		return r, fmt.Errorf("%w: cannot read the generation: %w", ErrUnavailable, err)
	}
	b.clock.Store(&clockReading{redis: r.now, sent: sent, received: received})
	found := b.last.parseMarker(text)
	r.lost = known.epoch.IsZero() || !found.sameWindows(known) || len(nonce) == 0
	r.windows = known
	r.windows.full = known.full && found.full // what was lazy when the trip began is lazy for it
	if !r.lost && found != known {
		if now := b.windows.Load(); *now == known {
			b.windows.CompareAndSwap(now, &found)
		}
	}
	r.generation = b.last.label(known.epoch, nonce)
	return r, nil
}

// generationLabel names a state of the configuration. A nonce alone could come
// back after Redis was lost; no epoch comes back (F12).
func generationLabel(epoch, nonce string) string { return epoch + "/" + nonce }

// fail answers every ask of a trip whose replies are missing.
func (b *batcher) fail(asks []*ask, err error) {
	b.metrics.tripErrors.Inc()
	for _, a := range asks {
		a.err = err
	}
	b.sweep(asks)
}

// failLate refuses rounds that have waited for two trips in vain, the second
// just now: when Redis hangs, each takes as long as it may, and the last of many
// would be refused too late (G7). Nothing of them was sent. One trip may fail for
// a connection alone that was dead, and the next makes another.
func (b *batcher) failLate(err error) {
	b.mu.Lock()
	n := 0
	for i, r := range b.rounds {
		if r.failed && time.Since(r.born) >= ioTimeout {
			n = i + 1
		}
		r.failed = true
	}
	late := slices.Clone(b.rounds[:n])
	b.rounds = slices.Delete(b.rounds, 0, n)
	b.mu.Unlock()
	for _, r := range late {
		for _, a := range r.asks {
			a.err = err
		}
		close(r.done)
	}
}

// sweep releases what asks that failed claimed all the same, or what may yet be
// carried out (G7).
func (b *batcher) sweep(asks []*ask) {
	var releases []chore
	for _, a := range asks {
		if a.err != nil {
			releases = append(releases, a.releases()...)
		}
	}
	b.keep(releases)
}
