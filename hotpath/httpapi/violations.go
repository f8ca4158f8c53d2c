package httpapi

import "spendgate/hotpath/spend"

// getViolations answers GET /v1/violations.
func (a *API) getViolations(x *exchange) error {
	access, err := a.admit(x, x.caller(), true)
	if err != nil {
		return err
	}
	query, filters, err := queryViolations(x.ctx.URI().QueryString())
	if err != nil {
		return err
	}
	query.Bounds = access.Bounds()
	ctx, cancel := x.readContext()
	defer cancel()
	page, err := a.store.Violations(ctx, query)
	if err != nil {
		return err
	}
	var last spend.ID
	x.out = append(x.out, `{"data":[`...)
	for i := range page.Violations {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = appendViolation(x.out, &page.Violations[i])
		last = page.Violations[i].ID
	}
	x.out = appendPage(x.out, page.More, string(last[:]), filters, page.Total)
	return x.answer(200)
}
