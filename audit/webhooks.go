package audit

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

const (
	// MaxWebhooks is how many there may be: each is served by a goroutine of one
	// node.
	MaxWebhooks = 100
	// KeepPreviousSecret is how long the secret before a rotation still signs.
	KeepPreviousSecret = 24 * time.Hour
	// MaxInFlight is how many attempts to deliver to a webhook are made at once, at most.
	MaxInFlight = 64
	// MaxWaiting is up to where events that wait are counted.
	MaxWaiting = 10_000
	// KeepDeliveries is how long attempts are listed: longer than they go on.
	KeepDeliveries = 7 * 24 * time.Hour
)

// Webhooks are the endpoints that events are delivered to. A node delivers to those whose leases it
// holds. A lease ends by the store's clock, so a killed node does not hold it for long.
type Webhooks interface {
	// CreateWebhook stores a new webhook, to which events after the cursor are
	// delivered. It raises the generation and records the change, as do the next two.
	CreateWebhook(ctx context.Context, by Actor, w *Webhook, secret Secret, cursor int64) error
	// UpdateWebhook changes the fields that are not nil and returns the record, or ErrNotFound.
	UpdateWebhook(ctx context.Context, by Actor, id spend.ID, change WebhookChange) (*Webhook, error)
	// DeleteWebhook deletes a webhook and all that was to be delivered to it, or
	// fails with ErrNotFound.
	DeleteWebhook(ctx context.Context, by Actor, id spend.ID) error
	// Webhook returns the record, or ErrNotFound.
	Webhook(ctx context.Context, id spend.ID) (*Webhook, error)
	// ListWebhooks returns all, newest first.
	ListWebhooks(ctx context.Context) ([]Webhook, error)

	// LeaseWebhooks gives the node the leases of active webhooks that no node holds, or that it holds
	// without serving them, and returns those that have work.
	LeaseWebhooks(ctx context.Context, holder spend.ID, serving []spend.ID, lease time.Duration) (WebhookLeases, error)
	// HoldWebhook renews a lease, moves the cursor, and returns the work to be done. It fails with
	// ErrNotFound, and writes nothing, if the node does not hold the lease, or the webhook is not
	// active.
	HoldWebhook(ctx context.Context, holder, id spend.ID, seen WebhookSeen, lease time.Duration) (*WebhookTask, error)
	// RecordDelivery records an attempt and its consequences. A retry that was replaced meanwhile
	// stays. It fails with ErrNotFound, and writes nothing, if the node does not hold the lease.
	RecordDelivery(ctx context.Context, holder spend.ID, r DeliveryResult) error
	// ReleaseWebhooks ends all leases of the node.
	ReleaseWebhooks(ctx context.Context, holder spend.ID) error

	// Deliveries returns a page, newest first.
	Deliveries(ctx context.Context, q DeliveryQuery) (page []Delivery, more bool, err error)
	// ReplayDelivery has the event of an attempt tried again, now and as often as a
	// new one, and returns the attempt, or ErrNotFound, or *EventsRemovedError.
	ReplayDelivery(ctx context.Context, webhookID, deliveryID spend.ID) (*Delivery, error)
	// RetryWebhook has the webhook tried now, with all that waits, and returns how many
	// events that are, or ErrNotFound. How often they were tried stays.
	RetryWebhook(ctx context.Context, id spend.ID) (waiting int, err error)
}

// Webhook is an endpoint that events are delivered to (S52).
type Webhook struct {
	ID         spend.ID
	URL        string
	EventTypes []EventType
	Active     bool
	CreatedAt  time.Time
	SecretSum  spend.Hash // SHA-256 of the secret
}

// WebhookChange is a partial update of a webhook.
type WebhookChange struct {
	URL        *string
	EventTypes []EventType // nil to keep them
	Active     *bool
	Secret     Secret // new; the one before still signs for KeepPreviousSecret
}

// Empty reports whether there is nothing to change.
func (c *WebhookChange) Empty() bool {
	return c.URL == nil && c.EventTypes == nil && c.Active == nil && c.Secret == ""
}

// Apply changes the fields that are not nil.
func (c *WebhookChange) Apply(w *Webhook) {
	if c.URL != nil {
		w.URL = *c.URL
	}
	if c.EventTypes != nil {
		w.EventTypes = slices.Clone(c.EventTypes)
	}
	if c.Active != nil {
		w.Active = *c.Active
	}
	if c.Secret != "" {
		w.SecretSum = c.Secret.Sum()
	}
}

