package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// CreateWebhook implements audit.Webhooks.
func (s *Store) CreateWebhook(ctx context.Context, by audit.Actor, w *audit.Webhook, secret audit.Secret, cursor int64) error {
	_, err := s.control(ctx, byActor("SELECT create_webhook($1, $2, $3, $4, $5, $6, $7, $8, ", by,
		hexText(w.ID[:]), []byte(w.URL), []byte(audit.EventTypesText(w.EventTypes)), strconv.AppendBool(nil, w.Active), []byte(secret),
		intText(w.CreatedAt.UnixMilli()), intText(cursor), intText(audit.MaxWebhooks)))
	if err != nil {
		return fmt.Errorf("cannot create webhook %s: %w", w.ID.Text(spend.PrefixWebhook), err)
	}
	w.SecretSum = secret.Sum()
	return nil
}

// UpdateWebhook implements audit.Webhooks.
func (s *Store) UpdateWebhook(ctx context.Context, by audit.Actor, id spend.ID, change audit.WebhookChange) (*audit.Webhook, error) {
	var url, types, active []byte // null for what stays
	if change.URL != nil {
		url = append([]byte{}, *change.URL...)
	}
	if change.EventTypes != nil {
		types = []byte(audit.EventTypesText(change.EventTypes))
	}
	if change.Active != nil {
		active = strconv.AppendBool(nil, *change.Active)
	}
	row, err := s.control(ctx, byActor("SELECT url, event_types, active, to_ms(created_at), secret_sha256 FROM update_webhook($1, $2, $3, $4, $5, $6, ", by,
		hexText(id[:]), url, types, active, textOrNull(string(change.Secret)), intText(audit.KeepPreviousSecret.Milliseconds())))
	if err == nil && row == nil {
		err = audit.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("cannot update webhook %s: %w", id.Text(spend.PrefixWebhook), err)
	}
	created, err := strconv.ParseInt(string(row[3]), 10, 64)
	w := &audit.Webhook{ID: id, URL: string(row[0]), Active: string(row[2]) == "t", CreatedAt: fromMilli(created)}
	if err == nil {
		w.EventTypes, err = audit.ParseEventTypes(string(row[1]))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read webhook %s: %w", id.Text(spend.PrefixWebhook), err)
	}
	return w, nil
}

// DeleteWebhook implements audit.Webhooks.
func (s *Store) DeleteWebhook(ctx context.Context, by audit.Actor, id spend.ID) error {
	row, err := s.control(ctx, byActor("SELECT delete_webhook($1, ", by, hexText(id[:])))
	if err == nil && string(row[0]) != "t" {
		err = audit.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("cannot delete webhook %s: %w", id.Text(spend.PrefixWebhook), err)
	}
	return nil
}

const webhookFields = "w.id, w.url, w.event_types, w.active, w.secret_sha256, w.created_at"

// Webhook implements audit.Webhooks.
func (s *Store) Webhook(ctx context.Context, id spend.ID) (*audit.Webhook, error) {
	const doing = "cannot read a webhook"
	found, err := collect(ctx, s, doing, scanWebhook, "SELECT "+webhookFields+" FROM webhooks AS w WHERE w.id = $1", [16]byte(id))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	return &found[0], nil
}

// ListWebhooks implements audit.Webhooks.
func (s *Store) ListWebhooks(ctx context.Context) ([]audit.Webhook, error) {
	return collect(ctx, s, "cannot list webhooks", scanWebhook, "SELECT "+webhookFields+" FROM webhooks AS w ORDER BY w.id DESC")
}

func scanWebhook(row pgx.CollectableRow) (audit.Webhook, error) {
	var r webhookRow
	if err := row.Scan(r.targets()...); err != nil {
		return r.Webhook, err
	}
	return r.complete()
}

// webhookRow is a webhook while it is read.
type webhookRow struct {
	audit.Webhook
	types string
	sum   []byte
}

func (r *webhookRow) targets() []any {
	return []any{uuid(&r.ID), &r.URL, &r.types, &r.Active, &r.sum, &r.CreatedAt}
}

func (r *webhookRow) complete() (w audit.Webhook, err error) {
	w = r.Webhook
	copy(w.SecretSum[:], r.sum)
	w.CreatedAt = w.CreatedAt.UTC()
	w.EventTypes, err = audit.ParseEventTypes(r.types)
	return w, err
}

