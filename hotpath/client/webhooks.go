package client

import (
	"context"
	"iter"

	"spendgate/hotpath/wire"
)

// Webhook is where events are delivered to (S52), without its secret.
type Webhook struct {
	wire.Webhook
	Raw
}

// AllWebhooks reads the webhooks, newest first. It needs the admin key. An error is the
// last that it yields.
func (c *Client) AllWebhooks(ctx context.Context) iter.Seq2[Webhook, error] {
	return pages[Webhook](ctx, c, asAdmin(get("/v1/webhooks")))
}
