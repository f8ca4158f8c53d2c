package audit

import (
	"bytes"
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

	"spendgate/audit/chain"
	"spendgate/hotpath/spend"
)

// ErrKeyTaken means that another check is recorded under the idempotency key.
var ErrKeyTaken = errors.New("idempotency key is taken")

// ErrPending means that the deadline came before it was known how the commit
// ended. Entry.Settle returns the outcome.
var ErrPending = errors.New("commit is still under way")

const (
	// maxBatch bounds a commit; larger batches save nothing more per row.
	maxBatch = 512
	// defaultCommitTimeout is early enough to find out how a commit ended, or to
	// refuse, within 2 s (G7).
	defaultCommitTimeout = 1200 * time.Millisecond
	resolveRetry         = 50 * time.Millisecond
	// keepQueue bounds what an idle Writer keeps of an exceptionally long queue.
	keepQueue = 2 * maxBatch
)

// WriterOptions are what a Writer is made of.
type WriterOptions struct {
	Trail    Trail
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
// checks that wait, at once when idle, else when the one under way returns.
// A check is confirmed only after its commit is durable (G1).
type Writer struct {
	o       WriterOptions
	metrics *writerMetrics
	slots   *slots
	entries sync.Pool // that ended
	chains  chains    // run's
	durable []*Entry  // run's: recorded, and not told yet
	refused struct {  // run's
		checks int // that no line of the log told of yet
		logged time.Time
	}

	mu      sync.Mutex
	waiting *sync.Cond
	queue   []*Entry
	keys    map[string]struct{} // take's, of the batch that it makes
	closed  bool
	done    sync.WaitGroup
}

// Entry is one check on its way into the trail. One goroutine waits for it.
// Entries are used again: what the last check left is still in a cache.
type Entry struct {
	writer *Writer
	check  *spend.Check
	row    spend.Hash // of the check's row, for its chain
	phase  atomic.Int32
	done   chan struct{} // takes one token, from finish
	err    error
	timer  *time.Timer // of Wait
}

// The phases of an Entry: it can be withdrawn until its commit begins.
const (
	queued int32 = iota
	committing
	withdrawn
)

// NewWriter starts a Writer.
func NewWriter(o WriterOptions) *Writer {
	o.CommitTimeout = cmp.Or(o.CommitTimeout, defaultCommitTimeout)
	w := &Writer{o: o, slots: newSlots(o.Capacity), keys: make(map[string]struct{})}
	w.metrics = newWriterMetrics(o.Registerer, w)
	w.waiting = sync.NewCond(&w.mu)
	w.done.Go(w.run)
	return w
}

// Reserve takes one of the slots that bound the checks in flight, before the
// check claims anything; give it back with Free. Not ok means overload: it would
// not be recorded in time. recorded is for Learn.
func (w *Writer) Reserve() (recorded int64, ok bool) {
	if recorded, ok = w.slots.take(); !ok {
		w.metrics.refused.Inc()
	}
	return recorded, ok
}

// Full reports, and counts, that Reserve would refuse a check, so that its body
// need not be decoded.
func (w *Writer) Full() bool {
	full := w.slots.taken.Load() >= w.slots.limit.Load()
	if full {
		w.metrics.refused.Inc()
	}
	return full
}

// Free returns a slot.
func (w *Writer) Free() { w.slots.taken.Add(-1) }

// Learn records how long a check took until it was recorded, or refused because
// the store did not take it in time. recorded is Reserve's.
func (w *Writer) Learn(recorded int64, took time.Duration) { w.slots.learn(recorded, took) }

// Append queues a check, which must not change any more. The caller holds a
// slot until the Entry is finished.
func (w *Writer) Append(check *spend.Check) *Entry {
	// Hashed here, by many at once, and not in the one line of commits.
	e := w.entry()
	e.check, e.row = check, chain.HashCheck(check, RowFormat)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		e.finish(ErrUnavailable)
		return e
	}
	w.queue = append(w.queue, e)
	w.mu.Unlock()
	w.waiting.Signal()
	return e
}

// Wait is nil once the check is durably recorded. Else nothing is recorded,
// now or ever, except after ErrPending. The caller must not use the Entry any
// more, except after ErrPending:
//
//	ErrStaleEpoch, ErrFencedNode  claim again
//	ErrKeyTaken                   another check has the idempotency key
//	*ApprovalError                the check may not use its approval
//	*ExceededError                budgets have no room for the check's charges
//	*RowError                     the check itself was refused
//	ErrUnavailable                the store did not take it in time
//	ErrPending                    not known yet: Settle returns the outcome
func (e *Entry) Wait(deadline time.Time) error {
	e.timer.Reset(time.Until(deadline))
	select {
	case <-e.done:
		return e.end()
	case <-e.timer.C:
	}
	if e.phase.CompareAndSwap(queued, withdrawn) {
		return ErrUnavailable
	}
	select {
	case <-e.done:
		return e.end()
	default:
		return ErrPending
	}
}

