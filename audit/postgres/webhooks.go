package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// CreateWebhook implements audit.Webhooks.
func (s *Store) CreateWebhook(ctx context.Context, by audit.Actor, w *audit.Webhook, secret audit.Secret, cursor int64) error {
	err := s.control(ctx, "cannot create webhook "+w.ID.Text(spend.PrefixWebhook), nil,
		byActor("SELECT create_webhook($1, $2, $3, $4, $5, $6, $7, $8, ", by,
			w.ID[:], w.URL, audit.EventTypesText(w.EventTypes), w.Active, string(secret), w.CreatedAt.UnixMilli(), cursor, audit.MaxWebhooks))
	if err == nil {
		w.SecretSum = secret.Sum()
	}
	return err
}

const webhookColumns = "id, url, event_types, active, secret_sha256, created_at"

// webhookTargets returns the scan targets of webhookColumns.
func webhookTargets(w *audit.Webhook) []any {
	return []any{
		pg.UUID(&w.ID), &w.URL, pg.Parse(&w.EventTypes, audit.ParseEventTypes), &w.Active, pg.Bytea(&w.SecretSum), pg.UTC(&w.CreatedAt),
	}
}

// UpdateWebhook implements audit.Webhooks.
func (s *Store) UpdateWebhook(ctx context.Context, by audit.Actor, id spend.ID, change audit.WebhookChange) (*audit.Webhook, error) {
	var types any // null leaves the types unchanged
	if change.EventTypes != nil {
		types = audit.EventTypesText(change.EventTypes)
	}
	var w audit.Webhook
	err := s.control(ctx, "cannot update webhook "+id.Text(spend.PrefixWebhook), webhookTargets(&w),
		byActor("SELECT "+webhookColumns+" FROM update_webhook($1, $2, $3, $4, $5, $6, ", by,
			id[:], pointed(change.URL), types, pointed(change.Active), orNull(string(change.Secret)), audit.KeepPreviousSecret.Milliseconds()))
	return orNil(w, err)
}

// DeleteWebhook implements audit.Webhooks.
func (s *Store) DeleteWebhook(ctx context.Context, by audit.Actor, id spend.ID) error {
	doing, deleted := "cannot delete webhook "+id.Text(spend.PrefixWebhook), false
	err := s.control(ctx, doing, []any{&deleted}, byActor("SELECT delete_webhook($1, ", by, id[:]))
	if err == nil && !deleted {
		err = fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	return err
}

// dueFirst selects the retries of webhook $2 that are due first.
const dueFirst = "FROM webhook_retries AS r WHERE r.webhook_id = $2 AND r.sequence > events_floor() ORDER BY r.due_at, r.sequence LIMIT $6"

// HoldWebhook implements audit.Webhooks.
func (s *Store) HoldWebhook(
	ctx context.Context, holder, id spend.ID, seen audit.WebhookSeen, lease time.Duration,
) (*audit.WebhookTask, error) {
	return orNil(one(ctx, s, "cannot hold a webhook", scanTask, `WITH held AS (
			UPDATE webhook_states AS s SET held_until = now_ms() + $4, cursor = CASE w.event_types
			WHEN $5 THEN greatest(s.cursor, $3) ELSE s.cursor END
			FROM webhooks AS w WHERE s.webhook_id = $2 AND w.id = $2 AND w.active AND s.holder = $1 AND s.held_until > now_ms()
			RETURNING s.*)
		SELECT `+webhookColumns+`, h.secret, coalesce(h.previous_secret, ''), now_ms(), h.previous_until, h.cursor, h.failures,
			h.resume_at,
			ARRAY(SELECT r.sequence `+dueFirst+`), ARRAY(SELECT r.attempts `+dueFirst+`), ARRAY(SELECT r.due_at `+dueFirst+`),
			(SELECT min(o.since) FROM webhook_retries AS o WHERE o.webhook_id = $2 AND o.sequence > events_floor())
		FROM held AS h JOIN webhooks AS w ON w.id = h.webhook_id`,
		[16]byte(holder), [16]byte(id), seen.Cursor, lease.Milliseconds(), audit.EventTypesText(seen.EventTypes), audit.MaxInFlight))
}

func scanTask(row pgx.CollectableRow) (t audit.WebhookTask, err error) {
	var secret, previous string
	var previousUntil time.Time
	var sequences []int64
	var attempts []int
	var due []int64
	err = row.Scan(append(webhookTargets(&t.Webhook), &secret, &previous, pg.UTC(&t.Now), pg.UTC(&previousUntil), &t.Cursor, &t.Failures,
		pg.UTC(&t.ResumeAt),
		&sequences, &attempts, &due, pg.UTC(&t.OldestAt))...)
	t.Secrets = []audit.Secret{audit.Secret(secret)}
	if previousUntil.After(t.Now) {
		t.Secrets = append(t.Secrets, audit.Secret(previous))
	}
	for i := range sequences {
		t.Retries = append(t.Retries, audit.WebhookRetry{Sequence: sequences[i], Attempts: attempts[i], DueAt: fromMilli(due[i])})
	}
	return t, err
}

// RecordDelivery implements audit.Webhooks.
func (s *Store) RecordDelivery(ctx context.Context, holder spend.ID, r audit.DeliveryResult) error {
	const doing = "cannot record a delivery"
	var retried *int64
	if r.Retry != nil {
		retried = new(r.Retry.DueAt.UnixMilli())
	}
	var retryMS *int64
	if r.RetryIn > 0 {
		retryMS = new(r.RetryIn.Milliseconds())
	}
	held, err := one(ctx, s, doing, pgx.RowTo[bool], // may be repeated, like a read
		`SELECT record_delivery($1, ROW($2, $3, $4, $5, $6, $7, $8, $9, $10, NULL)::webhook_deliveries, $11, $12, $13, $14, $15, $16, $17)`,
		[16]byte(holder), [16]byte(r.ID), [16]byte(r.WebhookID), r.Sequence, [16]byte(r.EventID), string(r.EventType), r.Attempt,
		r.Duration.Milliseconds(), r.StatusCode, r.Error, r.EventAt.UnixMilli(), retried, retryMS, r.Pause.Milliseconds(),
		r.Seen.Cursor, audit.EventTypesText(r.Seen.EventTypes), r.Over)
	if err == nil && !held {
		err = fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	return err
}
