package sqlite

import (
	"context"
	"database/sql"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const (
	webhookColumns = "w.id, w.url, w.event_types, w.active, w.secret_sha256, w.created_at"
	selectWebhooks = "SELECT " + webhookColumns + " FROM webhooks AS w "
)

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
		if w, err = scanWebhook(tx.QueryRow(selectWebhooks+"WHERE w.id = ?", id[:])); err != nil {
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
		w, err := scanWebhook(tx.QueryRow(selectWebhooks+"WHERE w.id = ?", id[:]))
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

func scanWebhook(row scanner) (w audit.Webhook, err error) {
	err = row.Scan(webhookTargets(&w)...)
	return w, err
}

// webhookTargets returns the scan targets of webhookColumns.
func webhookTargets(w *audit.Webhook) []any {
	return []any{
		blob(w.ID[:]), &w.URL, parse(&w.EventTypes, audit.ParseEventTypes), &w.Active, blob(w.SecretSum[:]), (*millis)(&w.CreatedAt),
	}
}

// HoldWebhook implements audit.Webhooks.
func (s *Store) HoldWebhook(
	ctx context.Context, holder, id spend.ID, seen audit.WebhookSeen, lease time.Duration,
) (*audit.WebhookTask, error) {
	var t audit.WebhookTask
	err := s.write(ctx, "cannot hold a webhook", func(tx *sql.Tx) error {
		now := time.Now()
		_, err := scanID(tx.QueryRow(`UPDATE webhook_states SET held_until = ?1,
			cursor = iif((SELECT event_types FROM webhooks WHERE id = webhook_id) = ?2, max(cursor, ?3), cursor)
			WHERE webhook_id = ?4 AND holder = ?5 AND held_until > ?6 AND EXISTS (SELECT 1 FROM webhooks AS w WHERE w.id = webhook_id AND w.active)
			RETURNING webhook_id`,
			now.Add(lease).UnixMilli(), audit.EventTypesText(seen.EventTypes), seen.Cursor, id[:], holder[:], now.UnixMilli()))
		if err == nil {
			t, err = readTask(tx, id, now)
		}
		return err
	})
	return orNil(t, err)
}

func readTask(tx *sql.Tx, id spend.ID, now time.Time) (t audit.WebhookTask, err error) {
	var secret, previous string
	var previousUntil time.Time
	err = tx.QueryRow("SELECT "+webhookColumns+`, s.secret, s.previous_secret, s.previous_until, s.cursor, s.failures, s.resume_at,
		(SELECT min(r.since) FROM webhook_retries AS r WHERE r.webhook_id = w.id AND r.sequence > `+eventsFloor+`)
		FROM webhooks AS w JOIN webhook_states AS s ON s.webhook_id = w.id WHERE w.id = ?`, id[:]).
		Scan(append(webhookTargets(&t.Webhook), &secret, (*text)(&previous), (*millis)(&previousUntil), &t.Cursor, &t.Failures,
			(*millis)(&t.ResumeAt), (*millis)(&t.OldestAt))...)
	if err != nil {
		return t, err
	}
	t.Now, t.Secrets = now.UTC(), []audit.Secret{audit.Secret(secret)}
	if previousUntil.UnixMilli() > now.UnixMilli() {
		t.Secrets = append(t.Secrets, audit.Secret(previous))
	}
	t.Retries, err = collect(context.Background(), tx, "cannot read what is to be tried again",
		func(row scanner) (r audit.WebhookRetry, err error) {
			err = row.Scan(&r.Sequence, &r.Attempts, (*millis)(&r.DueAt))
			return r, err
		}, "SELECT sequence, attempts, due_at FROM webhook_retries WHERE webhook_id = ? AND sequence > "+eventsFloor+
			" ORDER BY due_at, sequence LIMIT ?", id[:], audit.MaxInFlight)
	return t, err
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