// LeaseWebhooks implements audit.Webhooks.
func (s *Store) LeaseWebhooks(ctx context.Context, holder spend.ID, serving []spend.ID, lease time.Duration) (leases audit.WebhookLeases, err error) {
	err = s.read(ctx, "cannot take webhooks", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, as a reading may
		leases = audit.WebhookLeases{}
		err := db.QueryRow(ctx, "SELECT count(*) FILTER (WHERE active), count(*) FILTER (WHERE NOT active) FROM webhooks").Scan(&leases.Active, &leases.Disabled)
		if err != nil || leases.Active <= len(serving) {
			return err
		}
		rows, err := db.Query(ctx, `WITH free AS (
				SELECT s.webhook_id FROM webhook_states AS s JOIN webhooks AS w ON w.id = s.webhook_id
				WHERE w.active AND s.webhook_id <> ALL ($2::uuid[]) AND (s.held_until IS NULL OR s.held_until <= clock_timestamp() OR s.holder = $1)
				ORDER BY s.webhook_id FOR UPDATE OF s SKIP LOCKED)
			UPDATE webhook_states AS s SET holder = $1, held_until = clock_timestamp() + $3 * interval '1 millisecond'
			FROM free WHERE s.webhook_id = free.webhook_id RETURNING s.webhook_id`, [16]byte(holder), uuids(serving), lease.Milliseconds())
		if err != nil {
			return err
		}
		leases.Taken, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id spend.ID, err error) {
			err = row.Scan(uuid(&id))
			return id, err
		})
		return err
	})
	return leases, err
}

// HoldWebhook implements audit.Webhooks.
func (s *Store) HoldWebhook(ctx context.Context, holder, id spend.ID, seen audit.WebhookSeen, lease time.Duration) (*audit.WebhookTask, error) {
	const doing = "cannot hold a webhook"
	tasks, err := collect(ctx, s, doing, scanTask, `WITH held AS (
			UPDATE webhook_states AS s SET held_until = clock_timestamp() + $4 * interval '1 millisecond', cursor = CASE w.event_types WHEN $5 THEN greatest(s.cursor, $3) ELSE s.cursor END
			FROM webhooks AS w WHERE s.webhook_id = $2 AND w.id = $2 AND w.active AND s.holder = $1 AND s.held_until > clock_timestamp() RETURNING s.*)
		SELECT `+webhookFields+`, h.secret, h.previous_secret, clock_timestamp(), h.previous_until, h.cursor, h.failures, h.resume_at, r.sequence, r.attempts, r.due_at,
			(SELECT min(o.since) FROM webhook_retries AS o WHERE o.webhook_id = $2)
		FROM held AS h JOIN webhooks AS w ON w.id = h.webhook_id
			LEFT JOIN LATERAL (SELECT * FROM webhook_retries AS n WHERE n.webhook_id = $2 ORDER BY n.due_at LIMIT 1) AS r ON true`,
		[16]byte(holder), [16]byte(id), seen.Cursor, lease.Milliseconds(), audit.EventTypesText(seen.EventTypes))
	if err != nil {
		return nil, err
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	return &tasks[0], nil
}

func scanTask(row pgx.CollectableRow) (t audit.WebhookTask, err error) {
	var r webhookRow
	var secret string
	var previous *string
	var previousUntil, due, oldest *time.Time
	var sequence *int64
	var attempts *int
	targets := append(r.targets(), &secret, &previous, &t.Now, &previousUntil, &t.Cursor, &t.Failures, &t.ResumeAt, &sequence, &attempts, &due, &oldest)
	if err = row.Scan(targets...); err != nil {
		return t, err
	}
	t.Secrets = []audit.Secret{audit.Secret(secret)}
	if previous != nil && previousUntil.After(t.Now) {
		t.Secrets = append(t.Secrets, audit.Secret(*previous))
	}
	if sequence != nil {
		t.Retry = &audit.WebhookRetry{Sequence: *sequence, Attempts: *attempts, DueAt: *due}
		t.OldestAt = oldest.UTC()
	}
	t.Webhook, err = r.complete()
	return t, err
}

// RecordDelivery implements audit.Webhooks.
func (s *Store) RecordDelivery(ctx context.Context, holder spend.ID, r audit.DeliveryResult) error {
	const doing = "cannot record a delivery"
	var retried *time.Time
	if r.Retry != nil {
		retried = &r.Retry.DueAt
	}
	var retryMS *int64
	if r.RetryIn > 0 {
		retryMS = new(r.RetryIn.Milliseconds())
	}
	var held bool
	err := s.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error { // may be repeated, as a reading may
		return db.QueryRow(ctx, `SELECT record_delivery($1, ROW($2, $3, $4, $5, $6, $7, $8, $9, $10, NULL)::webhook_deliveries, $11, $12, $13, $14, $15, $16)`,
			[16]byte(holder), [16]byte(r.ID), [16]byte(r.WebhookID), r.Sequence, [16]byte(r.EventID), string(r.EventType), r.Attempt,
			r.Duration.Milliseconds(), r.StatusCode, r.Error, r.EventAt, retried, retryMS, r.Pause.Milliseconds(),
			r.Seen.Cursor, audit.EventTypesText(r.Seen.EventTypes)).Scan(&held)
	})
	if err == nil && !held {
		err = fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	return err
}

// ReleaseWebhooks implements audit.Webhooks.
func (s *Store) ReleaseWebhooks(ctx context.Context, holder spend.ID) error {
	return s.read(ctx, "cannot release webhooks", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, as a reading may
		_, err := db.Exec(ctx, "UPDATE webhook_states SET holder = NULL, held_until = NULL WHERE holder = $1", [16]byte(holder))
		return err
	})
}

