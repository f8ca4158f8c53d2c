package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
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

const (
	webhookColumns = "id, url, event_types, active, secret_sha256, created_at"
	selectWebhooks = "SELECT " + webhookColumns + " FROM webhooks "
)

// webhookTargets returns the scan targets of webhookColumns.
func webhookTargets(w *audit.Webhook) []any {
	return []any{uuid(&w.ID), &w.URL, parse(&w.EventTypes, audit.ParseEventTypes), &w.Active, bytea(&w.SecretSum), utc(&w.CreatedAt)}
}

func scanWebhook(row pgx.CollectableRow) (w audit.Webhook, err error) {
	err = row.Scan(webhookTargets(&w)...)
	return w, err
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

// Webhook implements audit.Webhooks.
func (s *Store) Webhook(ctx context.Context, id spend.ID) (*audit.Webhook, error) {
	return orNil(one(ctx, s, "cannot read a webhook", scanWebhook, selectWebhooks+"WHERE id = $1", [16]byte(id)))
}

// ListWebhooks implements audit.Webhooks.
func (s *Store) ListWebhooks(ctx context.Context) ([]audit.Webhook, error) {
	return collect(ctx, s, "cannot list webhooks", scanWebhook, selectWebhooks+"ORDER BY id DESC")
}

// LeaseWebhooks implements audit.Webhooks.
func (s *Store) LeaseWebhooks(
	ctx context.Context, holder spend.ID, serving []spend.ID, lease time.Duration,
) (leases audit.WebhookLeases, err error) {
	err = s.read(ctx, "cannot take webhooks", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		leases = audit.WebhookLeases{}
		err := db.QueryRow(ctx, "SELECT count(*) FILTER (WHERE active), count(*) FILTER (WHERE NOT active) FROM webhooks").
			Scan(&leases.Active, &leases.Disabled)
		if err != nil {
			return err
		}
		err = db.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM webhook_retries AS r JOIN webhooks AS w ON w.id = r.webhook_id
			WHERE w.active AND r.sequence > events_floor() LIMIT $1) AS waiting`,
			audit.MaxWaiting).Scan(&leases.Waiting)
		if err != nil {
			return err
		}
		rows, _ := db.Query(ctx, `SELECT w.id FROM webhooks AS w
			WHERE w.active AND EXISTS (SELECT 1 FROM webhook_retries AS r WHERE r.webhook_id = w.id AND r.due_at <= clock_timestamp()
				AND r.sequence > events_floor())`)
		if leases.Due, err = pgx.CollectRows(rows, scanID); err != nil || leases.Active <= len(serving) {
			return err
		}
		rows, _ = db.Query(ctx, `WITH free AS (
				SELECT s.webhook_id FROM webhook_states AS s JOIN webhooks AS w ON w.id = s.webhook_id
				WHERE w.active AND s.webhook_id <> ALL ($2::uuid[]) AND (s.held_until IS NULL OR s.held_until <= clock_timestamp() OR s.holder = $1)
				ORDER BY s.webhook_id FOR UPDATE OF s SKIP LOCKED)
			UPDATE webhook_states AS s SET holder = $1, held_until = clock_timestamp() + $3 * interval '1 millisecond'
			FROM free WHERE s.webhook_id = free.webhook_id RETURNING s.webhook_id`, [16]byte(holder), uuids(serving), lease.Milliseconds())
		leases.Taken, err = pgx.CollectRows(rows, scanID)
		return err
	})
	return leases, err
}

// dueFirst selects the retries of webhook $2 that are due first.
const dueFirst = "FROM webhook_retries AS r WHERE r.webhook_id = $2 AND r.sequence > events_floor() ORDER BY r.due_at, r.sequence LIMIT $6"

// HoldWebhook implements audit.Webhooks.
func (s *Store) HoldWebhook(
	ctx context.Context, holder, id spend.ID, seen audit.WebhookSeen, lease time.Duration,
) (*audit.WebhookTask, error) {
	return orNil(one(ctx, s, "cannot hold a webhook", scanTask, `WITH held AS (
			UPDATE webhook_states AS s SET held_until = clock_timestamp() + $4 * interval '1 millisecond', cursor = CASE w.event_types
			WHEN $5 THEN greatest(s.cursor, $3) ELSE s.cursor END
			FROM webhooks AS w WHERE s.webhook_id = $2 AND w.id = $2 AND w.active AND s.holder = $1 AND s.held_until > clock_timestamp()
			RETURNING s.*)
		SELECT `+webhookColumns+`, h.secret, coalesce(h.previous_secret, ''), clock_timestamp(), h.previous_until, h.cursor, h.failures,
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
	var due []time.Time
	err = row.Scan(append(webhookTargets(&t.Webhook), &secret, &previous, utc(&t.Now), utc(&previousUntil), &t.Cursor, &t.Failures,
		utc(&t.ResumeAt),
		&sequences, &attempts, &due, utc(&t.OldestAt))...)
	t.Secrets = []audit.Secret{audit.Secret(secret)}
	if previousUntil.After(t.Now) {
		t.Secrets = append(t.Secrets, audit.Secret(previous))
	}
	for i := range sequences {
		t.Retries = append(t.Retries, audit.WebhookRetry{Sequence: sequences[i], Attempts: attempts[i], DueAt: due[i].UTC()})
	}
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
	held, err := one(ctx, s, doing, pgx.RowTo[bool], // may be repeated, like a read
		`SELECT record_delivery($1, ROW($2, $3, $4, $5, $6, $7, $8, $9, $10, NULL)::webhook_deliveries, $11, $12, $13, $14, $15, $16, $17)`,
		[16]byte(holder), [16]byte(r.ID), [16]byte(r.WebhookID), r.Sequence, [16]byte(r.EventID), string(r.EventType), r.Attempt,
		r.Duration.Milliseconds(), r.StatusCode, r.Error, r.EventAt, retried, retryMS, r.Pause.Milliseconds(),
		r.Seen.Cursor, audit.EventTypesText(r.Seen.EventTypes), r.Over)
	if err == nil && !held {
		err = fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
	}
	return err
}

// ReleaseWebhooks implements audit.Webhooks.
func (s *Store) ReleaseWebhooks(ctx context.Context, holder spend.ID) error {
	return s.read(ctx, "cannot release webhooks", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		_, err := db.Exec(ctx, "UPDATE webhook_states SET holder = NULL, held_until = NULL WHERE holder = $1", [16]byte(holder))
		return err
	})
}

