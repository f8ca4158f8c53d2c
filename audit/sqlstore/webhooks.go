package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// WebhookColumns are what WebhookTargets take.
const WebhookColumns = "id, url, event_types, active, secret_sha256, created_at"

const selectWebhooks = "SELECT " + WebhookColumns + " FROM webhooks "

// WebhookTargets returns the targets of a scan of WebhookColumns.
func WebhookTargets(w *audit.Webhook) []any {
	return []any{&w.ID, &w.URL, Parse(&w.EventTypes, audit.ParseEventTypes), &w.Active, &w.SecretSum, &w.CreatedAt}
}

// ScanWebhook reads WebhookColumns.
func ScanWebhook(row Row) (w audit.Webhook, err error) { return w, row.Scan(WebhookTargets(&w)...) }

// Webhook implements audit.Webhooks.
func (s *Store) Webhook(ctx context.Context, id spend.ID) (*audit.Webhook, error) {
	return find(ctx, s, "cannot read a webhook", ScanWebhook, selectWebhooks+"WHERE id = $1", id)
}

// ListWebhooks implements audit.Webhooks.
func (s *Store) ListWebhooks(ctx context.Context) ([]audit.Webhook, error) {
	return list(ctx, s, "cannot list webhooks", ScanWebhook, selectWebhooks+"ORDER BY id DESC")
}

// LeaseWebhooks implements audit.Webhooks.
func (s *Store) LeaseWebhooks(
	ctx context.Context, holder spend.ID, serving []spend.ID, lease time.Duration,
) (leases audit.WebhookLeases, err error) {
	const doing = "cannot take webhooks"
	err = s.db.Read(ctx, doing, func(ctx context.Context, tx Tx) error {
		leases = audit.WebhookLeases{}
		err := tx.Query(ctx, func(row Row) error { return row.Scan(&leases.Active, &leases.Disabled, &leases.Waiting) },
			`SELECT count(*) FILTER (WHERE active), count(*) FILTER (WHERE NOT active),
				(SELECT count(*) FROM (SELECT 1 FROM webhook_retries WHERE webhook_id IN (SELECT id FROM webhooks WHERE active)
					AND sequence > `+s.eventsFloor+` LIMIT $1) AS waiting)
			FROM webhooks`, audit.MaxWaiting)
		if err != nil {
			return err
		}
		leases.Due, err = collect(ctx, tx, scalar[spend.ID], `SELECT w.id FROM webhooks AS w
			WHERE w.active AND EXISTS (SELECT 1 FROM webhook_retries AS r WHERE r.webhook_id = w.id AND r.due_at <= now_ms()
				AND r.sequence > `+s.eventsFloor+")")
		return err
	})
	if err != nil || leases.Active <= len(serving) {
		return leases, err // so that nothing is written while nothing happens
	}
	// Nodes take turns: none waits for a webhook that another takes while the other waits for one of its own.
	err = s.db.Write(ctx, doing, "webhook_states", func(ctx context.Context, tx Tx) (err error) {
		w := Where{Args: []any{holder, lease.Milliseconds()}}
		for _, id := range serving {
			w.And("webhook_id <> ", id)
		}
		leases.Taken, err = collect(ctx, tx, scalar[spend.ID], `UPDATE webhook_states SET holder = $1, held_until = now_ms() + $2
			WHERE webhook_id IN (SELECT id FROM webhooks WHERE active) AND (coalesce(held_until, 0) <= now_ms() OR holder = $1)`+w.Text+
			" RETURNING webhook_id", w.Args...)
		return err
	})
	return leases, err
}

// HoldWebhook implements audit.Webhooks.
func (s *Store) HoldWebhook(
	ctx context.Context, holder, id spend.ID, seen audit.WebhookSeen, lease time.Duration,
) (task *audit.WebhookTask, err error) {
	err = s.write(ctx, "cannot hold a webhook", "", func(ctx context.Context, tx Tx) (refused, err error) {
		held, err := tx.Exec(ctx, `UPDATE webhook_states SET held_until = now_ms() + $3, cursor = CASE
				WHEN cursor < $4 AND (SELECT event_types FROM webhooks WHERE id = webhook_id) = $5 THEN $4 ELSE cursor END
			WHERE webhook_id = $1 AND holder = $2 AND held_until > now_ms() AND webhook_id IN (SELECT id FROM webhooks WHERE active)`,
			id, holder, lease.Milliseconds(), seen.Cursor, audit.EventTypesText(seen.EventTypes))
		if err != nil || held == 0 {
			return audit.ErrNotFound, err
		}
		task, err = s.readTask(ctx, tx, id)
		return nil, err
	})
	return task, err
}

