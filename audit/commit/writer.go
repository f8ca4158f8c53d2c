package commit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

const (
	// maxBatch bounds a commit; larger batches save nothing more per row.
	maxBatch = 512
	// maxCharges bounds the counters of budgets that a commit changes, since a policy may have
	// hundreds of budgets: more rows could not be written in time. A check with more is committed
	// alone.
	maxCharges = 2048
	// defaultCommitTimeout is early enough to find out how a commit ended, or to
	// refuse, within 2 s (G7).
	defaultCommitTimeout = 1200 * time.Millisecond
	resolveRetry         = 50 * time.Millisecond
	// maxInDoubt bounds the commits in doubt. A server that does not end them, as without its
	// synchronous standby, may keep a connection for each, and does not see that the node left.
	maxInDoubt = 4
	// keepQueue bounds the memory that an idle Writer keeps of an exceptionally long queue.
	keepQueue = 2 * maxBatch
)

// Options configure a Writer.
type Options struct {
	Trail    audit.Trail
	Capacity int // checks in flight, at most; more are refused at once (G9)
	// Fence makes a node incarnation's unfinished commits impossible; Retire
	// gives the node another incarnation for new work.
	Fence      func(ctx context.Context, node spend.ID) error
	Retire     func(node spend.ID)
	Logger     *slog.Logger
	Registerer prometheus.Registerer

	// CommitTimeout is when a commit's outcome is given up as unknown; 0 is 1.2 s.
	CommitTimeout time.Duration
}

// Writer records checks by group commit: one commit at a time, made of all the
// checks that wait, at once when idle, else when the one in progress returns.
// A check is confirmed only after its commit is durable (G1).
type Writer struct {
	o       Options
	metrics *writerMetrics
	limiter *limiter
	entries sync.Pool    // that ended
	chains  chains       // run's
	durable []*Entry     // run's: recorded, and not announced yet
	inDoubt atomic.Int32 // commits that resolve looks for
	failing failing
	refused struct { // run's
		checks int // refused since the last line of the log
		logged time.Time
	}

	mu      sync.Mutex
	waiting *sync.Cond
	queue   []*Entry
	keys    map[string]struct{}     // the idempotency keys in the batch that take is making
	reports map[spend.ID]struct{}   // the checks whose outcomes are in that batch
	moves   map[spend.Hash]struct{} // the payments that the batch changes
	closed  bool
	done    sync.WaitGroup
}

// NewWriter starts a Writer.
func NewWriter(o Options) *Writer {
	o.CommitTimeout = cmp.Or(o.CommitTimeout, defaultCommitTimeout)
	w := &Writer{
		o: o, limiter: newLimiter(o.Capacity), keys: make(map[string]struct{}), reports: make(map[spend.ID]struct{}),
		moves: make(map[spend.Hash]struct{}),
	}
	w.metrics = newWriterMetrics(o.Registerer, w)
	w.waiting = sync.NewCond(&w.mu)
	w.done.Go(w.run)
	return w
}

// Reserve takes a place among the checks in flight, whose number is bounded, before the check claims
// anything; give it back with Free. It is not ok under overload, or if too many commits are in doubt:
// the check would not be recorded in time. recorded is for Learn.
func (w *Writer) Reserve() (recorded int64, ok bool) {
	if !w.Stuck() {
		recorded, ok = w.limiter.take()
	}
	if !ok {
		w.metrics.refused.Inc()
	}
	return recorded, ok
}

// Stuck reports whether so many commits are in doubt that none more begins.
func (w *Writer) Stuck() bool { return w.inDoubt.Load() >= maxInDoubt }

// Full reports, and counts, that Reserve would refuse a check, so that its body
// need not be decoded.
func (w *Writer) Full() bool {
	full := w.Stuck() || w.limiter.taken.Load() >= w.limiter.limit.Load()
	if full {
		w.metrics.refused.Inc()
	}
	return full
}

// InFlight returns how many checks are in flight.
func (w *Writer) InFlight() int64 { return w.limiter.taken.Load() }

// Free gives a place back.
func (w *Writer) Free() { w.limiter.taken.Add(-1) }

// Learn records how long a check took until it was recorded, or refused because
// the store did not take it in time. recorded is Reserve's.
func (w *Writer) Learn(recorded int64, took time.Duration) { w.limiter.learn(recorded, took) }

// Close refuses new checks and returns when those queued are finished.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.waiting.Signal()
	w.done.Wait()
}

func (w *Writer) run() {
	for {
		batch, ok := w.take()
		if !ok {
			return
		}
		w.commit(batch)
	}
}

// take waits for entries and takes the longest run that one commit can hold: one fence, few enough
// charges, no idempotency key, no check's outcome and no payment twice, no withdrawn entry.
func (w *Writer) take() (batch []*Entry, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 {
		w.announce()
		if w.closed {
			return nil, false
		}
		w.waiting.Wait()
	}
	w.yieldLocked()
	clear(w.keys)
	clear(w.reports)
	clear(w.moves)
	batch = make([]*Entry, 0, min(len(w.queue), maxBatch))
	n, charges := 0, 0
	for ; n < len(w.queue) && len(batch) < maxBatch; n++ {
		e := w.queue[n]
		charges += e.charges()
		if len(batch) > 0 && (batch[0].fence() != e.fence() || charges > maxCharges) || w.twice(e) {
			break
		}
		if e.phase.CompareAndSwap(queued, committing) {
			batch = append(batch, e)
		}
	}
	w.queue = slices.Delete(w.queue, 0, n)
	if cap(w.queue) > keepQueue && len(w.queue) == 0 {
		w.queue = nil // let the backing array go
	}
	return batch, true
}

