package httpapi

import (
	"cmp"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// maxExamined is how many checks a page looks at: one that asks for what is rare
// costs no more than that, and is short.
const maxExamined = 5000

// getChecks answers GET /v1/checks.
func (a *API) getChecks(x *exchange) error {
	access, err := a.admit(x, x.caller(), true)
	if err != nil {
		return err
	}
	query, filters, err := queryChecks(x.ctx.URI().QueryString())
	if err != nil {
		return err
	}
	query.Bounds = access.Bounds()
	ctx, cancel := x.readContext()
	defer cancel()
	page, err := a.store.ListChecks(ctx, query)
	if err != nil {
		return err
	}
	ids := make([]spend.ID, len(page.Checks))
	for i, c := range page.Checks {
		ids[i] = c.ID
	}
	outcomes, err := a.store.Outcomes(ctx, ids)
	if err != nil {
		return err
	}
	last := make(map[spend.ID]*spend.Outcome, len(outcomes))
	for _, o := range outcomes { // in the order of their numbers
		last[o.CheckID] = o
	}
	x.out = append(x.out, `{"data":[`...)
	for i, c := range page.Checks {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = appendCheckRecord(x.out, c, last[c.ID])
	}
	x.out = appendPage(x.out, page.More, string(page.Next[:]), filters, -1)
	return x.answer(200)
}

// queryChecks reads the query of GET /v1/checks (S55).
func queryChecks(query []byte) (audit.CheckQuery, filterSum, error) {
	var faults spend.Faults
	q := audit.CheckQuery{Examine: maxExamined}
	values := parameters(query, &faults, "agent_id", "policy_id", "decision", "outcome", "from", "to", "before", "limit", "cursor")
	q.AgentID, q.PolicyID = values["agent_id"], values["policy_id"]
	spend.CheckLength(&faults, "agent_id", q.AgentID, spend.MaxIdentifier)
	if q.PolicyID != "" && !spend.ValidPolicyID(q.PolicyID) {
		faults.Add("policy_id", spend.PolicyIDForm)
	}
	if s, given := values["decision"]; given {
		effect, ok := spend.ParseEffect(s)
		if q.Effect = &effect; !ok {
			faults.Add("decision", "must be allow, block or escalate")
		}
	}
	if s, given := values["outcome"]; given {
		if q.Unreported = true; s != "none" {
			faults.Add("outcome", "must be none")
		}
	}
	var last time.Time
	if q.From, last = queryRange(values, &faults); !last.IsZero() {
		q.Until = last.Add(time.Millisecond)
	}
	if before, given := queryInstant("before", values, false, &faults); given {
		before = firstRecordable(before)
		if q.From.After(before) {
			faults.Add("from", "must not be after before")
		}
		if q.Until.IsZero() || before.Before(q.Until) {
			q.Until = before
		}
	}
	filters := checkFilters(&q)
	q.Limit, q.Before = queryPageBefore(values, filters, &faults)
	return q, filters, faults.Err()
}

// appendCheckRecord writes a check's result, what it was the answer to and what
// became of it, if that was reported.
func appendCheckRecord(dst []byte, c *spend.Check, o *spend.Outcome) []byte {
	dst = AppendCheckResult(dst, c)
	dst = dst[:len(dst)-1]
	if c.UsesApproval() {
		dst = append(dst, `,"approval_id":"`...)
		dst = append(c.Action.ApprovalID.Append(dst, spend.PrefixApproval), '"')
	}
	dst = append(dst, `,"action":`...)
	dst = appendAction(dst, c)
	dst = append(dst, `,"principal":`...)
	dst = appendString(dst, c.PrincipalName())
	dst = append(dst, `,"outcome":`...)
	if o == nil {
		dst = append(dst, "null"...)
	} else {
		dst = AppendOutcome(dst, o)
	}
	return append(dst, '}')
}

// appendAction writes the action as it was evaluated: a body that could be sent
// again.
func appendAction(dst []byte, c *spend.Check) []byte {
	a := &c.Action
	dst = append(dst, `{"agent_id":`...)
	dst = appendString(dst, a.AgentID)
	dst = append(dst, `,"policy_id":`...)
	dst = appendString(dst, a.PolicyID)
	dst = append(dst, `,"action_type":"`...)
	dst = append(dst, c.ActionType.String()...)
	dst = append(dst, `","amount":`...)
	dst = a.Amount.Append(dst)
	dst = append(dst, `,"currency":`...)
	dst = appendString(dst, a.Currency)
	dst = append(dst, `,"counterparty":`...)
	dst = appendString(dst, a.Counterparty)
	dst = append(dst, `,"payment_method":`...)
	dst = appendOptional(dst, a.PaymentMethod)
	dst = append(dst, `,"merchant_or_vendor":`...)
	dst = appendOptional(dst, a.MerchantOrVendor)
	dst = append(dst, `,"reason_text":`...)
	dst = appendOptional(dst, a.ReasonText)
	dst = append(dst, `,"idempotency_key":`...)
	dst = appendOptional(dst, a.IdempotencyKey)
	dst = append(dst, `,"metadata":`...)
	dst = append(dst, cmp.Or(a.Metadata.JSON, "null")...)
	if !a.ApprovalID.IsZero() {
		dst = append(dst, `,"approval_id":"`...)
		dst = append(a.ApprovalID.Append(dst, spend.PrefixApproval), '"')
	}
	return append(dst, '}')
}
