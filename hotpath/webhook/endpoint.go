package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// pageSize is how many events are read at once.
const pageSize = 20

// endpoint is a webhook that this node holds.
type endpoint struct {
	*Worker
	id     spend.ID
	wake   chan struct{} // there may be new events, or a replay
	until  time.Time     // how long the lease is, at least
	oldest atomic.Int64  // when the event happened that waits longest, in Unix milliseconds; 0 when none waits

	page []audit.Event     // that were read and not tried
	seen audit.WebhookSeen // how far the feed was read, without the page
	next int64             // where the page ends
	more bool              // there is more behind it
}

// serve delivers until the lease or the context ends.
func (e *endpoint) serve(ctx context.Context) {
	for ctx.Err() == nil {
		task, err := e.hold(ctx)
		if err == nil {
			err = e.step(ctx, task)
		}
		switch {
		case errors.Is(err, audit.ErrNotFound):
			return // another node holds it, or it is disabled or deleted
		case err != nil:
			e.complain(ctx, "cannot deliver to a webhook", fmt.Errorf("%s: %w", e.id.Text(spend.PrefixWebhook), err))
			e.wait(ctx, time.Second)
		}
	}
}

// hold renews the lease and stores how far the feed was read.
func (e *endpoint) hold(ctx context.Context) (task *audit.WebhookTask, err error) {
	began := time.Now()
	err = e.ask(ctx, func(ctx context.Context) (err error) {
		task, err = e.Store.HoldWebhook(ctx, e.holder, e.id, e.seen, leaseFor)
		return err
	})
	if err != nil {
		return nil, err
	}
	e.until = began.Add(leaseFor)
	if !slices.Equal(e.seen.EventTypes, task.EventTypes) || e.seen.Cursor != task.Cursor {
		e.page, e.seen = nil, audit.WebhookSeen{Cursor: task.Cursor, EventTypes: task.EventTypes}
	}
	return task, nil
}

// step makes the attempt that is due, or waits until one is.
func (e *endpoint) step(ctx context.Context, task *audit.WebhookTask) error {
	if len(e.page) == 0 {
		if err := e.read(ctx); err != nil {
			return err
		}
	}
	e.noteOldest(task)
	wait := holdEvery
	if task.Retry != nil {
		if due := task.Retry.DueAt.Sub(task.Now); due > 0 {
			wait = min(wait, due)
		} else {
			return e.retry(ctx, task)
		}
	}
	if len(e.page) > 0 {
		if pause := task.ResumeAt.Sub(task.Now); pause > 0 {
			wait = min(wait, pause)
		} else {
			return e.deliver(ctx, task, e.page[0], nil)
		}
	} else if e.more {
		return nil
	}
	e.wait(ctx, wait)
	return nil
}

// wait waits, for new events and replays unless some events wait already.
func (e *endpoint) wait(ctx context.Context, d time.Duration) {
	wake := e.wake
	if len(e.page) > 0 {
		wake = nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-wake:
	}
}

// read reads the next page, if there may be one.
func (e *endpoint) read(ctx context.Context) error {
	var page audit.EventPage
	err := e.ask(ctx, func(ctx context.Context) (err error) {
		page, err = e.Events(ctx, audit.EventQuery{After: e.seen.Cursor, Types: e.seen.EventTypes, Limit: pageSize})
		return err
	})
	if err != nil {
		return err
	}
	e.page, e.next, e.more = page.Events, page.Next, page.More
	if len(e.page) == 0 {
		e.seen.Cursor = max(e.seen.Cursor, e.next)
	}
	return nil
}

// noteOldest notes when the event happened that waits longest.
func (e *endpoint) noteOldest(task *audit.WebhookTask) {
	oldest := task.OldestAt
	if len(e.page) > 0 && (oldest.IsZero() || e.page[0].At.Before(oldest)) {
		oldest = e.page[0].At
	}
	if oldest.IsZero() {
		e.oldest.Store(0)
	} else {
		e.oldest.Store(oldest.UnixMilli())
	}
}

