package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

const webhookColumns = "w.id, w.url, w.event_types, w.active, w.secret_sha256, w.created_at"

// CreateWebhook implements audit.Webhooks.
func (s *Store) CreateWebhook(ctx context.Context, by audit.Actor, w *audit.Webhook, secret audit.Secret, cursor int64) error {
	stored := *w
	stored.SecretSum, stored.CreatedAt = secret.Sum(), fromMilli(w.CreatedAt.UnixMilli())
	err := s.write(ctx, func(tx *sql.Tx) error {
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
		_, err = tx.Exec("INSERT INTO webhooks (id, url, event_types, active, secret_sha256, created_at, generation) VALUES (?, ?, ?, ?, ?, ?, ?)",
			w.ID[:], w.URL, audit.EventTypesText(w.EventTypes), w.Active, stored.SecretSum[:], w.CreatedAt.UnixMilli(), generation)
		if err != nil {
			return err
		}
		_, err = tx.Exec("INSERT INTO webhook_states (webhook_id, secret, cursor, resume_at) VALUES (?, ?, ?, ?)", w.ID[:], string(secret), cursor, time.Now().UnixMilli())
		if err != nil {
			return err
		}
		return record(tx, audit.ChangeOfWebhook(audit.WebhookCreated, &stored, generation, by, time.Now()))
	})
	if err != nil {
		return fmt.Errorf("cannot create webhook %s: %w", w.ID.Text(spend.PrefixWebhook), err)
	}
	w.SecretSum = stored.SecretSum
	return nil
}

// UpdateWebhook implements audit.Webhooks.
func (s *Store) UpdateWebhook(ctx context.Context, by audit.Actor, id spend.ID, change audit.WebhookChange) (*audit.Webhook, error) {
	var w audit.Webhook
	err := s.write(ctx, func(tx *sql.Tx) (err error) {
		if w, err = scanWebhook(tx.QueryRow("SELECT "+webhookColumns+" FROM webhooks AS w WHERE w.id = ?", id[:])); err != nil {
			return orNotFound(err)
		}
		change.Apply(&w)
		generation, err := raise(tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec("UPDATE webhooks SET url = ?, event_types = ?, active = ?, secret_sha256 = ?, generation = ? WHERE id = ?",
			w.URL, audit.EventTypesText(w.EventTypes), w.Active, w.SecretSum[:], generation, id[:])
		if err != nil {
			return err
		}
		now := time.Now()
		if change.Secret != "" {
			_, err = tx.Exec("UPDATE webhook_states SET previous_secret = secret, previous_until = ?, secret = ? WHERE webhook_id = ?",
				now.Add(audit.KeepPreviousSecret).UnixMilli(), string(change.Secret), id[:])
		}
		if change.Active != nil && *change.Active && err == nil {
			_, err = tx.Exec("UPDATE webhook_states SET failures = 0, resume_at = ? WHERE webhook_id = ?", now.UnixMilli(), id[:])
		}
		if err != nil {
			return err
		}
		return record(tx, audit.ChangeOfWebhook(audit.WebhookChanged, &w, generation, by, now))
	})
	if err != nil {
		return nil, fmt.Errorf("cannot update webhook %s: %w", id.Text(spend.PrefixWebhook), err)
	}
	return &w, nil
}

// DeleteWebhook implements audit.Webhooks.
func (s *Store) DeleteWebhook(ctx context.Context, by audit.Actor, id spend.ID) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		w, err := scanWebhook(tx.QueryRow("SELECT "+webhookColumns+" FROM webhooks AS w WHERE w.id = ?", id[:]))
		if err != nil {
			return orNotFound(err)
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
	if err != nil {
		return fmt.Errorf("cannot delete webhook %s: %w", id.Text(spend.PrefixWebhook), err)
	}
	return nil
}

func orNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return audit.ErrNotFound
	}
	return err
}

// Webhook implements audit.Webhooks.
func (s *Store) Webhook(ctx context.Context, id spend.ID) (*audit.Webhook, error) {
	w, err := scanWebhook(s.reader.QueryRowContext(ctx, "SELECT "+webhookColumns+" FROM webhooks AS w WHERE w.id = ?", id[:]))
	if err != nil {
		return nil, notFoundOr("cannot read a webhook", err)
	}
	return &w, nil
}

// ListWebhooks implements audit.Webhooks.
func (s *Store) ListWebhooks(ctx context.Context) ([]audit.Webhook, error) {
	return collect(ctx, s.reader, "cannot list webhooks", scanWebhook, "SELECT "+webhookColumns+" FROM webhooks AS w ORDER BY w.id DESC")
}

// scanWebhook reads webhookColumns, and what follows them into more.
func scanWebhook(row scanner) (audit.Webhook, error) { return scanWebhookAnd(row) }

func scanWebhookAnd(row scanner, more ...any) (w audit.Webhook, err error) {
	var id, sum []byte
	var types string
	var created int64
	if err = row.Scan(append([]any{&id, &w.URL, &types, &w.Active, &sum, &created}, more...)...); err != nil {
		return w, err
	}
	w.ID, w.SecretSum, w.CreatedAt = spend.ID(id), spend.Hash(sum), fromMilli(created)
	w.EventTypes, err = audit.ParseEventTypes(types)
	return w, err
}

