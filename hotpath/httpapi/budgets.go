package httpapi

import (
	"strings"

	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
)

// getBudgets answers GET /v1/budgets (S38).
func (a *API) getBudgets(x *exchange) error {
	query, filters, err := queryBudgets(x.query())
	if err != nil {
		return err
	}
	page, err := a.Authorizer.Budgets(x.readContext(), x.access, query)
	if err != nil {
		return err
	}
	record := func(c *hotpath.BudgetCounter) wire.Budget { return budgetOf(query.PolicyID, c, page.AsOf) }
	position := func(c *hotpath.BudgetCounter) string { return c.RuleID + "\x00" + c.Subject }
	return listing[hotpath.BudgetCounter, wire.Budget]{
		page: page.Counters, record: record, position: position, more: page.More, filters: filters,
	}.answer(x)
}

// queryBudgets reads the query of GET /v1/budgets.
func queryBudgets(query []byte) (hotpath.BudgetQuery, filterSum, error) {
	var faults spend.Faults
	values := parameters(query, &faults, "policy_id", "rule_id", "agent_id", "counterparty", "at", "limit", "cursor")
	q := hotpath.BudgetQuery{
		PolicyID: values["policy_id"], RuleID: values["rule_id"], AgentID: values["agent_id"], Counterparty: values["counterparty"],
	}
	switch {
	case q.PolicyID == "":
		faults.Add("policy_id", "is required")
	case !spend.ValidPolicyID(q.PolicyID):
		faults.Add("policy_id", spend.PolicyIDForm)
	}
	spend.CheckLength(&faults, "rule_id", q.RuleID, spend.MaxIdentifier)
	spend.CheckLength(&faults, "agent_id", q.AgentID, spend.MaxIdentifier)
	spend.CheckLength(&faults, "counterparty", q.Counterparty, spend.MaxIdentifier)
	if at, given := queryInstant("at", values, dayBegin, &faults); given {
		q.At = recordable(at)
	}
	filters := sumOf("budgets 1", q.PolicyID, q.RuleID, q.AgentID, q.Counterparty, values["at"])
	var position string
	q.Limit, position = queryPage(values, filters, &faults)
	if position != "" {
		var ok bool
		if q.After.RuleID, q.After.Subject, ok = strings.Cut(position, "\x00"); !ok {
			faults.Add("cursor", cursorForm)
		}
	}
	return q, filters, faults.Err()
}
