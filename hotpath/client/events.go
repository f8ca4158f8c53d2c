package client

import (
	"context"
	"encoding/json"
	"strconv"
)

// Event is something that happened (S51).
type Event struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"` // such as violation.recorded
	Timestamp Timestamp       `json:"timestamp"`
	Sequence  int64           `json:"sequence"`
	Data      json.RawMessage `json:"data"` // an object; what it has depends on the type
}

// EventPage is one page of the feed. It may be short, or empty, while there are
// more.
type EventPage struct {
	Data []Event `json:"data"`
	// NextAfter is what to ask after next, also when there are no more yet. A reader
	// that stores it with what it made of the events misses none and sees none twice.
	NextAfter int64 `json:"next_after"`
	HasMore   bool  `json:"has_more"`

	Body []byte `json:"-"` // the answer as it came
}

// Events reads a page of events of greater sequences than after, 0 the first. limit
// is 1 to 100; 0 is the service's default of 20.
func (c *Client) Events(ctx context.Context, after int64, limit int) (*EventPage, error) {
	from, _, err := c.send(ctx, get("/v1/events", map[string]string{"after": strconv.FormatInt(after, 10), "limit": optionalInt(limit)}))
	if err != nil {
		return nil, err
	}
	page := &EventPage{Body: from.body}
	if err := decode(from.body, page); err != nil {
		return nil, err
	}
	if page.NextAfter < after || page.HasMore && page.NextAfter == after {
		return nil, misunderstood("there are more events and no way to them")
	}
	return page, nil
}
