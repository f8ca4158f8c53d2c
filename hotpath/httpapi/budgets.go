package httpapi

import (
	"strconv"
	"strings"

	"spendgate/hotpath"
	"spendgate/hotpath/spend"
)

// getBudgets answers GET /v1/budgets (S38).
func (a *API) getBudgets(x *exchange) error {
	access, err := a.admit(x, x.caller(), true)
	if err != nil {
		return err
	}
	query, filters, err := queryBudgets(x.ctx.URI().QueryString())
	if err != nil {
		return err
	}
	ctx, cancel := x.readContext()
	defer cancel()
	page, more, asOf, err := a.authorizer.Budgets(ctx, access, query)
	if err != nil {
		return err
	}
	var last string
	x.out = append(x.out, `{"data":[`...)
	for i := range page {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = appendBudget(x.out, query.PolicyID, &page[i])
		x.out = append(x.out, `,"as_of":`...)
		x.out = append(appendTime(x.out, asOf), '}')
		last = page[i].RuleID + "\x00" + page[i].Subject
	}
	x.out = appendPage(x.out, more, last, filters, -1)
	return x.answer(200)
}

// queryBudgets reads the query of GET /v1/budgets.
func queryBudgets(query []byte) (hotpath.BudgetQuery, filterSum, error) {
	var faults spend.Faults
	values := parameters(query, &faults, "policy_id", "rule_id", "agent_id", "counterparty", "limit", "cursor")
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
	filters := budgetFilters(&q)
	limit, position := queryPage(values, filters, &faults)
	q.Limit = limit
	if position != "" {
		var ok bool
		if q.After.RuleID, q.After.Subject, ok = strings.Cut(position, "\x00"); !ok {
			faults.Add("cursor", cursorForm)
		}
	}
	return q, filters, faults.Err()
}

// budgetFilters is the filterSum of a query; position and limit are none.
func budgetFilters(q *hotpath.BudgetQuery) filterSum {
	return sumOf("budgets 1", q.PolicyID, q.RuleID, q.AgentID, q.Counterparty)
}

// appendBudget writes a counter, without the end of its object.
func appendBudget(dst []byte, policyID string, c *hotpath.BudgetCounter) []byte {
	dst = append(dst, `{"policy_id":`...)
	dst = appendString(dst, policyID)
	dst = append(dst, `,"rule_id":`...)
	dst = appendString(dst, c.RuleID)
	dst = append(dst, `,"per":`...)
	dst = appendPer(dst, c.Per, c.Values)
	dst = append(dst, `,"currency":`...)
	dst = appendOptional(dst, c.Currency)
	dst = append(dst, `,"limit":`...)
	if c.Limited {
		dst = c.Limit.Append(dst)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"used":`...)
	dst = c.Used.Append(dst)
	dst = append(dst, `,"remaining":`...)
	if c.Limited {
		left, ok := c.Limit.Total().Minus(c.Used)
		if !ok { // lifted, or the limit was lowered
			left = spend.Total{}
		}
		dst = left.Append(dst)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, c.Count, 10)
	dst = append(dst, `,"max_count":`...)
	dst = appendCount(dst, c.Counted, c.MaxCount)
	dst = append(dst, `,"remaining_count":`...)
	dst = appendCount(dst, c.Counted, max(c.MaxCount-c.Count, 0))
	dst = appendWindow(dst, c.WindowName, c.TimeZone, c.RollingMinutes)
	dst = append(dst, `,"window_start":`...)
	dst = appendTime(dst, c.WindowStart)
	dst = append(dst, `,"resets_at":`...)
	if c.ResetsAt.IsZero() {
		dst = append(dst, "null"...)
	} else {
		dst = appendTime(dst, c.ResetsAt)
	}
	dst = append(dst, `,"counting_since":`...)
	return appendTime(dst, c.Since.At)
}

func appendCount(dst []byte, counted bool, n int64) []byte {
	if !counted {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, n, 10)
}

// appendPer writes for whom a counter counts, by the names of the rule's per.
func appendPer(dst []byte, names, values []string) []byte {
	dst = append(dst, '{')
	for i, value := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, names[i])
		dst = append(dst, ':')
		dst = appendString(dst, value)
	}
	return append(dst, '}')
}
