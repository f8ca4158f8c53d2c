package sqlite

import (
	"context"
	"database/sql"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

const selectWebhooks = "SELECT " + sqlstore.WebhookColumns + " FROM webhooks "

// CreateWebhook implements audit.Webhooks.
func (s *Store) CreateWebhook(ctx context.Context, by audit.Actor, w *audit.Webhook, secret audit.Secret, cursor int64) error {
	stored := *w
	stored.SecretSum, stored.CreatedAt = secret.Sum(), fromMilli(w.CreatedAt.UnixMilli())
	err := s.write(ctx, "cannot create webhook "+w.ID.Text(spend.PrefixWebhook), func(tx *sql.Tx) error {
		var present int
		if err := tx.QueryRow("SELECT count(*) FROM webhooks").Scan(&present); err != nil {
			return err
		}
		if present >= audit.MaxWebhooks {
			return audit.ErrWebhooksFull
		}
		generation, err := raise(tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec("INSERT INTO webhooks (id, url, event_types, active, secret_sha256, created_at, generation) "+
			"VALUES (?, ?, ?, ?, ?, ?, ?)",
			w.ID[:], w.URL, audit.EventTypesText(w.EventTypes), w.Active, stored.SecretSum[:], w.CreatedAt.UnixMilli(), generation)
		if err != nil {
			return err
		}
		_, err = tx.Exec("INSERT INTO webhook_states (webhook_id, secret, cursor, resume_at) VALUES (?, ?, ?, ?)", w.ID[:], string(secret),
			cursor, time.Now().UnixMilli())
		if err != nil {
			return err
		}
		return record(tx, audit.ChangeOfWebhook(audit.WebhookCreated, &stored, generation, by, time.Now()))
	})
	if err == nil {
		w.SecretSum = stored.SecretSum
	}
	return err
}

// UpdateWebhook implements audit.Webhooks.
func (s *Store) UpdateWebhook(ctx context.Context, by audit.Actor, id spend.ID, change audit.WebhookChange) (*audit.Webhook, error) {
	var w audit.Webhook
	err := s.write(ctx, "cannot update webhook "+id.Text(spend.PrefixWebhook), func(tx *sql.Tx) (err error) {
		if w, err = sqlstore.ScanWebhook(rowOf(tx, selectWebhooks+"WHERE id = ?", id[:])); err != nil {
			return err
		}
		return changeWebhook(tx, by, &w, change, time.Now())
	})
	return orNil(w, err)
}

func changeWebhook(tx *sql.Tx, by audit.Actor, w *audit.Webhook, change audit.WebhookChange, now time.Time) error {
	change.Apply(w)
	generation, err := raise(tx)
	if err != nil {
		return err
	}
	_, err = tx.Exec("UPDATE webhooks SET url = ?, event_types = ?, active = ?, secret_sha256 = ?, generation = ? WHERE id = ?",
		w.URL, audit.EventTypesText(w.EventTypes), w.Active, w.SecretSum[:], generation, w.ID[:])
	if err != nil {
		return err
	}
	if change.Secret != "" {
		_, err = tx.Exec("UPDATE webhook_states SET previous_secret = secret, previous_until = ?, secret = ? WHERE webhook_id = ?",
			now.Add(audit.KeepPreviousSecret).UnixMilli(), string(change.Secret), w.ID[:])
	}
	if change.Active != nil && *change.Active && err == nil {
		_, err = tx.Exec("UPDATE webhook_states SET failures = 0, resume_at = ? WHERE webhook_id = ?", now.UnixMilli(), w.ID[:])
	}
	if err != nil {
		return err
	}
	return record(tx, audit.ChangeOfWebhook(audit.WebhookChanged, w, generation, by, now))
}

// DeleteWebhook implements audit.Webhooks.
func (s *Store) DeleteWebhook(ctx context.Context, by audit.Actor, id spend.ID) error {
	return s.write(ctx, "cannot delete webhook "+id.Text(spend.PrefixWebhook), func(tx *sql.Tx) error {
		w, err := sqlstore.ScanWebhook(rowOf(tx, selectWebhooks+"WHERE id = ?", id[:]))
		if err != nil {
			return err
		}
		generation, err := raise(tx)
		if err != nil {
			return err
		}
		if err := record(tx, audit.ChangeOfWebhook(audit.WebhookDeleted, &w, generation, by, time.Now())); err != nil {
			return err
		}
		_, err = tx.Exec("DELETE FROM webhooks WHERE id = ?", id[:])
		return err
	})
}

// RecordDelivery implements audit.Webhooks.
func (s *Store) RecordDelivery(ctx context.Context, holder spend.ID, r audit.DeliveryResult) error {
	return s.write(ctx, "cannot record a delivery", func(tx *sql.Tx) error {
		now := time.Now()
		_, err := scanID(tx.QueryRow("SELECT webhook_id FROM webhook_states WHERE webhook_id = ? AND holder = ? AND held_until > ?",
			r.WebhookID[:], holder[:], now.UnixMilli()))
		if err != nil {
			return err
		}
		var next any
		if r.RetryIn > 0 {
			next = now.Add(r.RetryIn).UnixMilli()
		}
		_, err = tx.Exec("INSERT INTO webhook_deliveries ("+deliveryColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", r.ID[:], r.WebhookID[:],
			r.Sequence, r.EventID[:],
			string(r.EventType), r.Attempt, r.Duration.Milliseconds(), r.StatusCode, r.Error, next)
		if err != nil {
			return err
		}
		if err := noteRetry(tx, &r, next); err != nil {
			return err
		}
		if r.Over {
			_, err = tx.Exec("UPDATE webhook_retries SET due_at = ?1 WHERE webhook_id = ?2 AND due_at > ?1", now.UnixMilli(), r.WebhookID[:])
			if err != nil {
				return err
			}
		}
		_, err = tx.Exec(`UPDATE webhook_states SET failures = CASE WHEN ?1 = '' THEN 0 ELSE failures + 1 END, resume_at = ?2,
			cursor = iif((SELECT event_types FROM webhooks WHERE id = webhook_id) = ?3, max(cursor, ?4), cursor) WHERE webhook_id = ?5`,
			r.Error, now.Add(r.Pause).UnixMilli(), audit.EventTypesText(r.Seen.EventTypes), r.Seen.Cursor, r.WebhookID[:])
		return err
	})
}

// noteRetry notes when the event is tried again; null if it is not.
func noteRetry(tx *sql.Tx, r *audit.DeliveryResult, next any) (err error) {
	switch {
	case r.Retry == nil && next != nil:
		_, err = tx.Exec("INSERT INTO webhook_retries (webhook_id, sequence, attempts, since, due_at) VALUES (?, ?, ?, ?, ?) "+
			"ON CONFLICT DO NOTHING",
			r.WebhookID[:], r.Sequence, r.Attempt, r.EventAt.UnixMilli(), next)
	case r.Retry == nil:
	case next != nil:
		_, err = tx.Exec("UPDATE webhook_retries SET attempts = ?, due_at = ? WHERE webhook_id = ? AND sequence = ? AND due_at = ?",
			r.Attempt, next, r.WebhookID[:], r.Sequence, r.Retry.DueAt.UnixMilli())
	default:
		_, err = tx.Exec("DELETE FROM webhook_retries WHERE webhook_id = ? AND sequence = ? AND due_at = ?", r.WebhookID[:], r.Sequence,
			r.Retry.DueAt.UnixMilli())
	}
	return err
}

const deliveryColumns = "id, webhook_id, sequence, event_id, event_type, attempt, duration_ms, status_code, error, next_at"