const selectDeliveries = "SELECT id, webhook_id, sequence, event_id, event_type, attempt, duration_ms, status_code, error, next_at " +
	"FROM webhook_deliveries "

// Deliveries implements audit.Webhooks.
func (s *Store) Deliveries(ctx context.Context, q audit.DeliveryQuery) (page []audit.Delivery, more bool, err error) {
	q.Before = cmp.Or(q.Before, audit.MaxID())
	failed := ""
	if q.Failed {
		failed = " AND error <> ''"
	}
	page, err = collect(ctx, s, "cannot list deliveries", scanDelivery,
		selectDeliveries+"WHERE webhook_id = $1 AND id < $2"+failed+" ORDER BY id DESC LIMIT $3", [16]byte(q.WebhookID), [16]byte(q.Before),
		q.Limit+1)
	page, more = audit.Cut(page, q.Limit)
	return page, more, err
}

func scanDelivery(row pgx.CollectableRow) (d audit.Delivery, err error) {
	var ms int64
	err = row.Scan(uuid(&d.ID), uuid(&d.WebhookID), &d.Sequence, uuid(&d.EventID), &d.EventType, &d.Attempt, &ms, &d.StatusCode, &d.Error,
		utc(&d.NextAt))
	d.Duration = time.Duration(ms) * time.Millisecond
	return d, err
}

// ReplayDelivery implements audit.Webhooks.
func (s *Store) ReplayDelivery(ctx context.Context, webhookID, deliveryID spend.ID) (*audit.Delivery, error) {
	d, err := orNil(one(ctx, s, "cannot replay a delivery", scanDelivery, `WITH put AS ( -- may be repeated, as a reading may
			INSERT INTO webhook_retries AS r (webhook_id, sequence, attempts, since, due_at)
				SELECT d.webhook_id, d.sequence, 0, clock_timestamp(), clock_timestamp()
				FROM webhook_deliveries AS d JOIN webhooks AS w ON w.id = d.webhook_id WHERE d.id = $2 AND d.webhook_id = $1
			ON CONFLICT (webhook_id, sequence) DO UPDATE SET attempts = 0, due_at = excluded.due_at
			RETURNING r.webhook_id)
		`+selectDeliveries+"WHERE id = $2 AND webhook_id IN (SELECT webhook_id FROM put)", [16]byte(webhookID), [16]byte(deliveryID)))
	if err != nil {
		return nil, err
	}
	// From here on no event that is to be sent again is removed; events removed before are not
	// sent.
	floor, err := one(ctx, s, "cannot read which events were removed", pgx.RowTo[int64], `WITH removed AS (
			DELETE FROM webhook_retries WHERE webhook_id = $1 AND sequence <= events_floor())
		SELECT events_floor()`, [16]byte(webhookID))
	if err == nil && d.Sequence <= floor {
		err = &audit.EventsRemovedError{UpTo: floor}
	}
	return d, err
}

// RetryWebhook implements audit.Webhooks.
func (s *Store) RetryWebhook(ctx context.Context, id spend.ID) (waiting int, err error) {
	const doing = "cannot have a webhook tried"
	err = s.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		done, err := db.Exec(ctx, "UPDATE webhook_states SET failures = 0, resume_at = least(resume_at, clock_timestamp()) WHERE webhook_id = $1",
			[16]byte(id))
		if err != nil {
			return err
		}
		if done.RowsAffected() == 0 {
			return fmt.Errorf("%s: %w", doing, audit.ErrNotFound)
		}
		_, err = db.Exec(ctx, "UPDATE webhook_retries SET due_at = clock_timestamp() WHERE webhook_id = $1 AND due_at > clock_timestamp()",
			[16]byte(id))
		if err != nil {
			return err
		}
		return db.QueryRow(ctx, "SELECT count(*) FROM webhook_retries WHERE webhook_id = $1 AND sequence > events_floor()", [16]byte(id)).
			Scan(&waiting)
	})
	return waiting, err
}
