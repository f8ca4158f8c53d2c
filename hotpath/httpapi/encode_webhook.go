package httpapi

import (
	"strconv"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// appendWebhook writes a webhook, with its secret if it is new.
func appendWebhook(dst []byte, w *audit.Webhook, secret audit.Secret) []byte {
	dst = append(dst, `{"webhook_id":"`...)
	dst = w.ID.Append(dst, spend.PrefixWebhook)
	dst = append(dst, `","url":`...)
	dst = appendString(dst, w.URL)
	if secret != "" {
		dst = append(dst, `,"secret":`...)
		dst = appendString(dst, string(secret))
	}
	dst = append(dst, `,"event_types":`...)
	dst = append(dst, audit.EventTypesText(w.EventTypes)...)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, w.Status()...)
	dst = append(dst, `","created_at":`...)
	dst = appendTime(dst, w.CreatedAt)
	return append(dst, '}')
}

// appendDelivery writes an attempt.
func appendDelivery(dst []byte, d *audit.Delivery) []byte {
	dst = append(dst, `{"delivery_id":"`...)
	dst = d.ID.Append(dst, spend.PrefixDelivery)
	dst = append(dst, `","webhook_id":"`...)
	dst = d.WebhookID.Append(dst, spend.PrefixWebhook)
	dst = append(dst, `","event_id":"`...)
	dst = d.EventID.Append(dst, spend.PrefixEvent)
	dst = append(dst, `","event_type":`...)
	dst = appendString(dst, string(d.EventType))
	dst = append(dst, `,"sequence":`...)
	dst = strconv.AppendInt(dst, d.Sequence, 10)
	dst = append(dst, `,"attempt":`...)
	dst = strconv.AppendInt(dst, int64(d.Attempt), 10)
	dst = append(dst, `,"timestamp":`...)
	dst = appendTime(dst, d.ID.Time())
	dst = append(dst, `,"duration_ms":`...)
	dst = strconv.AppendInt(dst, d.Duration.Milliseconds(), 10)
	dst = append(dst, `,"delivered":`...)
	dst = strconv.AppendBool(dst, d.Error == "")
	dst = append(dst, `,"status_code":`...)
	if d.StatusCode == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, int64(d.StatusCode), 10)
	}
	dst = append(dst, `,"error":`...)
	if d.Error == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, d.Error)
	}
	dst = append(dst, `,"next_attempt_at":`...)
	if d.NextAt.IsZero() {
		dst = append(dst, "null"...)
	} else {
		dst = appendTime(dst, d.NextAt)
	}
	return append(dst, '}')
}