func (s *Store) readTask(ctx context.Context, tx Tx, id spend.ID) (*audit.WebhookTask, error) {
	t := new(audit.WebhookTask)
	var secret, previous audit.Secret
	var previousUntil time.Time
	err := tx.Query(ctx, func(row Row) error {
		return row.Scan(append(WebhookTargets(&t.Webhook), &secret, &previous, &previousUntil, &t.Now, &t.Cursor, &t.Failures, &t.ResumeAt,
			&t.OldestAt)...)
	}, "SELECT "+WebhookColumns+`, secret, coalesce(previous_secret, ''), previous_until, now_ms(), cursor, failures, resume_at,
			(SELECT min(since) FROM webhook_retries AS r WHERE r.webhook_id = w.id AND sequence > `+s.eventsFloor+`)
		FROM webhooks AS w JOIN webhook_states ON webhook_id = id WHERE id = $1`, id)
	if err != nil {
		return nil, err
	}
	t.Secrets = []audit.Secret{secret}
	if previousUntil.After(t.Now) {
		t.Secrets = append(t.Secrets, previous)
	}
	t.Retries, err = collect(ctx, tx, func(row Row) (r audit.WebhookRetry, err error) {
		return r, row.Scan(&r.Sequence, &r.Attempts, &r.DueAt)
	}, "SELECT sequence, attempts, due_at FROM webhook_retries WHERE webhook_id = $1 AND sequence > "+s.eventsFloor+
		" ORDER BY due_at, sequence LIMIT $2", id, audit.MaxInFlight)
	return t, err
}

// ReleaseWebhooks implements audit.Webhooks.
func (s *Store) ReleaseWebhooks(ctx context.Context, holder spend.ID) error {
	_, err := s.db.Exec(ctx, "cannot release webhooks", "UPDATE webhook_states SET holder = NULL, held_until = NULL WHERE holder = $1", holder)
	return err
}

const selectDeliveries = "SELECT id, webhook_id, sequence, event_id, event_type, attempt, duration_ms, status_code, error, next_at " +
	"FROM webhook_deliveries "

func scanDelivery(row Row) (d audit.Delivery, err error) {
	var ms int64
	err = row.Scan(&d.ID, &d.WebhookID, &d.Sequence, &d.EventID, &d.EventType, &d.Attempt, &ms, &d.StatusCode, &d.Error, &d.NextAt)
	d.Duration = time.Duration(ms) * time.Millisecond
	return d, err
}

// Deliveries implements audit.Webhooks.
func (s *Store) Deliveries(ctx context.Context, q audit.DeliveryQuery) (page []audit.Delivery, more bool, err error) {
	failed := ""
	if q.Failed {
		failed = " AND error <> ''"
	}
	page, err = list(ctx, s, "cannot list deliveries", scanDelivery,
		selectDeliveries+"WHERE webhook_id = $1 AND id < $2"+failed+" ORDER BY id DESC LIMIT $3",
		q.WebhookID, cmp.Or(q.Before, audit.MaxID()), q.Limit+1)
	page, more = audit.Cut(page, q.Limit)
	return page, more, err
}

// ReplayDelivery implements audit.Webhooks.
func (s *Store) ReplayDelivery(ctx context.Context, webhookID, deliveryID spend.ID) (*audit.Delivery, error) {
	const doing = "cannot replay a delivery"
	err := s.change(ctx, doing, `INSERT INTO webhook_retries (webhook_id, sequence, attempts, since, due_at)
			SELECT d.webhook_id, d.sequence, 0, now_ms(), now_ms()
			FROM webhook_deliveries AS d JOIN webhooks AS w ON w.id = d.webhook_id WHERE d.id = $2 AND d.webhook_id = $1
		ON CONFLICT (webhook_id, sequence) DO UPDATE SET attempts = 0, due_at = excluded.due_at`, webhookID, deliveryID)
	if err != nil {
		return nil, err
	}
	d, err := find(ctx, s, doing, scanDelivery, selectDeliveries+"WHERE id = $1", deliveryID)
	if err != nil {
		return nil, err
	}
	// From here on no event that is to be sent again is removed; events removed before are not
	// sent.
	_, err = s.db.Exec(ctx, doing, "DELETE FROM webhook_retries WHERE webhook_id = $1 AND sequence <= "+s.eventsFloor, webhookID)
	if err != nil {
		return nil, err
	}
	floor, err := value[int64](ctx, s, doing, "SELECT "+s.eventsFloor)
	if err == nil && d.Sequence <= floor {
		err = fmt.Errorf("%s: %w", doing, &audit.EventsRemovedError{UpTo: floor})
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// RetryWebhook implements audit.Webhooks.
func (s *Store) RetryWebhook(ctx context.Context, id spend.ID) (waiting int, err error) {
	err = s.write(ctx, "cannot have a webhook tried", "", func(ctx context.Context, tx Tx) (refused, err error) {
		there, err := tx.Exec(ctx, `UPDATE webhook_states SET failures = 0,
			resume_at = CASE WHEN resume_at > now_ms() THEN now_ms() ELSE resume_at END WHERE webhook_id = $1`, id)
		if err != nil || there == 0 {
			return audit.ErrNotFound, err
		}
		if _, err := tx.Exec(ctx, "UPDATE webhook_retries SET due_at = now_ms() WHERE webhook_id = $1 AND due_at > now_ms()", id); err != nil {
			return nil, err
		}
		return nil, tx.Query(ctx, func(row Row) error { return row.Scan(&waiting) },
			"SELECT count(*) FROM webhook_retries WHERE webhook_id = $1 AND sequence > "+s.eventsFloor, id)
	})
	return waiting, err
}
