package httpapi

import (
	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

// getViolations answers GET /v1/violations.
func (a *API) getViolations(x *exchange) error {
	query, filters, err := queryViolations(x.query())
	if err != nil {
		return err
	}
	query.Bounds = x.access.Bounds()
	page, err := a.Store.Violations(x.readContext(), query)
	if err != nil {
		return err
	}
	return listing[audit.Violation, wire.Violation]{
		page: page.Violations, record: violationOf,
		position: func(v *audit.Violation) string { return string(v.ID[:]) }, more: page.More, filters: filters, total: &page.Total,
	}.answer(x)
}

// queryViolations reads the query of GET /v1/violations.
func queryViolations(query []byte) (audit.ViolationQuery, filterSum, error) {
	var faults spend.Faults
	q := audit.ViolationQuery{Limit: defaultPage}
	values := parameters(query, &faults, "agent_id", "policy_id", "action_type", "decision", "amount_from", "amount_to", "from", "to",
		"limit", "cursor")
	q.AgentID, q.PolicyID, q.ActionType = queryWhat(values, &faults)
	if s, given := values["decision"]; given {
		var ok bool
		if q.Effect, ok = spend.ParseEffect(s); !ok || q.Effect == spend.Allow {
			faults.Add("decision", "must be block or escalate")
		}
	}
	q.From, q.To = queryRange(values, &faults)
	q.Amounts = queryAmounts(values, &faults)
	filters := violationFilters(&q, values["amount_from"], values["amount_to"])
	q.Limit, q.Before = queryPageBefore(values, filters, &faults)
	return q, filters, faults.Err()
}
