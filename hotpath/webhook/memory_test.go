package webhook

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
)

// memory is an audit.Webhooks in this process, without the feed's head. It is fast enough for days
// of polls.
type memory struct {
	mu         sync.Mutex
	webhooks   map[spend.ID]*webhook
	deliveries []audit.Delivery
	changes    []audit.Change // of webhooks
}

func (m *memory) record(kind audit.ChangeKind, w *audit.Webhook, by audit.Actor) {
	m.changes = append(m.changes, audit.ChangeOfWebhook(kind, w, int64(len(m.changes))+1, by, time.Now()))
}

// ended returns the error of a call whose context has ended.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", audit.ErrUnavailable, err)
	}
	return nil
}

// webhook is one in memory, with what deliveries change.
type webhook struct {
	audit.Webhook
	secret, previous audit.Secret
	previousUntil    time.Time
	cursor           int64
	failures         int
	resumeAt         time.Time
	holder           spend.ID
	heldUntil        time.Time
	retries          map[int64]retry
}

type retry struct {
	audit.WebhookRetry
	since time.Time
}

func (w *webhook) move(seen audit.WebhookSeen) {
	if slices.Equal(seen.EventTypes, w.EventTypes) {
		w.cursor = max(w.cursor, seen.Cursor)
	}
}

func (m *memory) CreateWebhook(ctx context.Context, by audit.Actor, w *audit.Webhook, secret audit.Secret, cursor int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ended(ctx); err != nil {
		return err
	}
	if len(m.webhooks) >= audit.MaxWebhooks {
		return audit.ErrWebhooksFull
	}
	w.SecretSum = secret.Sum()
	m.webhooks[w.ID] = &webhook{Webhook: *w, secret: secret, cursor: cursor, resumeAt: time.Now(), retries: make(map[int64]retry)}
	m.record(audit.WebhookCreated, w, by)
	return nil
}

func (m *memory) UpdateWebhook(ctx context.Context, by audit.Actor, id spend.ID, change audit.WebhookChange) (*audit.Webhook, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.webhooks[id]
	if w == nil {
		return nil, audit.ErrNotFound
	}
	now := time.Now()
	change.Apply(&w.Webhook)
	if change.Secret != "" {
		w.previous, w.previousUntil, w.secret = w.secret, now.Add(audit.KeepPreviousSecret), change.Secret
	}
	if change.Active != nil && *change.Active {
		w.failures, w.resumeAt = 0, now
	}
	m.record(audit.WebhookChanged, &w.Webhook, by)
	changed := w.Webhook
	return &changed, ended(ctx)
}

func (m *memory) DeleteWebhook(ctx context.Context, by audit.Actor, id spend.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.webhooks[id]
	if w == nil {
		return audit.ErrNotFound
	}
	delete(m.webhooks, id)
	m.record(audit.WebhookDeleted, &w.Webhook, by)
	return ended(ctx)
}

func (m *memory) Webhook(ctx context.Context, id spend.ID) (*audit.Webhook, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.webhooks[id]
	if w == nil {
		return nil, audit.ErrNotFound
	}
	found := w.Webhook
	return &found, ended(ctx)
}

func (m *memory) ListWebhooks(ctx context.Context) (all []audit.Webhook, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.webhooks {
		all = append(all, w.Webhook)
	}
	slices.SortFunc(all, func(a, b audit.Webhook) int { return slices.Compare(b.ID[:], a.ID[:]) })
	return all, ended(ctx)
}

func (m *memory) LeaseWebhooks(
	ctx context.Context, holder spend.ID, serving []spend.ID, lease time.Duration,
) (leases audit.WebhookLeases, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for id, w := range m.webhooks {
		if !w.Active {
			leases.Disabled++
			continue
		}
		leases.Active++
		leases.Waiting += len(w.retries)
		for _, r := range w.retries {
			if !r.DueAt.After(now) {
				leases.Due = append(leases.Due, id)
				break
			}
		}
		if !slices.Contains(serving, id) && (w.holder == holder || !w.heldUntil.After(now)) {
			w.holder, w.heldUntil = holder, now.Add(lease)
			leases.Taken = append(leases.Taken, id)
		}
	}
	return leases, ended(ctx)
}

// held returns a webhook that the node holds, with mu held.
func (m *memory) held(holder, id spend.ID) (*webhook, error) {
	if w := m.webhooks[id]; w != nil && w.holder == holder && w.heldUntil.After(time.Now()) {
		return w, nil
	}
	return nil, audit.ErrNotFound
}

