package hotpath

import (
	"context"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/webhook"
)

// CreateWebhook stores a webhook to which events from now on are delivered, and returns its secret,
// which is shown only this once (S52). A URL that leads to an address that is not public is
// spend.Faults.
func (a *Authorizer) CreateWebhook(ctx context.Context, by audit.Actor, change audit.WebhookChange) (*audit.Webhook, audit.Secret, error) {
	if err := a.checkHost(ctx, change.URL); err != nil {
		return nil, "", err
	}
	head, err := a.store.EventsHead(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("cannot read where the feed ends: %w", err)
	}
	now := a.now().UTC().Truncate(time.Millisecond)
	w := &audit.Webhook{ID: spend.NewID(now), Active: true, CreatedAt: now}
	change.Apply(w)
	secret := webhook.NewSecret()
	if err := a.store.CreateWebhook(ctx, by, w, secret, head); err != nil {
		return nil, "", fmt.Errorf("cannot store a webhook: %w", err)
	}
	a.log.Info("webhook created", "webhook_id", w.ID.Text(spend.PrefixWebhook), "", &by) // a URL may have a secret in it
	return w, secret, nil
}

// UpdateWebhook changes a webhook. An unknown one is audit.ErrNotFound; a URL as with
// CreateWebhook.
func (a *Authorizer) UpdateWebhook(ctx context.Context, by audit.Actor, id spend.ID, change audit.WebhookChange) (*audit.Webhook, error) {
	if err := a.checkHost(ctx, change.URL); err != nil {
		return nil, err
	}
	w, err := a.store.UpdateWebhook(ctx, by, id, change)
	if err != nil {
		return nil, fmt.Errorf("cannot change webhook %s: %w", id.Text(spend.PrefixWebhook), err)
	}
	a.log.Info("webhook changed", "webhook_id", w.ID.Text(spend.PrefixWebhook), "", &by)
	return w, nil
}

// RotateWebhook gives a webhook a new secret, and returns it. An unknown webhook is
// audit.ErrNotFound.
func (a *Authorizer) RotateWebhook(ctx context.Context, by audit.Actor, id spend.ID) (*audit.Webhook, audit.Secret, error) {
	secret := webhook.NewSecret()
	w, err := a.UpdateWebhook(ctx, by, id, audit.WebhookChange{Secret: secret})
	return w, secret, err
}

// DeleteWebhook deletes a webhook and its undelivered events. An unknown webhook is audit.ErrNotFound.
func (a *Authorizer) DeleteWebhook(ctx context.Context, by audit.Actor, id spend.ID) error {
	if err := a.store.DeleteWebhook(ctx, by, id); err != nil {
		return fmt.Errorf("cannot delete webhook %s: %w", id.Text(spend.PrefixWebhook), err)
	}
	a.log.Info("webhook deleted", "webhook_id", id.Text(spend.PrefixWebhook), "", &by)
	return nil
}

// RetryWebhook has all events that wait for a webhook tried again at once, and returns their number.
// An unknown webhook is audit.ErrNotFound.
func (a *Authorizer) RetryWebhook(ctx context.Context, id spend.ID) (waiting int, err error) {
	return a.store.RetryWebhook(ctx, id)
}

// ReplayDelivery has an event delivered again. Without that delivery of the webhook it fails
// with audit.ErrNotFound.
func (a *Authorizer) ReplayDelivery(ctx context.Context, webhookID, deliveryID spend.ID) (*audit.Delivery, error) {
	return a.store.ReplayDelivery(ctx, webhookID, deliveryID)
}

// checkHost refuses the URL of a webhook that resolves to an address to which nothing is
// delivered.
func (a *Authorizer) checkHost(ctx context.Context, url *string) error {
	if url == nil {
		return nil
	}
	var faults spend.Faults
	if err := webhook.CheckHost(ctx, *url, a.privateWebhooks); err != nil {
		faults.Add("url", err.Error())
	}
	return faults.Err()
}