const selectDeliveries = "SELECT id, webhook_id, sequence, event_id, event_type, attempt, duration_ms, status_code, error, next_at FROM webhook_deliveries "

// Deliveries implements audit.Webhooks.
func (s *Store) Deliveries(ctx context.Context, q audit.DeliveryQuery) (page []audit.Delivery, more bool, err error) {
	if q.Before.IsZero() {
		q.Before = newest
	}
	page, err = collect(ctx, s, "cannot list deliveries", scanDelivery,
		selectDeliveries+"WHERE webhook_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3", [16]byte(q.WebhookID), [16]byte(q.Before), q.Limit+1)
	if len(page) > q.Limit {
		return page[:q.Limit], true, err
	}
	return page, false, err
}

func scanDelivery(row pgx.CollectableRow) (d audit.Delivery, err error) {
	var ms int64
	var next *time.Time
	err = row.Scan(uuid(&d.ID), uuid(&d.WebhookID), &d.Sequence, uuid(&d.EventID), &d.EventType, &d.Attempt, &ms, &d.StatusCode, &d.Error, &next)
	d.Duration = time.Duration(ms) * time.Millisecond
	if next != nil {
		d.NextAt = next.UTC()
	}
	return d, err
}

// ReplayDelivery implements audit.Webhooks.
func (s *Store) ReplayDelivery(ctx context.Context, webhookID, deliveryID spend.ID) (*audit.Delivery, error) {
	const doing = "cannot replay a delivery"
	found, err := collect(ctx, s, doing, scanDelivery, `WITH put AS ( -- may be repeated, as a reading may
			INSERT INTO webhook_retries AS r (webhook_id, sequence, attempts, since, due_at)
				SELECT d.webhook_id, d.sequence, 0, clock_timestamp(), clock_timestamp()
				FROM webhook_deliveries AS d JOIN webhooks AS w ON w.id = d.webhook_id WHERE d.id = $2 AND d.webhook_id = $1
			ON CONFLICT (webhook_id, sequence) DO UPDATE SET attempts = 0, due_at = excluded.due_at
			RETURNING r.webhook_id)
		`+selectDeliveries+"WHERE id = $2 AND webhook_id IN (SELECT webhook_id FROM put)", [16]byte(webhookID), [16]byte(deliveryID))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	return &found[0], nil
}

// removeDeliveries removes attempts that are not listed any more.
func removeDeliveries(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	const batch = 5000
	before := audit.FirstID(now.Add(-audit.KeepDeliveries).UnixMilli())
	for {
		tag, err := conn.Exec(ctx, "DELETE FROM webhook_deliveries WHERE id IN (SELECT id FROM webhook_deliveries WHERE id < $1 ORDER BY id LIMIT $2)", [16]byte(before), batch)
		if err != nil {
			return fmt.Errorf("cannot remove old deliveries: %w: %w", audit.ErrUnavailable, err)
		}
		if tag.RowsAffected() < batch {
			return nil
		}
	}
}
