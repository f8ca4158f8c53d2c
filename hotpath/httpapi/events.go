package httpapi

import (
	"strconv"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// getEvents answers GET /v1/events (S51).
func (a *API) getEvents(x *exchange) error {
	query, err := queryEvents(x.query())
	if err != nil {
		return err
	}
	ctx, cancel := x.readContext()
	defer cancel()
	page, err := a.authorizer.Events(ctx, x.access, query)
	if err != nil {
		return err
	}
	o := newObject(x.out)
	o.name("data")
	o = appendArray(o, len(page.Events), func(dst []byte, i int) []byte { return AppendEvent(dst, &page.Events[i]) })
	o.integer("next_after", page.Next)
	o.boolean("has_more", page.More)
	x.out = o.end()
	return x.answer(200)
}

// queryEvents reads the query of GET /v1/events.
func queryEvents(query []byte) (audit.EventQuery, error) {
	var faults spend.Faults
	values := parameters(query, &faults, "after", "limit")
	var q audit.EventQuery
	if s, given := values["after"]; given {
		after, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			faults.Add("after", "must be an integer of 0 or more")
		}
		q.After = int64(after) //nolint:gosec // of 63 bits
	}
	q.Limit, _ = queryPage(values, filterSum{}, &faults)
	return q, faults.Err()
}
