package commit

import (
	"errors"
	"sync/atomic"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// ErrKeyTaken means that another check is recorded under the idempotency key.
var ErrKeyTaken = errors.New("idempotency key is taken")

// ErrReported means that another outcome of the check is recorded.
var ErrReported = errors.New("the check's outcome is reported")

// ErrPaymentMoved means that a payment of the entry was changed since it was read.
var ErrPaymentMoved = errors.New("the payment was changed meanwhile")

// ErrLate means that the check of a redemption may not be redeemed any more.
var ErrLate = errors.New("it is too late to redeem the check")

// ErrPending means that the deadline came before it was known how the commit
// ended. Entry.Final returns the outcome.
var ErrPending = errors.New("commit is still in progress")

// Entry is one check, or one outcome, that is being recorded, with the outcomes that are recorded together with
// it or not at all. One goroutine waits for it. Entries are reused while their memory is still in a processor's cache.
type Entry struct {
	writer  *Writer
	check   *spend.Check   // nil of an outcome
	outcome *spend.Outcome // nil of a check
	row     spend.Hash     // of its row, for its chain
	with    []*spend.Outcome
	phase   atomic.Int32
	done    chan struct{} // takes one token, from finish
	err     error
	timer   *time.Timer // of Wait
}

func (e *Entry) id() spend.ID {
	if e.outcome != nil {
		return e.outcome.ID
	}
	return e.check.ID
}

func (e *Entry) fence() spend.Fence {
	if e.outcome != nil {
		return e.outcome.Fence
	}
	return e.check.Fence
}

// charges returns how many changes of counters the entry adds to a commit, at most.
func (e *Entry) charges() int {
	n := 0
	for o := range e.outcomes {
		n += len(o.Check.Charges)
	}
	if e.check != nil {
		n += len(e.check.Charges) + len(e.check.Refused)
	}
	return n
}

// outcomes yields all outcomes of the entry.
func (e *Entry) outcomes(yield func(*spend.Outcome) bool) {
	if e.outcome != nil && !yield(e.outcome) {
		return
	}
	for _, o := range e.with {
		if !yield(o) {
			return
		}
	}
}

// payments yields the changes of payments that the entry makes.
func (e *Entry) payments(yield func(*spend.PaymentChange) bool) {
	if e.check != nil {
		for i := range e.check.Payments {
			if !yield(&e.check.Payments[i]) {
				return
			}
		}
	}
	for o := range e.outcomes {
		for i := range o.Payments {
			if !yield(&o.Payments[i]) {
				return
			}
		}
	}
}

// The phases of an Entry: it can be withdrawn until its commit begins.
const (
	queued int32 = iota
	committing
	withdrawn
)

// Append queues a check, which must not change any more, with outcomes of the same fence. The caller holds a
// place until the Entry is finished.
func (w *Writer) Append(check *spend.Check, with ...*spend.Outcome) *Entry {
	// Hashed here, by many at once, and not in the one line of commits.
	e := w.entry()
	e.check, e.row, e.with = check, chain.HashCheck(check), with
	return w.enqueue(e)
}

// AppendOutcome is Append of an outcome, with its check.
func (w *Writer) AppendOutcome(o *spend.Outcome, with ...*spend.Outcome) *Entry {
	e := w.entry()
	e.outcome, e.row, e.with = o, chain.HashOutcome(o), with
	return w.enqueue(e)
}

func (w *Writer) enqueue(e *Entry) *Entry {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		e.finish(audit.ErrUnavailable)
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
//	audit.ErrStaleEpoch, audit.ErrFencedNode  claim again
//	audit.ErrStaleStops                       judge again
//	ErrKeyTaken                               another check has the idempotency key
//	ErrReported                               another outcome of the check is recorded, or an unread
//	                                          redemption is to read the check first
//	ErrLate                                   the check may not be redeemed any more
//	ErrPaymentMoved                           a payment of the entry was changed since it was read
//	*audit.ApprovalError                      the check may not use its approval
//	*audit.ExceededError                      budgets have no room for the check's charges
//	*audit.RowError                           the check itself was refused
//	audit.ErrUnavailable                      the store did not take it in time
//	ErrPending                                not known yet: Final returns the outcome
func (e *Entry) Wait(deadline time.Time) error {
	e.timer.Reset(time.Until(deadline))
	select {
	case <-e.done:
		return e.end()
	case <-e.timer.C:
	}
	if e.phase.CompareAndSwap(queued, withdrawn) {
		return audit.ErrUnavailable
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

// end returns the outcome of a finished Entry, and releases the Entry for reuse: only the goroutine
// that waited still refers to it, and may not wait again. Two are not reused: after ErrPending, the
// outcome of a commit in doubt when the Writer is closed, the goroutine may wait again; and the queue
// still refers to an Entry that was withdrawn.
func (e *Entry) end() error {
	err := e.err
	if errors.Is(err, ErrPending) {
		e.done <- struct{}{}
		return err
	}
	e.timer.Stop() // leaves nothing in its channel
	e.check, e.outcome, e.with, e.err = nil, nil, nil, nil
	e.phase.Store(queued)
	e.writer.entries.Put(e)
	return err
}

// Final waits for the final outcome, however long it takes; see Wait. It is ErrPending only if the
// Writer was closed before the store could answer.
func (e *Entry) Final() error {
	<-e.done
	return e.end()
}

func (e *Entry) finish(err error) {
	e.err = err
	e.done <- struct{}{}
}

func finishAll(batch []*Entry, err error) {
	for _, e := range batch {
		e.finish(err)
	}
}

// finishRefused finishes the entries of a batch that are refused and returns the
// others.
func finishRefused(batch []*Entry, refusal func(*Entry) error) (rest []*Entry) {
	for _, e := range batch {
		if err := refusal(e); err != nil {
			e.finish(err)
		} else {
			rest = append(rest, e)
		}
	}
	return rest
}

// refusalOf returns the store's error for each entry of a batch; nil if the error is not about single
// entries.
func refusalOf(err error, batch []*Entry) func(*Entry) error {
	if taken, ok := errors.AsType[*audit.KeysTakenError](err); ok {
		keys := setOf(taken.Hashes)
		return func(e *Entry) error {
			if e.check != nil && e.check.Action.IdempotencyKey != "" && keys[e.check.KeyHash()] {
				return ErrKeyTaken
			}
			return nil
		}
	}
	if reported, ok := errors.AsType[*audit.ReportedError](err); ok {
		checks, late := setOf(reported.CheckIDs), setOf(reported.Late)
		unread := unreadBy(batch, checks)
		return func(e *Entry) error {
			for o := range e.outcomes {
				switch {
				case late[o.CheckID]:
					return ErrLate
				case checks[o.CheckID], o.Unread && unread[o.KeyID]:
					return ErrReported
				}
			}
			return nil
		}
	}
	if moved, ok := errors.AsType[*audit.PaymentsMovedError](err); ok {
		payments := setOf(moved.Hashes)
		return func(e *Entry) error {
			for change := range e.payments {
				if payments[change.Hash()] {
					return ErrPaymentMoved
				}
			}
			return nil
		}
	}
	if unapproved, ok := errors.AsType[*audit.ApprovalsError](err); ok {
		return func(e *Entry) error {
			if refused := unapproved.Refused[e.id()]; refused != nil {
				return refused
			}
			return nil
		}
	}
	return nil
}

// unreadBy returns the API keys of refused unread redemptions. The store may name one at a time, so all of
// a key are refused with it: else the commit would be made again for each (F136).
func unreadBy(batch []*Entry, refused map[spend.ID]bool) map[string]bool {
	keys := make(map[string]bool)
	for _, e := range batch {
		if e.outcome != nil && e.outcome.Unread && refused[e.outcome.CheckID] {
			keys[e.outcome.KeyID] = true
		}
	}
	return keys
}

func setOf[K comparable](keys []K) map[K]bool {
	set := make(map[K]bool, len(keys))
	for _, k := range keys {
		set[k] = true
	}
	return set
}
