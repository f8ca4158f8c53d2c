package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// maxExamined is how many checks a page examines at most: a page that selects rare checks costs no
// more, and may be short.
const maxExamined = 5000

// checkQuery is a query for checks, page by page.
type checkQuery struct {
	audit.CheckQuery
	// listed are checks that the first page has although they are older than those it examined, so
	// that the next pages leave them out.
	listed []spend.ID
	// paymentKey is in the namespace of AskedBy, or of the caller if that is empty.
	paymentKey string
}

// getChecks answers GET /v1/checks.
func (a *API) getChecks(x *exchange) error {
	query, filters, err := queryChecks(x.query())
	if err != nil {
		return err
	}
	query.Bounds = x.access.Bounds()
	switch {
	case query.paymentKey == "":
	case query.AskedBy == "":
		query.Payment = x.access.Payment(query.paymentKey)
	default:
		query.Payment, query.AskedBy = a.Authorizer.PaymentIn(query.AskedBy, query.paymentKey), ""
	}
	ctx := x.readContext()
	page, err := a.Store.ListChecks(ctx, query.CheckQuery)
	if err == nil && query.IdempotencyKey != "" {
		err = a.addRecent(ctx, x.access, &query, &page)
	}
	if err != nil {
		return err
	}
	ids := make([]spend.ID, len(page.Checks))
	for i, c := range page.Checks {
		ids[i] = c.ID
	}
	became, err := audit.Courses(ctx, a.Store, ids)
	if err != nil {
		return err
	}
	payments, err := a.Authorizer.PaymentsOf(ctx, x.access, page.Checks, became)
	if err != nil {
		return err
	}
	record := func(c **spend.Check) json.RawMessage {
		return appendPayment(appendCheckRecord(nil, *c, became[(*c).ID], x.textAmounts), payments[(*c).ID])
	}
	position := page.Next[:]
	for _, id := range query.listed {
		position = append(position, id[:]...)
	}
	return listing[*spend.Check, json.RawMessage]{
		page: page.Checks, record: record, position: func(**spend.Check) string { return string(position) },
		more: page.More, filters: filters,
	}.answer(x)
}

// addRecent removes checks from a page that an earlier page had, and adds to the first page the checks
// that the caller made with the idempotency key in the last 24 hours, however many others were made
// since.
func (a *API) addRecent(ctx context.Context, access hotpath.Access, q *checkQuery, page *audit.CheckPage) error {
	has := func(id spend.ID) bool {
		return slices.ContainsFunc(page.Checks, func(c *spend.Check) bool { return c.ID == id })
	}
	if !q.Before.IsZero() {
		page.Checks = slices.DeleteFunc(page.Checks, func(c *spend.Check) bool { return slices.Contains(q.listed, c.ID) })
		return nil
	}
	recent, err := a.Store.CheckIDsByKey(ctx, access.KeyHashes(q.IdempotencyKey, q.ApprovalID))
	if err != nil {
		return err
	}
	low, end := q.IDRange()
	for _, id := range recent {
		if !page.More || has(id) || len(page.Checks) == q.Limit || id.Compare(low) < 0 || id.Compare(end) >= 0 {
			continue
		}
		one := q.CheckQuery
		one.Before, one.Limit, one.Examine = id.Next(), 1, 1
		found, err := a.Store.ListChecks(ctx, one)
		if err != nil {
			return err
		}
		if len(found.Checks) == 1 && found.Checks[0].ID == id {
			page.Checks, q.listed = append(page.Checks, found.Checks[0]), append(q.listed, id)
		}
	}
	slices.SortFunc(page.Checks, func(a, b *spend.Check) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	return nil
}

// queryChecks reads the query of GET /v1/checks (S55).
func queryChecks(query []byte) (checkQuery, filterSum, error) {
	var faults spend.Faults
	q := checkQuery{CheckQuery: audit.CheckQuery{Examine: maxExamined}}
	values := parameters(query, &faults, "agent_id", "policy_id", "counterparty", "action_type", "reason_code", "rule_id", "idempotency_key",
		"payment_key", "principal", "approval_id", "decision", "outcome", "amount_from", "amount_to", "from", "to", "before", "limit", "cursor")
	q.queryAction(values, &faults)
	if s, given := values["decision"]; given {
		effect, ok := spend.ParseEffect(s)
		if q.Effect = &effect; !ok {
			faults.Add("decision", "must be allow, block or escalate")
		}
	}
	if s, given := values["outcome"]; given {
		if q.Outcome = spend.Status(s); q.Outcome != audit.NoOutcome && q.Outcome != spend.InDoubt && !q.Outcome.Known() {
			faults.Add("outcome", "must be none, in_doubt, executed, failed or voided")
		}
	}
	var last time.Time
	if q.From, last = queryRange(values, &faults); !last.IsZero() {
		q.Until = last.Add(time.Millisecond)
	}
	if before, given := queryInstant("before", values, dayBegin, &faults); given {
		before = firstRecordable(before)
		if q.From.After(before) {
			faults.Add("from", "must not be after before")
		}
		if q.Until.IsZero() || before.Before(q.Until) {
			q.Until = before
		}
	}
	q.Amounts = queryAmounts(values, &faults)
	filters := checkFilters(&q.CheckQuery, q.paymentKey, values["amount_from"], values["amount_to"])
	var position string
	q.Limit, position = queryPage(values, filters, &faults)
	if len(position)%len(q.Before) != 0 {
		faults.Add("cursor", cursorForm)
	} else if position != "" {
		n := copy(q.Before[:], position)
		for id := range slices.Chunk([]byte(position[n:]), n) {
			q.listed = append(q.listed, spend.ID(id))
		}
	}
	return q, filters, faults.Err()
}

// queryAction reads the filters that compare an action, and the reason.
func (q *checkQuery) queryAction(values map[string]string, faults *spend.Faults) {
	q.AgentID, q.PolicyID, q.ActionType = queryWhat(values, faults)
	q.Counterparty, q.IdempotencyKey = values["counterparty"], values["idempotency_key"]
	spend.CheckLength(faults, "counterparty", q.Counterparty, spend.MaxIdentifier)
	spend.CheckLength(faults, "idempotency_key", q.IdempotencyKey, spend.MaxIdempotencyKey)
	q.Reason = spend.Reason(values["reason_code"]) // one that no decision has selects nothing
	spend.CheckLength(faults, "reason_code", values["reason_code"], spend.MaxIdentifier)
	q.RuleID = values["rule_id"]
	spend.CheckLength(faults, "rule_id", q.RuleID, spend.MaxIdentifier)
	if s, given := values["payment_key"]; given {
		var fault string
		if q.paymentKey, fault = spend.PaymentKey(s); fault != "" || q.paymentKey == "" {
			faults.Add("payment_key", cmp.Or(fault, "must not be blank"))
		}
	}
	q.AskedBy = values["principal"]
	spend.CheckLength(faults, "principal", q.AskedBy, spend.MaxPrincipal)
	if s, given := values["approval_id"]; given {
		var err error
		if q.ApprovalID, err = spend.ParseID(s, spend.PrefixApproval); err != nil {
			faults.Add("approval_id", "must be apr_ and 32 hexadecimal digits")
		}
		if q.ApprovalID.IsZero() { // which would not filter
			q.ApprovalID = audit.MaxID() // no approval has that one either
		}
	}
}