// entry takes one that ended, or makes one.
func (w *Writer) entry() *Entry {
	if e, ok := w.entries.Get().(*Entry); ok {
		return e
	}
	e := &Entry{writer: w, done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	e.timer.Stop()
	return e
}

// end returns the outcome of an Entry that is finished, and the Entry back: only
// the one who waited knows it any more, and may not ask again. That one may
// after ErrPending, which is the outcome of a commit in doubt when the Writer is
// closed; and of one that was withdrawn the queue still knows.
func (e *Entry) end() error {
	err := e.err
	if errors.Is(err, ErrPending) {
		e.done <- struct{}{}
		return err
	}
	e.timer.Stop() // leaves nothing in its channel
	e.check, e.err = nil, nil
	e.phase.Store(queued)
	e.writer.entries.Put(e)
	return err
}

// Settle waits for the final outcome, however long it takes; see Wait. It is
// ErrPending only when the Writer was closed before the store could tell.
func (e *Entry) Settle() error {
	<-e.done
	return e.end()
}

func (e *Entry) finish(err error) {
	e.err = err
	e.done <- struct{}{}
}

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

// take waits for entries and takes the longest run that one commit can hold:
// one fence, no idempotency key twice, not withdrawn.
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
	w.yield()
	clear(w.keys)
	batch = make([]*Entry, 0, min(len(w.queue), maxBatch))
	n := 0
	for ; n < len(w.queue) && len(batch) < maxBatch; n++ {
		e := w.queue[n]
		if len(batch) > 0 && batch[0].check.Fence != e.check.Fence {
			break
		}
		if key := e.check.Action.IdempotencyKey; key != "" {
			if _, twice := w.keys[key]; twice {
				break
			}
			w.keys[key] = struct{}{}
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

// yield lets goroutines that are ready run before the commit begins, until
// none of them appends: the checks of one round trip to Redis come back
// together, and the first must not leave without the others. Called with mu
// held.
func (w *Writer) yield() {
	for before := 0; before < len(w.queue) && len(w.queue) < maxBatch; {
		before = len(w.queue)
		w.mu.Unlock()
		runtime.Gosched()
		w.mu.Lock()
	}
}

// commit writes the batch and finishes what was not recorded; announce finishes
// what was, and resolve what is in doubt. The chain continues only after what was
// certainly recorded; where that is not known it is over, and what still has
// its fence is claimed again under another (F34).
func (w *Writer) commit(batch []*Entry) {
	slices.SortFunc(batch, func(a, b *Entry) int { return bytes.Compare(a.check.ID[:], b.check.ID[:]) })
	for len(batch) > 0 {
		w.announce()
		nodeChain := w.chains.of(batch[0].check.Fence.Node)
		if nodeChain.ended {
			finishAll(batch, ErrFencedNode)
			return
		}
		link := w.chains.next(nodeChain, batch)
		started := time.Now()
		err := w.store(batch, link)
		w.metrics.commit(len(batch), time.Since(started), err)
		var taken *KeysTakenError
		var exceeded *ExceededError
		var unapproved *ApprovalsError
		var row *RowError
		switch {
		case errors.As(err, &taken):
			rest := finishTaken(batch, taken.Hashes)
			if len(rest) == len(batch) {
				finishAll(batch, ErrUnavailable) // a store that names foreign keys
				return
			}
			batch = rest
			continue
		case errors.As(err, &unapproved):
			rest := finishUnapproved(batch, unapproved.Refused)
			if len(rest) == len(batch) {
				finishAll(batch, ErrUnavailable) // a store that refuses foreign checks
				return
			}
			batch = rest
			continue
		case errors.As(err, &exceeded):
			rest, later := finishExceeded(batch, exceeded.Usages)
			if len(rest) == len(batch) {
				finishAll(batch, ErrUnavailable) // a store that refuses what fits
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
		case errors.Is(err, ErrUnknown), errors.Is(err, ErrForked):
			nodeChain.ended = true
			w.done.Go(func() { w.resolve(batch) })
		case err == nil:
			nodeChain.Advance(link)
			w.slots.recorded.Add(int64(len(batch)))
			w.durable = batch
		default:
			nodeChain.ended = errors.Is(err, ErrFencedNode)
			if !errors.Is(err, ErrStaleEpoch) && !nodeChain.ended {
				w.logRefused(len(batch), err)
			}
			finishAll(batch, err)
		}
		return
	}
}

// announce finishes the checks of the last commit when the next one begins, which
// need not wait for their answers, or when none waits.
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
	checks := make([]*spend.Check, len(batch))
	for i, e := range batch {
		checks[i] = e.check
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.o.CommitTimeout)
	defer cancel()
	return w.o.Trail.Commit(ctx, checks, link)
}

func finishAll(batch []*Entry, err error) {
	for _, e := range batch {
		e.finish(err)
	}
}

// finishTaken finishes the entries whose keys are taken and returns the others.
func finishTaken(batch []*Entry, hashes []spend.Hash) (rest []*Entry) {
	taken := make(map[spend.Hash]struct{}, len(hashes))
	for _, h := range hashes {
		taken[h] = struct{}{}
	}
	for _, e := range batch {
		key := e.check.Action.IdempotencyKey
		if _, ok := taken[spend.HashKey(key)]; ok && key != "" {
			e.finish(ErrKeyTaken)
			continue
		}
		rest = append(rest, e)
	}
	return rest
}
