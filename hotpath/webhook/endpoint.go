package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// pageSize is how many events are read at once.
const pageSize = audit.MaxInFlight

// endpoint is a webhook whose lease this node holds.
type endpoint struct {
	*Worker
	id     spend.ID
	wake   chan struct{} // there may be new events, or a replay
	until  time.Time     // how long the lease is, at least
	oldest atomic.Int64  // time of the event that waits longest, in Unix milliseconds; 0 if none waits

	cursor atomic.Int64 // position in the feed when the lease was renewed

	page []audit.Event     // that were read and not tried
	seen audit.WebhookSeen // how far the feed was read, without the page
	next int64             // where the page ends
	more bool              // there are more events after it

	ahead  []audit.Event // urgent events, which are tried before earlier ones
	urgent int64         // up to which urgent events were tried
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
	e.cursor.Store(task.Cursor)
	if !slices.Equal(e.seen.EventTypes, task.EventTypes) || e.seen.Cursor != task.Cursor {
		e.page, e.seen = nil, audit.WebhookSeen{Cursor: task.Cursor, EventTypes: task.EventTypes}
		e.ahead, e.urgent = nil, 0
	}
	return task, nil
}

// step makes the attempts that are due, or waits until one is.
func (e *endpoint) step(ctx context.Context, task *audit.WebhookTask) error {
	if len(e.page) == 0 {
		if err := e.read(ctx); err != nil {
			return err
		}
	}
	e.noteOldest(task)
	most := e.InFlight
	if task.Failures > 0 {
		most = 1 // a receiver that fails is asked by one attempt at a time
	}
	wait := holdEvery
	pause := task.ResumeAt.Sub(task.Now)
	if pause <= 0 {
		if err := e.lookAhead(ctx, most); err != nil {
			return err
		}
	}
	if first := task.FirstRetry(); first != nil && (pause > 0 || len(e.ahead) == 0) {
		if due := first.DueAt.Sub(task.Now); due > 0 {
			wait = min(wait, due)
		} else {
			return e.retry(ctx, task, most)
		}
	}
	switch {
	case len(e.page) > 0 && pause > 0:
		wait = min(wait, pause)
	case len(e.page) > 0:
		return e.deliver(ctx, task, e.news(most))
	case e.more:
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
	if err == nil && e.seen.Cursor == 0 && page.Floor > 0 {
		err = &audit.EventsRemovedError{UpTo: page.Floor} // a reader from the beginning is not refused
	}
	if removed, gone := errors.AsType[*audit.EventsRemovedError](err); gone {
		// The webhook was disabled for longer than events are kept.
		e.Logger.Warn("events were removed that a webhook has not had", "webhook_id", e.id.Text(spend.PrefixWebhook),
			"after", e.seen.Cursor, "up_to", removed.UpTo)
		e.seen.Cursor, e.more = removed.UpTo, true
		return nil
	}
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

// isUrgent reports whether somebody waits for such an event.
func isUrgent(t audit.EventType) bool {
	return strings.HasPrefix(string(t), "approval.") || t == audit.EventDraftSubmitted
}

// lookAhead reads urgent events that come after more than is tried at once.
func (e *endpoint) lookAhead(ctx context.Context, most int) error {
	if len(e.ahead) > 0 || !e.more && len(e.page) <= most {
		return nil
	}
	types := slices.DeleteFunc(slices.Clone(e.seen.EventTypes), func(t audit.EventType) bool { return !isUrgent(t) })
	if len(types) == 0 || len(types) == len(e.seen.EventTypes) {
		return nil
	}
	var page audit.EventPage
	err := e.ask(ctx, func(ctx context.Context) (err error) {
		page, err = e.Events(ctx, audit.EventQuery{After: max(e.urgent, e.seen.Cursor), Types: types, Limit: most})
		return err
	})
	if err != nil {
		return err
	}
	if e.ahead = page.Events; len(e.ahead) == 0 {
		e.urgent = page.Next
	}
	return nil
}

// sending is an event that is sent, and the result.
type sending struct {
	event         audit.Event
	retry         *audit.WebhookRetry // the retry that the attempt is; nil of a new event
	ahead         bool                // earlier events are still to be tried
	result        audit.DeliveryResult
	gone, aborted bool
}

// news returns new events to be tried, at least one: urgent ones first.
func (e *endpoint) news(most int) (tries []sending) {
	for i := range e.ahead[:min(most, len(e.ahead))] {
		tries = append(tries, sending{event: e.ahead[i], ahead: true})
	}
	for i := range e.page {
		at, ahead := e.page[i].Sequence, len(e.ahead)
		missed := isUrgent(e.page[i].Type) && ahead > 0 && at > e.ahead[ahead-1].Sequence // it is read ahead next, and no cursor passes it
		if len(tries) == most || missed {
			break
		}
		// One that was tried ahead, or is about to be, is sent once.
		if !isUrgent(e.page[i].Type) || at > e.urgent && (ahead == 0 || at < e.ahead[0].Sequence) {
			tries = append(tries, sending{event: e.page[i]})
		}
	}
	if len(tries) == 0 { // all were tried ahead
		e.advance(e.page[len(e.page)-1].Sequence)
	}
	return tries
}

// retry tries events again that are due.
func (e *endpoint) retry(ctx context.Context, task *audit.WebhookTask, most int) error {
	var tries []sending
	for i := range task.Retries {
		retry := &task.Retries[i]
		if len(tries) == most || retry.DueAt.After(task.Now) {
			break
		}
		var page audit.EventPage
		err := e.ask(ctx, func(ctx context.Context) (err error) {
			page, err = e.Events(ctx, audit.EventQuery{After: retry.Sequence - 1, Limit: 1})
			return err
		})
		if _, gone := errors.AsType[*audit.EventsRemovedError](err); gone {
			continue // the next task does not have it
		}
		if err != nil {
			return err
		}
		if len(page.Events) == 0 || page.Events[0].Sequence != retry.Sequence {
			return fmt.Errorf("event %d is not in the feed", retry.Sequence)
		}
		tries = append(tries, sending{event: page.Events[0], retry: retry})
	}
	if len(tries) == 0 {
		e.wait(ctx, time.Second)
		return nil
	}
	return e.deliver(ctx, task, tries)
}

// deliver makes attempts concurrently, and records them in their order: the cursor passes no
// unrecorded attempt.
func (e *endpoint) deliver(ctx context.Context, task *audit.WebhookTask, tries []sending) error {
	if time.Until(e.until) < attemptTimeout {
		return nil // the lease could end before the attempts: renew it first
	}
	var sent sync.WaitGroup
	for i := range tries {
		t := &tries[i]
		t.result = e.resultOf(t)
		sent.Go(func() { t.gone, t.aborted = e.attempt(ctx, task, &t.event, &t.result) })
	}
	sent.Wait()
	failures, gone := task.Failures, false
	for i := range tries {
		t := &tries[i]
		if t.aborted {
			break // the attempt says nothing about the receiver, and is made again
		}
		follow(&t.result, failures)
		if err := e.record(t.result); err != nil {
			return err
		}
		if failures++; t.result.Error == "" {
			failures = 0
		}
		switch {
		case t.ahead:
			e.ahead, e.urgent = e.ahead[1:], t.event.Sequence
		case t.retry == nil:
			e.advance(t.event.Sequence)
		}
		e.report(&t.result, t.gone)
		gone = gone || t.gone
	}
	if gone {
		return e.disable()
	}
	return nil
}

// resultOf returns the result of an attempt that is not made yet.
func (e *endpoint) resultOf(t *sending) audit.DeliveryResult {
	r := audit.DeliveryResult{
		Delivery: audit.Delivery{
			ID: spend.NewID(time.Now()), WebhookID: e.id, Sequence: t.event.Sequence, EventID: t.event.ID, EventType: t.event.Type, Attempt: 1,
		},
		EventAt: t.event.At, Retry: t.retry,
	}
	switch {
	case t.retry != nil:
		r.Attempt += t.retry.Attempts
	case t.ahead:
		r.Seen = e.seen
	default:
		r.Seen = audit.WebhookSeen{Cursor: t.event.Sequence, EventTypes: e.seen.EventTypes}
	}
	return r
}

// advance takes the events up to one that was tried from the page.
func (e *endpoint) advance(sequence int64) {
	for len(e.page) > 0 && e.page[0].Sequence <= sequence {
		e.page = e.page[1:]
	}
	if e.seen.Cursor = sequence; len(e.page) == 0 {
		e.page, e.seen.Cursor = nil, max(sequence, e.next)
	}
}

// record records an attempt. A delivered event that cannot be recorded is delivered again, so the
// store is asked until the lease ends.
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
	e.Logger.Log(context.Background(), level, "webhook "+result, "webhook_id", e.id.Text(spend.PrefixWebhook), "event_id",
		r.EventID.Text(spend.PrefixEvent),
		"attempt", r.Attempt, "status_code", r.StatusCode, "error", r.Error)
}

// schedule returns how long after its failure an attempt is followed by the next:
// the schedule of Standard Webhooks.
func schedule() []time.Duration {
	return []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour,
		24 * time.Hour,
	}
}

const (
	firstPause = time.Second
	mostPause  = time.Minute
	// outage is the number of consecutive failures after which the next success has all waiting events
	// tried. A single event that the receiver always refuses is no outage.
	outage = 2
)

// follow decides the next step after an attempt, after so many consecutive failures. An attempt that
// disabled the webhook is repeated once the webhook is active again.
func follow(r *audit.DeliveryResult, failures int) {
	if r.Error == "" {
		r.Over = failures >= outage
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