func (m *memory) HoldWebhook(
	ctx context.Context, holder, id spend.ID, seen audit.WebhookSeen, lease time.Duration,
) (*audit.WebhookTask, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, err := m.held(holder, id)
	if err != nil || !w.Active {
		return nil, audit.ErrNotFound
	}
	now := time.Now()
	w.heldUntil = now.Add(lease)
	w.move(seen)
	t := &audit.WebhookTask{
		Webhook: w.Webhook, Secrets: []audit.Secret{w.secret}, Now: now, Cursor: w.cursor, Failures: w.failures, ResumeAt: w.resumeAt,
	}
	if w.previous != "" && w.previousUntil.After(now) {
		t.Secrets = append(t.Secrets, w.previous)
	}
	for _, r := range w.retries {
		t.Retries = append(t.Retries, r.WebhookRetry)
		if t.OldestAt.IsZero() || r.since.Before(t.OldestAt) {
			t.OldestAt = r.since.UTC()
		}
	}
	slices.SortFunc(t.Retries, func(a, b audit.WebhookRetry) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.Sequence, b.Sequence))
	})
	t.Retries = t.Retries[:min(len(t.Retries), audit.MaxInFlight)]
	return t, ended(ctx)
}

func (m *memory) RecordDelivery(ctx context.Context, holder spend.ID, r audit.DeliveryResult) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, err := m.held(holder, r.WebhookID)
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	if r.RetryIn > 0 {
		r.NextAt = now.Add(r.RetryIn)
	}
	m.deliveries = append(m.deliveries, r.Delivery)
	old, present := w.retries[r.Sequence]
	same := r.Retry != nil && present && old.DueAt.Equal(r.Retry.DueAt)
	switch {
	case r.Retry == nil && r.RetryIn > 0 && !present:
		w.retries[r.Sequence] = retry{audit.WebhookRetry{Sequence: r.Sequence, Attempts: r.Attempt, DueAt: r.NextAt}, r.EventAt}
	case same && r.RetryIn > 0:
		w.retries[r.Sequence] = retry{audit.WebhookRetry{Sequence: r.Sequence, Attempts: r.Attempt, DueAt: r.NextAt}, old.since}
	case same:
		delete(w.retries, r.Sequence)
	}
	if r.Over {
		w.hurry(now)
	}
	w.failures++
	if r.Error == "" {
		w.failures = 0
	}
	w.resumeAt = now.Add(r.Pause)
	w.move(r.Seen)
	return ended(ctx)
}

// hurry makes all retries due that are not.
func (w *webhook) hurry(now time.Time) {
	for n, r := range w.retries {
		if r.DueAt.After(now) {
			r.DueAt = now
			w.retries[n] = r
		}
	}
}

func (m *memory) RetryWebhook(ctx context.Context, id spend.ID) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.webhooks[id]
	if w == nil {
		return 0, audit.ErrNotFound
	}
	w.failures, w.resumeAt = 0, time.Now()
	w.hurry(time.Now())
	return len(w.retries), ended(ctx)
}

func (m *memory) ReleaseWebhooks(ctx context.Context, holder spend.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for w := range maps.Values(m.webhooks) {
		if w.holder == holder {
			w.holder, w.heldUntil = spend.ID{}, time.Time{}
		}
	}
	return ended(ctx)
}

func (m *memory) Deliveries(ctx context.Context, q audit.DeliveryQuery) (page []audit.Delivery, more bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.deliveries {
		if d.WebhookID == q.WebhookID && (d.Error != "" || !q.Failed) && (q.Before.IsZero() || slices.Compare(d.ID[:], q.Before[:]) < 0) {
			page = append(page, d)
		}
	}
	slices.SortFunc(page, func(a, b audit.Delivery) int { return slices.Compare(b.ID[:], a.ID[:]) })
	page, more = audit.Cut(page, q.Limit)
	return page, more, ended(ctx)
}

func (m *memory) ReplayDelivery(ctx context.Context, webhookID, deliveryID spend.ID) (*audit.Delivery, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.deliveries, func(d audit.Delivery) bool { return d.ID == deliveryID && d.WebhookID == webhookID })
	w := m.webhooks[webhookID]
	if i < 0 || w == nil {
		return nil, audit.ErrNotFound
	}
	d, now := m.deliveries[i], time.Now()
	since := now
	if old, present := w.retries[d.Sequence]; present {
		since = old.since
	}
	w.retries[d.Sequence] = retry{audit.WebhookRetry{Sequence: d.Sequence, DueAt: now}, since}
	return &d, ended(ctx)
}

// subject is memory as the suite of all stores tests it.
type subject struct {
	unused
	*memory
}

type unused struct{ audit.Store } // nil: only webhooks and their changes are tested

func (s subject) Changes(context.Context, audit.ChangeQuery) ([]audit.Change, error) {
	return s.changes, nil
}

func (s subject) Tidy(_ context.Context, now time.Time) error {
	kept := audit.FirstID(now.Add(-audit.KeepDeliveries).UnixMilli())
	s.deliveries = slices.DeleteFunc(s.deliveries, func(d audit.Delivery) bool { return slices.Compare(d.ID[:], kept[:]) < 0 })
	return nil
}

// TestMemory tests it against the contract of all stores.
func TestMemory(t *testing.T) {
	audittest.RunWebhooks(t, func(*testing.T) audittest.Subject {
		return audittest.Subject{Store: subject{memory: &memory{webhooks: make(map[spend.ID]*webhook)}}}
	})
}
