package httpapi

import (
	"strconv"
	"time"

	"spendgate/audit/spend"
)

// AppendCheckResult writes the answer to a check. It depends only on the check, so that a replay and a
// later GET are the same bytes. Every check is written here, so names and the punctuation between them
// are one append each.
func AppendCheckResult(dst []byte, c *spend.Check) []byte {
	d := &c.Decision
	dst = append(dst, `{"check_id":"`...)
	dst = c.ID.Append(dst, spend.PrefixCheck)
	dst = append(dst, `","decision":"`...)
	dst = append(dst, d.Effect.String()...)
	dst = append(dst, `","confidence":"`...)
	dst = append(dst, d.Confidence.String()...)
	dst = append(dst, `","reason_code":`...)
	dst = appendOptional(dst, string(d.Reason))
	dst = append(dst, `,"message":`...)
	dst = appendOptional(dst, d.Message)
	dst = append(dst, `,"violated_rule_id":`...)
	dst = appendOptional(dst, d.RuleID)
	dst = append(dst, `,"violated_rule_description":`...)
	dst = appendOptional(dst, d.RuleDescription)
	dst = append(dst, `,"policy_version":`...)
	dst = strconv.AppendInt(dst, int64(d.PolicyVersion), 10)
	dst = append(dst, `,"next_step":`...)
	dst = appendOptional(dst, d.NextStep)
	dst = append(dst, `,"latency_ms":`...)
	dst = strconv.AppendInt(dst, c.LatencyMS, 10)
	dst = append(dst, `,"timestamp":`...)
	dst = appendTime(dst, c.Timestamp())
	if c.Approval != nil {
		dst = append(dst, `,"approval_id":"`...)
		dst = append(c.ID.Append(dst, spend.PrefixApproval), '"')
	}
	return append(dst, '}')
}

// appendCheckRecord writes a check's result and action, and what became of the check, if anything is
// recorded about that.
func appendCheckRecord(dst []byte, c *spend.Check, became spend.Course, textAmounts bool) []byte {
	dst = AppendCheckResult(dst, c)
	o := objectWriter(dst[:len(dst)-1])
	if c.UsesApproval() {
		o.id("approval_id", c.Action.ApprovalID, spend.PrefixApproval)
	}
	o.name("action")
	o = appendAction(o, c, textAmounts)
	o.text("principal", c.PrincipalName())
	if outcome := became.Last(); outcome == nil {
		o.null("outcome")
	} else {
		o.name("outcome")
		o = appendOutcome(o, outcome, textAmounts)
	}
	if became.Redeemed != nil {
		o.name("redemption")
		o = appendRedemption(o, became)
	}
	return o.end()
}

// appendAction writes the action as it was evaluated: a body that could be sent
// again.
func appendAction(dst []byte, c *spend.Check, textAmounts bool) []byte {
	a, o := &c.Action, newObject(dst)
	o.text("agent_id", a.AgentID)
	o.text("policy_id", a.PolicyID)
	o.text("action_type", c.ActionType.String())
	o.amount(true, a.Amount, textAmounts)
	o.text("currency", a.Currency)
	o.text("counterparty", a.Counterparty)
	o.optional("payment_method", a.PaymentMethod)
	o.optional("merchant_or_vendor", a.MerchantOrVendor)
	o.optional("reason_text", a.ReasonText)
	o.optional("idempotency_key", a.IdempotencyKey)
	o.raw("metadata", a.Metadata.JSON)
	if !a.ApprovalID.IsZero() {
		o.id("approval_id", a.ApprovalID, spend.PrefixApproval)
	}
	return o.end()
}

// AppendOutcome writes an outcome.
func AppendOutcome(dst []byte, outcome *spend.Outcome) []byte {
	return appendOutcome(dst, outcome, false)
}

func appendOutcome(dst []byte, outcome *spend.Outcome, textAmounts bool) []byte {
	o := newObject(dst)
	o.outcome(outcome, textAmounts)
	return o.end()
}

// outcome writes the members of an outcome.
func (o *objectWriter) outcome(outcome *spend.Outcome, textAmounts bool) {
	var flags []string
	if outcome.Excess != "" {
		flags = []string{string(outcome.Excess)}
	}
	o.id("check_id", outcome.CheckID, spend.PrefixCheck)
	o.integer("report", int64(outcome.Number))
	o.text("status", string(outcome.Status))
	o.amount(outcome.Status == spend.Executed, outcome.Amount, textAmounts)
	o.optional("reference", outcome.Reference)
	o.optional("note", outcome.Note)
	o.text("release", string(outcome.Release))
	o.texts("flags", flags)
	o.text("principal", outcome.Reporter())
	o.text("key_id", outcome.KeyID)
	o.time("at", outcome.ID.Time())
}

// appendSimulation writes the answer to a simulation.
func appendSimulation(dst []byte, mode, policyID string, version int, checks []*spend.Check) []byte {
	o := newObject(dst)
	o.text("mode", mode)
	o.text("policy_id", policyID)
	o.integer("policy_version", int64(version))
	o.name("results")
	o = appendArray(o, len(checks), func(dst []byte, i int) []byte { return AppendCheckResult(dst, checks[i]) })
	var count [3]int64 // by effect
	for _, c := range checks {
		count[c.Decision.Effect]++
	}
	o.name("summary")
	summary := newObject(o)
	summary.integer("total", int64(len(checks)))
	summary.integer("allowed", count[spend.Allow])
	summary.integer("blocked", count[spend.Block])
	summary.integer("escalated", count[spend.Escalate])
	o = summary.end()
	return o.end()
}

// errorBody has the members of an error's body.
type errorBody struct {
	*refusal
	requestID   string
	at          time.Time
	latest      *spend.Outcome // the report that another one does not correct, or nil
	textAmounts bool           // of latest
	nextAfter   int64          // where a reader of events goes on, or 0
	holder      spend.ID       // the check that has what was asked for, or zero
}

// appendError writes the body of every error.
func appendError(dst []byte, e *errorBody) []byte {
	dst = append(dst, `{"error":{"code":"`...)
	dst = append(dst, e.code...)
	dst = append(dst, `","message":`...)
	dst = appendString(dst, e.message)
	dst = append(dst, `,"request_id":"`...)
	dst = append(dst, e.requestID...)
	dst = append(dst, `","timestamp":`...)
	dst = appendTime(dst, e.at)
	if e.latest != nil {
		dst = append(dst, `,"latest":`...)
		dst = appendOutcome(dst, e.latest, e.textAmounts)
	}
	if e.nextAfter > 0 {
		dst = strconv.AppendInt(append(dst, `,"next_after":`...), e.nextAfter, 10)
	}
	if !e.holder.IsZero() {
		dst = append(append(dst, `,"check_id":"`...), e.holder.Text(spend.PrefixCheck)...)
		dst = append(dst, '"')
	}
	return append(dst, `}}`...)
}
