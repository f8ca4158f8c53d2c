package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
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

// UpdateWebhook implements audit.Webhooks.
func (s *Store) UpdateWebhook(ctx context.Context, by audit.Actor, id spend.ID, change audit.WebhookChange) (*audit.Webhook, error) {
	var types any // null leaves the types unchanged
	if change.EventTypes != nil {
		types = audit.EventTypesText(change.EventTypes)
	}
	var w audit.Webhook
	err := s.control(ctx, "cannot update webhook "+id.Text(spend.PrefixWebhook), sqlstore.WebhookTargets(&w),
		byActor("SELECT "+sqlstore.WebhookColumns+" FROM update_webhook($1, $2, $3, $4, $5, $6, ", by,
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