// LeaseWebhooks implements audit.Webhooks.
func (s *Store) LeaseWebhooks(ctx context.Context, holder spend.ID, serving []spend.ID, lease time.Duration) (leases audit.WebhookLeases, err error) {
	const doing = "cannot take webhooks"
	err = s.reader.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE active), count(*) FILTER (WHERE NOT active) FROM webhooks").Scan(&leases.Active, &leases.Disabled)
	if err != nil {
		return leases, unavailable(doing, err)
	}
	if leases.Active <= len(serving) {
		return leases, nil // nothing is written while nothing happens
	}
	err = s.write(ctx, func(tx *sql.Tx) (err error) {
		now := time.Now()
		args := append([]any{holder[:], now.Add(lease).UnixMilli(), now.UnixMilli(), holder[:]}, idArgs(serving)...)
		leases.Taken, err = collect(ctx, tx, doing, func(row scanner) (spend.ID, error) {
			var id []byte
			if err := row.Scan(&id); err != nil {
				return spend.ID{}, err
			}
			return spend.ID(id), nil
		}, `UPDATE webhook_states SET holder = ?, held_until = ?
			WHERE webhook_id IN (SELECT id FROM webhooks WHERE active) AND (coalesce(held_until, 0) <= ? OR holder = ?)
				AND webhook_id NOT IN (`+strings.TrimSuffix(strings.Repeat("?,", len(serving)), ",")+") RETURNING webhook_id", args...)
		return err
	})
	if err != nil {
		return leases, fmt.Errorf("%s: %w", doing, err)
	}
	return leases, nil
}