// twice reports whether the batch has an entry beside which this one cannot be.
func (w *Writer) twice(e *Entry) (twice bool) {
	for o := range e.outcomes {
		_, reported := w.reports[o.CheckID]
		twice = twice || reported
	}
	for change := range e.payments {
		_, moves := w.moves[change.Hash()]
		twice = twice || moves
	}
	if twice {
		return true
	}
	for o := range e.outcomes {
		w.reports[o.CheckID] = struct{}{}
	}
	for change := range e.payments {
		w.moves[change.Hash()] = struct{}{}
	}
	if e.check != nil && e.check.Action.IdempotencyKey != "" {
		_, taken := w.keys[e.check.Action.IdempotencyKey]
		twice = twice || taken
		w.keys[e.check.Action.IdempotencyKey] = struct{}{}
	}
	return twice
}

// yieldLocked lets ready goroutines run before the commit begins, until none of them appends: the
// checks of one round trip to Redis come back together, and should be committed together.
func (w *Writer) yieldLocked() {
	for before := 0; before < len(w.queue) && len(w.queue) < maxBatch; {
		before = len(w.queue)
		w.mu.Unlock()
		runtime.Gosched()
		w.mu.Lock()
	}
}

// commit writes the batch and finishes the entries that were not recorded; announce finishes the
// recorded ones, and resolve those in doubt. The chain continues only after a batch that was certainly
// recorded; else it ends, and entries with its fence are claimed again under another (F34).
func (w *Writer) commit(batch []*Entry) {
	slices.SortFunc(batch, func(a, b *Entry) int { return a.id().Compare(b.id()) })
	for len(batch) > 0 {
		w.announce()
		nodeChain := w.chains.of(batch[0].fence().Node)
		if nodeChain.ended {
			finishAll(batch, audit.ErrFencedNode)
			return
		}
		if w.Stuck() {
			finishAll(batch, audit.ErrUnavailable)
			return
		}
		link := w.chains.next(nodeChain, batch)
		started := time.Now()
		err := w.store(batch, link)
		w.metrics.commit(len(batch), time.Since(started), err)
		var exceeded *audit.ExceededError
		var row *audit.RowError
		refusal := refusalOf(err, batch)
		switch {
		case refusal != nil:
			rest := finishRefused(batch, refusal)
			if len(rest) == len(batch) {
				finishAll(batch, audit.ErrUnavailable) // the store named entries of another batch
				return
			}
			batch = rest
			continue
		case errors.As(err, &exceeded):
			rest, later := finishExceeded(batch, exceeded.Usages)
			if len(rest) == len(batch) {
				finishAll(batch, audit.ErrUnavailable) // the store refused entries that fit
				return
			}
			w.commit(rest)
			batch = later
			continue
		case errors.As(err, &row) && len(batch) > 1:
			// One row's own data: halve until it fails alone.
			w.commit(batch[:len(batch)/2])
			batch = batch[len(batch)/2:]
			continue
		case errors.Is(err, audit.ErrUnknown), errors.Is(err, audit.ErrForked):
			nodeChain.ended = true
			w.failing.add(err)
			w.inDoubt.Add(1)
			w.done.Go(func() {
				defer w.inDoubt.Add(-1)
				w.resolve(batch)
			})
		case err == nil:
			nodeChain.Advance(link)
			w.failing.end()
			w.limiter.recorded.Add(int64(len(batch)))
			w.durable = batch
		default:
			nodeChain.ended = errors.Is(err, audit.ErrFencedNode)
			if !errors.Is(err, audit.ErrStaleEpoch) && !errors.Is(err, audit.ErrStaleStops) && !nodeChain.ended {
				w.logRefused(len(batch), err)
				if row == nil {
					w.failing.add(err)
				}
			}
			finishAll(batch, err)
		}
		return
	}
}

// announce finishes the checks of the last commit when the next one begins, which need not wait for
// their answers, or when no entry waits.
func (w *Writer) announce() {
	if batch := w.durable; batch != nil {
		w.durable = nil
		w.done.Go(func() { finishAll(batch, nil) })
	}
}

// logRefused logs checks that were refused, once a second at most: while the
// store is away there are many batches.
func (w *Writer) logRefused(checks int, err error) {
	w.refused.checks += checks
	if time.Since(w.refused.logged) < time.Second {
		return
	}
	w.o.Logger.Error("cannot commit checks; they were refused", "checks", w.refused.checks, "error", err)
	w.refused.checks, w.refused.logged = 0, time.Now()
}

func (w *Writer) store(batch []*Entry, link chain.Link) error {
	checks := make([]*spend.Check, 0, len(batch))
	var outcomes []*spend.Outcome
	for _, e := range batch {
		if e.check != nil {
			checks = append(checks, e.check)
		}
		if e.outcome != nil {
			outcomes = append(outcomes, e.outcome)
		}
		outcomes = append(outcomes, e.with...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.o.CommitTimeout)
	defer cancel()
	return w.o.Trail.Commit(ctx, checks, outcomes, link)
}