// Secret is the key by which deliveries to a webhook are signed, in plain: HMAC needs it. Printing,
// logging and encoding hide it.
type Secret string

// Sum returns the SHA-256 of the secret, which reveals nothing since the secret is random.
func (s Secret) Sum() spend.Hash { return sha256.Sum256([]byte(s)) }

// String hides the secret.
func (s Secret) String() string { return "(secret)" }

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return `"(secret)"` }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from log handlers.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// WebhookTask is what the node that holds a webhook's lease may deliver to it.
type WebhookTask struct {
	Webhook
	Secrets  []Secret       // that sign
	Now      time.Time      // by the store's clock
	Cursor   int64          // events up to it were tried
	Failures int            // in a row
	ResumeAt time.Time      // when the next new event may be tried
	Retries  []WebhookRetry // that are due first, up to MaxInFlight
	// OldestAt is the time of the event that waits longest for a retry; zero if none waits.
	OldestAt time.Time
}

// FirstRetry is the retry that is due first; nil if none waits.
func (t *WebhookTask) FirstRetry() *WebhookRetry {
	if len(t.Retries) == 0 {
		return nil
	}
	return &t.Retries[0]
}

// WebhookRetry is an event that is to be tried again.
type WebhookRetry struct {
	Sequence int64
	Attempts int // that were made
	DueAt    time.Time
}

// WebhookSeen says how far the feed was read for a webhook: up to the cursor, for events of these
// types. A cursor moves only while the webhook has the same types, so that no event of a type added
// meanwhile is missed, and never back.
type WebhookSeen struct {
	Cursor     int64
	EventTypes []EventType
}

// WebhookLeases are the leases that a node took, and the number of webhooks.
type WebhookLeases struct {
	Taken            []spend.ID
	Active, Disabled int
	Waiting          int // events that wait to be tried again, of active webhooks, counted up to MaxWaiting
	// Due are the webhooks, leased or not, that have an event to be tried again by now.
	Due []spend.ID
}

// Delivery is one attempt to deliver an event. The ID's time is when it was made.
type Delivery struct {
	ID         spend.ID
	WebhookID  spend.ID
	Sequence   int64
	EventID    spend.ID
	EventType  EventType
	Attempt    int // 1, 2, 3
	Duration   time.Duration
	StatusCode int       // 0 when there was no answer
	Error      string    // empty when it was delivered
	NextAt     time.Time // when it is tried again; zero if it is not
}

// DeliveryResult is an attempt and its consequences. If the attempt has an error, the event is tried
// again after RetryIn, or not at all if that is zero.
type DeliveryResult struct {
	Delivery
	EventAt time.Time
	Retry   *WebhookRetry // the retry that this attempt was; nil for a new event
	Seen    WebhookSeen   // the events up to a new event
	RetryIn time.Duration
	Pause   time.Duration // before the next new event is tried
	// Over means that an outage of the receiver is over: all waiting events are tried at once.
	Over bool
}

// DeliveryQuery selects the attempts to deliver to a webhook.
type DeliveryQuery struct {
	WebhookID spend.ID
	Failed    bool     // only deliveries that failed
	Before    spend.ID // only smaller IDs: the position of the cursor
	Limit     int
}

// EventTypesText returns event types as they are stored.
func EventTypesText(types []EventType) string { return jsonText(types) }

// ParseEventTypes is the inverse.
func ParseEventTypes(text string) (types []EventType, err error) {
	if err := json.Unmarshal([]byte(text), &types); err != nil {
		return nil, fmt.Errorf("cannot read event types: %w", err)
	}
	return types, nil
}

// Status returns the member of that name: active or disabled.
func (w *Webhook) Status() string {
	if w.Active {
		return "active"
	}
	return "disabled"
}

// ChangeOfWebhook returns the record of a new, changed or deleted webhook, without
// its head. PostgreSQL makes its own (record_webhook).
func ChangeOfWebhook(kind ChangeKind, w *Webhook, generation int64, by Actor, at time.Time) Change {
	row := chain.EncodeRow(w.ID[:], w.URL, EventTypesText(w.EventTypes), w.Active, w.SecretSum[:], w.CreatedAt, generation)
	details := map[string]any{"url": w.URL, "event_types": w.EventTypes, "status": w.Status()}
	return newChange(Change{
		Seq: generation, Kind: kind, Subject: w.ID.Text(spend.PrefixWebhook), By: by, At: at, Hash: chain.HashWebhook(row),
	}, details)
}