// HoldWebhook implements audit.Webhooks.
func (s *Store) HoldWebhook(ctx context.Context, holder, id spend.ID, seen audit.WebhookSeen, lease time.Duration) (*audit.WebhookTask, error) {
	t := new(audit.WebhookTask)
	err := s.write(ctx, func(tx *sql.Tx) error {
		now := time.Now()
		result, err := tx.Exec(`UPDATE webhook_states SET held_until = ?1,
			cursor = iif((SELECT event_types FROM webhooks WHERE id = webhook_id) = ?2, max(cursor, ?3), cursor)
			WHERE webhook_id = ?4 AND holder = ?5 AND held_until > ?6 AND EXISTS (SELECT 1 FROM webhooks AS w WHERE w.id = webhook_id AND w.active)`,
			now.Add(lease).UnixMilli(), audit.EventTypesText(seen.EventTypes), seen.Cursor, id[:], holder[:], now.UnixMilli())
		if err == nil {
			err = oneRow(result)
		}
		if err != nil {
			return err
		}
		*t, err = readTask(tx, id, now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot hold a webhook: %w", err)
	}
	return t, nil
}

func readTask(tx *sql.Tx, id spend.ID, now time.Time) (t audit.WebhookTask, err error) {
	var secret string
	var previous sql.NullString
	var previousUntil, oldest sql.NullInt64
	var resume int64
	t.Webhook, err = scanWebhookAnd(tx.QueryRow("SELECT "+webhookColumns+`, s.secret, s.previous_secret, s.previous_until, s.cursor, s.failures, s.resume_at,
		(SELECT min(r.since) FROM webhook_retries AS r WHERE r.webhook_id = w.id)
		FROM webhooks AS w JOIN webhook_states AS s ON s.webhook_id = w.id WHERE w.id = ?`, id[:]),
		&secret, &previous, &previousUntil, &t.Cursor, &t.Failures, &resume, &oldest)
	if err != nil {
		return t, err
	}
	t.Now, t.ResumeAt, t.Secrets = now.UTC(), fromMilli(resume), []audit.Secret{audit.Secret(secret)}
	if previous.Valid && previousUntil.Int64 > now.UnixMilli() {
		t.Secrets = append(t.Secrets, audit.Secret(previous.String))
	}
	if !oldest.Valid {
		return t, nil
	}
	var due int64
	t.OldestAt, t.Retry = fromMilli(oldest.Int64), new(audit.WebhookRetry)
	err = tx.QueryRow("SELECT sequence, attempts, due_at FROM webhook_retries WHERE webhook_id = ? ORDER BY due_at LIMIT 1", id[:]).
		Scan(&t.Retry.Sequence, &t.Retry.Attempts, &due)
	t.Retry.DueAt = fromMilli(due)
	return t, err
}

func oneRow(result sql.Result) error {
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = audit.ErrNotFound
	}
	return err
}

// RecordDelivery implements audit.Webhooks.
func (s *Store) RecordDelivery(ctx context.Context, holder spend.ID, r audit.DeliveryResult) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		now := time.Now()
		var held bool
		err := tx.QueryRow("SELECT EXISTS (SELECT 1 FROM webhook_states WHERE webhook_id = ? AND holder = ? AND held_until > ?)", r.WebhookID[:], holder[:], now.UnixMilli()).Scan(&held)
		if err == nil && !held {
			err = audit.ErrNotFound
		}
		if err != nil {
			return err
		}
		var next any
		if r.RetryIn > 0 {
			next = now.Add(r.RetryIn).UnixMilli()
		}
		_, err = tx.Exec("INSERT INTO webhook_deliveries ("+deliveryColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", r.ID[:], r.WebhookID[:], r.Sequence, r.EventID[:],
			string(r.EventType), r.Attempt, r.Duration.Milliseconds(), r.StatusCode, r.Error, next)
		if err != nil {
			return err
		}
		if err := noteRetry(tx, &r, next); err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE webhook_states SET failures = CASE WHEN ?1 = '' THEN 0 ELSE failures + 1 END, resume_at = ?2,
			cursor = iif((SELECT event_types FROM webhooks WHERE id = webhook_id) = ?3, max(cursor, ?4), cursor) WHERE webhook_id = ?5`,
			r.Error, now.Add(r.Pause).UnixMilli(), audit.EventTypesText(r.Seen.EventTypes), r.Seen.Cursor, r.WebhookID[:])
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot record a delivery: %w", err)
	}
	return nil
}

// noteRetry notes when the event is tried again, which is null if it is not.
func noteRetry(tx *sql.Tx, r *audit.DeliveryResult, next any) (err error) {
	switch {
	case r.Retry == nil && next != nil:
		_, err = tx.Exec("INSERT INTO webhook_retries (webhook_id, sequence, attempts, since, due_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			r.WebhookID[:], r.Sequence, r.Attempt, r.EventAt.UnixMilli(), next)
	case r.Retry == nil:
	case next != nil:
		_, err = tx.Exec("UPDATE webhook_retries SET attempts = ?, due_at = ? WHERE webhook_id = ? AND sequence = ? AND due_at = ?",
			r.Attempt, next, r.WebhookID[:], r.Sequence, r.Retry.DueAt.UnixMilli())
	default:
		_, err = tx.Exec("DELETE FROM webhook_retries WHERE webhook_id = ? AND sequence = ? AND due_at = ?", r.WebhookID[:], r.Sequence, r.Retry.DueAt.UnixMilli())
	}
	return err
}

// ReleaseWebhooks implements audit.Webhooks.
func (s *Store) ReleaseWebhooks(ctx context.Context, holder spend.ID) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE webhook_states SET holder = NULL, held_until = NULL WHERE holder = ?", holder[:])
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot release webhooks: %w", err)
	}
	return nil
}

const deliveryColumns = "id, webhook_id, sequence, event_id, event_type, attempt, duration_ms, status_code, error, next_at"

// Deliveries implements audit.Webhooks.
func (s *Store) Deliveries(ctx context.Context, q audit.DeliveryQuery) (page []audit.Delivery, more bool, err error) {
	if q.Before.IsZero() {
		q.Before = newest
	}
	page, err = collect(ctx, s.reader, "cannot list deliveries", scanDelivery,
		"SELECT "+deliveryColumns+" FROM webhook_deliveries WHERE webhook_id = ? AND id < ? ORDER BY id DESC LIMIT ?", q.WebhookID[:], q.Before[:], q.Limit+1)
	if len(page) > q.Limit {
		return page[:q.Limit], true, err
	}
	return page, false, err
}

func scanDelivery(row scanner) (d audit.Delivery, err error) {
	var id, webhook, event []byte
	var ms int64
	var next sql.NullInt64
	if err = row.Scan(&id, &webhook, &d.Sequence, &event, &d.EventType, &d.Attempt, &ms, &d.StatusCode, &d.Error, &next); err != nil {
		return d, err
	}
	d.ID, d.WebhookID, d.EventID, d.Duration = spend.ID(id), spend.ID(webhook), spend.ID(event), time.Duration(ms)*time.Millisecond
	if next.Valid {
		d.NextAt = fromMilli(next.Int64)
	}
	return d, nil
}

// ReplayDelivery implements audit.Webhooks.
func (s *Store) ReplayDelivery(ctx context.Context, webhookID, deliveryID spend.ID) (*audit.Delivery, error) {
	var d audit.Delivery
	err := s.write(ctx, func(tx *sql.Tx) (err error) {
		d, err = scanDelivery(tx.QueryRow("SELECT "+deliveryColumns+" FROM webhook_deliveries WHERE id = ? AND webhook_id IN (SELECT id FROM webhooks WHERE id = ?)", deliveryID[:], webhookID[:]))
		if err != nil {
			return orNotFound(err)
		}
		_, err = tx.Exec(`INSERT INTO webhook_retries (webhook_id, sequence, attempts, since, due_at) VALUES (?1, ?2, 0, ?3, ?3)
			ON CONFLICT DO UPDATE SET attempts = 0, due_at = excluded.due_at`, webhookID[:], d.Sequence, time.Now().UnixMilli())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot replay a delivery: %w", err)
	}
	return &d, nil
}
