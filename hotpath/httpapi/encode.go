package httpapi

import (
	"encoding/json"
	"strconv"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
	"spendgate/hotpath/wire"
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
	dst = append(dst, `,"timestamp":"`...)
	dst = append(spend.AppendTime(dst, c.Timestamp()), '"')
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
	if c.UsesApproval() {
		dst = append(dst[:len(dst)-1], `,"approval_id":"`...)
		dst = append(c.Action.ApprovalID.Append(dst, spend.PrefixApproval), `"}`...)
	}
	end := len(dst) - 1 // where the other members follow
	record := wire.CheckRecord{Action: actionOf(c), Principal: c.PrincipalName()}
	if outcome := became.Last(); outcome != nil {
		record.Outcome = outcomeOf(outcome)
	}
	if became.Redeemed != nil {
		record.Redemption = new(courseOf(became))
	}
	dst = wire.Append(dst[:end], &record, textAmounts)
	dst[end] = ','
	return dst
}

// actionOf returns the action as it was evaluated: a body that could be sent
// again.
func actionOf(c *spend.Check) wire.RecordedAction {
	a := &c.Action
	shown := wire.RecordedAction{
		AgentID: a.AgentID, PolicyID: a.PolicyID, ActionType: wire.ActionType(c.ActionType.String()), Amount: a.Amount, Currency: a.Currency,
		Counterparty: a.Counterparty, PaymentMethod: a.PaymentMethod, MerchantOrVendor: a.MerchantOrVendor, ReasonText: a.ReasonText,
		IdempotencyKey: a.IdempotencyKey, Metadata: wire.Text(a.Metadata.JSON),
	}
	if c.Payment != nil { // whose approvals the service finds
		shown.PaymentKey = c.Payment.Key
	} else if !a.ApprovalID.IsZero() {
		shown.ApprovalID = a.ApprovalID.Text(spend.PrefixApproval)
	}
	return shown
}

// AppendOutcome writes an outcome.
func AppendOutcome(dst []byte, outcome *spend.Outcome) []byte {
	return wire.Append(dst, outcomeOf(outcome), false)
}

func outcomeOf(o *spend.Outcome) *wire.Outcome {
	shown := &wire.Outcome{
		CheckID: o.CheckID.Text(spend.PrefixCheck), Report: o.Number, Status: string(o.Status), Reference: o.Reference, Note: o.Note,
		Amount: known(o.Status == spend.Executed, o.Amount), Release: string(o.Release), Principal: o.Reporter(), KeyID: o.KeyID,
		At: wire.Timestamp{Time: o.ID.Time()},
	}
	if o.Excess != "" {
		shown.Flags = []string{string(o.Excess)}
	}
	for _, flag := range o.Payment.Flags {
		shown.Flags = append(shown.Flags, string(flag))
	}
	return shown
}

func redeemedOf(o *spend.Outcome) wire.Redeemed {
	return wire.Redeemed{
		CheckID: o.CheckID.Text(spend.PrefixCheck), RedemptionID: o.ID.Text(spend.PrefixRedemption),
		RedeemedAt: wire.Timestamp{Time: o.ID.Time()}, Principal: o.Reporter(), KeyID: o.KeyID,
	}
}

// courseOf says who redeemed a check, and whether it is in doubt.
func courseOf(became spend.Course) wire.RecordedRedemption {
	shown := wire.RecordedRedemption{Redeemed: redeemedOf(became.Holder())}
	if doubt := became.Doubt; doubt != nil && became.Reports == nil {
		shown.InDoubtAt = &wire.Timestamp{Time: doubt.ID.Time()}
	}
	return shown
}

// shownSimulation returns the answer to a simulation.
func shownSimulation(mode, policyID string, version int, checks []*spend.Check) wire.Simulation {
	results := make([]json.RawMessage, len(checks))
	var count [3]int // by effect
	for i, c := range checks {
		results[i] = AppendCheckResult(nil, c)
		count[c.Decision.Effect]++
	}
	return wire.Simulation{
		Mode: mode, PolicyID: policyID, PolicyVersion: version, Results: results,
		Summary: wire.SimulationSummary{
			Total: len(checks), Allowed: count[spend.Allow], Blocked: count[spend.Block], Escalated: count[spend.Escalate],
		},
	}
}

// appendOptional writes null for an absent string.
func appendOptional(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return wire.AppendString(dst, s)
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
	differs     []string       // the members in which a request differs from its payment; nil for other errors
	payment     *hotpath.PaymentView
	state       audit.PaymentStatus // of the payment that is taken; empty for other errors
}

// appendError writes the body of every error.
func appendError(dst []byte, e *errorBody) []byte {
	dst = append(dst, `{"error":{"code":"`...)
	dst = append(dst, e.code...)
	dst = append(dst, `","message":`...)
	dst = wire.AppendString(dst, e.message)
	dst = append(dst, `,"request_id":"`...)
	dst = append(dst, e.requestID...)
	dst = append(dst, `","timestamp":"`...)
	dst = append(spend.AppendTime(dst, e.at), '"')
	if e.latest != nil {
		dst = append(dst, `,"latest":`...)
		dst = wire.Append(dst, outcomeOf(e.latest), e.textAmounts)
	}
	if e.nextAfter > 0 {
		dst = strconv.AppendInt(append(dst, `,"next_after":`...), e.nextAfter, 10)
	}
	if !e.holder.IsZero() {
		dst = append(append(dst, `,"check_id":"`...), e.holder.Text(spend.PrefixCheck)...)
		dst = append(dst, '"')
	}
	for i, name := range e.differs {
		dst = append(dst, [...]string{`,"differs":["`, `","`}[min(i, 1)]...)
		dst = append(dst, name...)
	}
	if e.differs != nil {
		dst = append(dst, `"]`...)
	}
	if e.state != "" {
		dst = append(append(append(dst, `,"state":"`...), e.state...), '"')
	}
	dst = appendPayment(append(dst, '}'), e.payment)
	return append(dst, '}')
}
