package httpapi

import (
	"strconv"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// getEvents answers GET /v1/events (S51).
func (a *API) getEvents(x *exchange) error {
	access, err := a.admit(x, x.caller(), true)
	if err != nil {
		return err
	}
	query, err := queryEvents(x.ctx.URI().QueryString())
	if err != nil {
		return err
	}
	ctx, cancel := x.readContext()
	defer cancel()
	page, err := a.authorizer.Events(ctx, access, query)
	if err != nil {
		return err
	}
	x.out = append(x.out, `{"data":[`...)
	for i := range page.Events {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = AppendEvent(x.out, &page.Events[i])
	}
	x.out = append(x.out, `],"next_after":`...)
	x.out = strconv.AppendInt(x.out, page.Next, 10)
	x.out = append(x.out, `,"has_more":`...)
	x.out = append(strconv.AppendBool(x.out, page.More), '}')
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