// retry tries an event again.
func (e *endpoint) retry(ctx context.Context, task *audit.WebhookTask) error {
	var page audit.EventPage
	err := e.ask(ctx, func(ctx context.Context) (err error) {
		page, err = e.Events(ctx, audit.EventQuery{After: task.Retry.Sequence - 1, Limit: 1})
		return err
	})
	if err != nil {
		return err
	}
	if len(page.Events) == 0 || page.Events[0].Sequence != task.Retry.Sequence {
		return fmt.Errorf("event %d is not in the feed", task.Retry.Sequence)
	}
	return e.deliver(ctx, task, page.Events[0], task.Retry)
}

// deliver makes an attempt and records it.
func (e *endpoint) deliver(ctx context.Context, task *audit.WebhookTask, event audit.Event, retry *audit.WebhookRetry) error {
	if time.Until(e.until) < attemptTimeout {
		return nil // the lease could end before the attempt: renew it first
	}
	r := audit.DeliveryResult{
		Delivery: audit.Delivery{
			ID: spend.NewID(time.Now()), WebhookID: e.id, Sequence: event.Sequence, EventID: event.ID, EventType: event.Type, Attempt: 1,
		},
		EventAt: event.At, Retry: retry,
	}
	if retry == nil {
		r.Seen = audit.WebhookSeen{Cursor: event.Sequence, EventTypes: e.seen.EventTypes}
	} else {
		r.Attempt += retry.Attempts
	}
	gone, aborted := e.attempt(ctx, task, &event, &r)
	if aborted {
		return nil // it says nothing of the receiver, and is made again
	}
	follow(&r, task.Failures)
	if err := e.record(r); err != nil {
		return err
	}
	if retry == nil {
		e.advance(event.Sequence)
	}
	e.report(&r, gone)
	if gone {
		return e.disable()
	}
	return nil
}

// advance takes the event that was tried from the page.
func (e *endpoint) advance(sequence int64) {
	e.page, e.seen.Cursor = e.page[1:], sequence
	if len(e.page) == 0 {
		e.page, e.seen.Cursor = nil, max(sequence, e.next)
	}
}

// record records an attempt. What was delivered and cannot be recorded is delivered
// again, so the store is asked until the lease ends.
func (e *endpoint) record(r audit.DeliveryResult) error {
	for {
		err := e.ask(context.Background(), func(ctx context.Context) error { return e.Store.RecordDelivery(ctx, e.holder, r) })
		if err == nil || errors.Is(err, audit.ErrNotFound) || time.Until(e.until) < attemptTimeout {
			return err
		}
		time.Sleep(time.Second)
	}
}

// disable ends deliveries to an endpoint that is gone. Its event stays.
func (e *endpoint) disable() error {
	return e.ask(context.Background(), func(ctx context.Context) error {
		_, err := e.Store.UpdateWebhook(ctx, audit.Actor{Principal: "webhook delivery"}, e.id, audit.WebhookChange{Active: new(false)})
		return err
	})
}

func (e *endpoint) report(r *audit.DeliveryResult, gone bool) {
	result, level := "delivered", slog.LevelDebug
	switch {
	case gone:
		result, level = "gone", slog.LevelWarn
	case r.Error != "" && r.RetryIn == 0:
		result, level = "given_up", slog.LevelWarn
	case r.Error != "":
		result = "failed"
	}
	e.metrics.deliveries.WithLabelValues(result).Inc()
	e.Logger.Log(context.Background(), level, "webhook "+result, "webhook_id", e.id.Text(spend.PrefixWebhook), "event_id", r.EventID.Text(spend.PrefixEvent),
		"attempt", r.Attempt, "status_code", r.StatusCode, "error", r.Error)
}

// schedule returns how long after its failure an attempt is followed by the next:
// that of Standard Webhooks.
func schedule() []time.Duration {
	return []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
}

const (
	firstPause = time.Second
	mostPause  = time.Minute
)

// follow decides what follows from an attempt, after so many failures in a row. One
// that disabled the webhook is followed by another once that is active again.
func follow(r *audit.DeliveryResult, failures int) {
	if r.Error == "" {
		return
	}
	r.Pause = mostPause
	if failures < 6 {
		r.Pause = min(firstPause<<failures, mostPause)
	}
	if waits := schedule(); r.Attempt <= len(waits) {
		wait := waits[r.Attempt-1]
		r.RetryIn = wait + rand.N(wait/10) // endpoints that failed together come back one by one
	}
}
