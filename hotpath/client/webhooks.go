package client

import (
	"context"
	"iter"
)

// Webhook is where events are delivered to (S52), without its secret.
type Webhook struct {
	WebhookID  string    `json:"webhook_id"`
	URL        string    `json:"url"`
	EventTypes []string  `json:"event_types"`
	Status     string    `json:"status"` // active or disabled
	CreatedAt  Timestamp `json:"created_at"`

	Raw
}

// AllWebhooks reads the webhooks, newest first. It needs the admin key. An error is the
// last that it yields.
func (c *Client) AllWebhooks(ctx context.Context) iter.Seq2[Webhook, error] {
	return pages[Webhook](ctx, c, "", func(string) request {
		r := get("/v1/webhooks", nil)
		r.admin = true
		return r
	})
}
