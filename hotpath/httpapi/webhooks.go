package httpapi

import (
	"github.com/valyala/fasthttp"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/webhook"
	"spendgate/hotpath/wire"
)

// The members of a webhook.
const (
	memberURL        = "url"
	memberEventTypes = "event_types"
	memberStatus     = "status"
)

// postWebhook answers POST /v1/webhooks. Events from now on are delivered to it.
func (a *API) postWebhook(x *exchange) error {
	var change audit.WebhookChange
	if err := x.decode(func(r *reader) { decodeWebhook(r, &change, newWebhook) }); err != nil {
		return err
	}
	w, secret, err := a.Authorizer.CreateWebhook(x.readContext(), a.adminActor(x), change)
	if err != nil {
		return err
	}
	x.ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	return respond(x, 201, webhookOf(w, secret))
}

// webhookBody is the kind of a body.
type webhookBody bool

const (
	changedWebhook webhookBody = false
	newWebhook     webhookBody = true
)

// decodeWebhook reads the body of POST /v1/webhooks, or of PATCH, whose members may all be left out.
func decodeWebhook(r *reader, c *audit.WebhookChange, body webhookBody) {
	for r.next() {
		switch {
		case r.name == memberURL:
			if text, ok := r.string(); ok {
				c.URL = &text
			}
		case r.name == memberEventTypes:
			for _, s := range r.bindings(func(path, s string) {
				if !audit.EventType(s).Known() {
					r.fault(path, "must be a type of event, such as approval.requested")
				}
			}) {
				c.EventTypes = append(c.EventTypes, audit.EventType(s))
			}
		case r.name == memberStatus && body == changedWebhook:
			if text, ok := r.string(); ok {
				c.Active = new(text == "active")
				if text != "active" && text != "disabled" {
					r.fault(memberStatus, "must be active or disabled")
				}
			}
		default:
			r.unknown()
		}
	}
	if c.URL != nil && r.failed == nil {
		if err := webhook.CheckURL(*c.URL); err != nil {
			r.fault(memberURL, err.Error())
		}
	}
	switch {
	case body == newWebhook:
		if c.URL == nil {
			r.missing(memberURL, 0)
		}
		if c.EventTypes == nil {
			r.missing(memberEventTypes, 0)
		}
	case c.Empty() && len(r.faults) == 0:
		r.fault(memberURL, "or event_types or status is required: there is nothing to change")
	}
}

// getWebhooks answers GET /v1/webhooks. There are so few that all are one page.
func (a *API) getWebhooks(x *exchange) error {
	all, err := a.Store.ListWebhooks(x.readContext())
	if err != nil {
		return err
	}
	return listing[audit.Webhook, wire.Webhook]{page: all, record: shownWebhook, total: new(int64(len(all)))}.answer(x)
}

// getWebhook answers GET /v1/webhooks/{webhook_id}.
func (a *API) getWebhook(x *exchange, id spend.ID) error {
	return reply(x, 200, shownWebhook)(a.Store.Webhook(x.readContext(), id))
}

// patchWebhook answers PATCH /v1/webhooks/{webhook_id}.
func (a *API) patchWebhook(x *exchange) error {
	var change audit.WebhookChange
	if err := x.decode(func(r *reader) { decodeWebhook(r, &change, changedWebhook) }); err != nil {
		return err
	}
	id, err := x.pathID("webhook_id")
	if err != nil {
		return err
	}
	return reply(x, 200, shownWebhook)(a.Authorizer.UpdateWebhook(x.readContext(), a.adminActor(x), id, change))
}

// postRotate answers POST /v1/webhooks/{webhook_id}/rotate.
func (a *API) postRotate(x *exchange, id spend.ID) error {
	w, secret, err := a.Authorizer.RotateWebhook(x.readContext(), a.adminActor(x), id)
	if err != nil {
		return err
	}
	x.ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	return respond(x, 200, webhookOf(w, secret))
}

// deleteWebhook answers DELETE /v1/webhooks/{webhook_id}.
func (a *API) deleteWebhook(x *exchange, id spend.ID) error {
	if err := a.Authorizer.DeleteWebhook(x.readContext(), a.adminActor(x), id); err != nil {
		return err
	}
	return x.answerNothing()
}

// getDeliveries answers GET /v1/webhooks/{webhook_id}/deliveries.
func (a *API) getDeliveries(x *exchange, id spend.ID) error {
	var faults spend.Faults
	values := parameters(x.query(), &faults, "limit", "cursor", memberStatus)
	status, failed := values[memberStatus]
	if failed && status != "failed" {
		faults.Add(memberStatus, "must be failed")
	}
	filters := sumOf("deliveries 2", string(id[:]), status)
	limit, before := queryPageBefore(values, filters, &faults)
	if err := faults.Err(); err != nil {
		return err
	}
	ctx := x.readContext()
	if _, err := a.Store.Webhook(ctx, id); err != nil {
		return err
	}
	page, more, err := a.Store.Deliveries(ctx, audit.DeliveryQuery{WebhookID: id, Failed: failed, Before: before, Limit: limit})
	if err != nil {
		return err
	}
	return listing[audit.Delivery, wire.Delivery]{
		page: page, record: deliveryOf, position: func(d *audit.Delivery) string { return string(d.ID[:]) },
		more: more, filters: filters,
	}.answer(x)
}

// postRetry answers POST /v1/webhooks/{webhook_id}/retry.
func (a *API) postRetry(x *exchange, id spend.ID) error {
	waiting, err := a.Authorizer.RetryWebhook(x.readContext(), id)
	if err != nil {
		return err
	}
	return respond(x, fasthttp.StatusAccepted, wire.Retried{WebhookID: id.Text(spend.PrefixWebhook), Retried: waiting})
}

// postReplay answers POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/replay.
func (a *API) postReplay(x *exchange, id spend.ID) error {
	delivery, err := x.pathID("delivery_id")
	if err != nil {
		return err
	}
	ctx := x.readContext()
	if _, err := a.Store.Webhook(ctx, id); err != nil {
		return orAbsent(err, errWebhookNotFound)
	}
	return reply(x, fasthttp.StatusAccepted, deliveryOf)(a.Authorizer.ReplayDelivery(ctx, id, delivery))
}
