package client

import (
	"context"
	"time"

	"spendgate/hotpath/wire"
)

// Event is something that happened (S51).
type Event struct {
	wire.Event
	Raw
}

// EventQuery selects events; fields other than After may be empty.
type EventQuery struct {
	After int64  `json:"after"` // the sequence after which to read; 0 reads from the first
	Type  string `json:"type"`  // such as violation.recorded
	From  string `json:"from"`  // an RFC 3339 time or a date, inclusive: where the feed begins if After is 0
	Limit int    `json:"limit"` // a page's, 1 to 100; 0 is the service's default of 20
	// Wait lets the service hold an empty page until there is an event for it, in whole seconds and at
	// most 30.
	Wait time.Duration `json:"-"`
}

// EventPage is one page of the feed. It may be short, or empty, while there are
// more.
type EventPage struct {
	wire.EventPage
	Data []Event `json:"data"`

	Raw
}

// Events reads a page of the events with sequences greater than After. If some of these were
// removed, the Error has CodeEventsRemoved and NextAfter.
func (c *Client) Events(ctx context.Context, q EventQuery) (*EventPage, error) {
	r := find("/v1/events", q)
	r.wait = max(0, min(q.Wait, MaxApprovalWait)).Truncate(time.Second)
	from, _, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	page := &EventPage{Raw: Raw{from.body}}
	if err := decode(from.body, page); err != nil {
		return nil, err
	}
	if page.NextAfter < q.After || page.HasMore && page.NextAfter == q.After {
		return nil, misunderstood("there are more events and no way to them")
	}
	return page, acceptAll(page.Data, from.body)
}
