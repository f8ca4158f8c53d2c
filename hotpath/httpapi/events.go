package httpapi

import (
	"strconv"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

// getEvents answers GET /v1/events (S51), and holds an empty page as Prefer: wait asks.
func (a *API) getEvents(x *exchange) error {
	query, from, err := queryEvents(x.query())
	if err != nil {
		return err
	}
	ctx := x.readContext()
	if !from.IsZero() {
		if query.After, err = a.Authorizer.EventsFrom(ctx, from, query.After); err != nil {
			return err
		}
	}
	wait, asked := preferredWait(x.ctx.Request.Header.PeekAll(headerPrefer))
	page, waited, err := a.Authorizer.AwaitEvents(ctx, x.access, query, wait, a.drain)
	if err != nil {
		return err
	}
	if asked && waited {
		x.applied("wait=" + strconv.Itoa(int(wait/time.Second)))
	}
	shown := wire.EventPage{Data: make([]wire.Event, len(page.Events)), NextAfter: page.Next, HasMore: page.More}
	for i := range page.Events {
		shown.Data[i] = eventOf(&page.Events[i], x.textAmounts, a.ConsoleURL)
	}
	return respond(x, 200, shown)
}

// queryEvents reads the query of GET /v1/events. The feed begins at from or behind the cursor, at the
// later of both; from is zero if it is not given.
func queryEvents(query []byte) (q audit.EventQuery, from time.Time, err error) {
	var faults spend.Faults
	values := parameters(query, &faults, "after", "limit", "type", "from")
	if s, given := values["type"]; given {
		for name := range strings.SplitSeq(s, ",") {
			if q.Types = append(q.Types, audit.EventType(name)); !audit.EventType(name).Known() {
				faults.Add("type", "must be a type of event, or some with commas between them")
				break
			}
		}
	}
	from, _ = queryInstant("from", values, dayBegin, &faults)
	if s, given := values["after"]; given {
		after, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			faults.Add("after", "must be an integer of 0 or more")
		}
		q.After = int64(after) //nolint:gosec // of 63 bits
	}
	q.Limit, _ = queryPage(values, filterSum{}, &faults)
	return q, from, faults.Err()
}
