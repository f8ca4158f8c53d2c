package spend

import "slices"

// ActionType is the kind of an action with money. The zero value means that the request did not name
// it.
type ActionType uint8

// The action types of V1.
const (
	Unspecified ActionType = iota
	Refund
	Credit
	Discount
	Spend
)

// ActionTypes are all there are, in the interface's order.
var ActionTypes = [...]ActionType{Refund, Credit, Discount, Spend}

var actionTypeNames = [...]string{"", "refund", "credit", "discount", "spend"}

func (t ActionType) String() string { return actionTypeNames[t] }

// ParseActionType accepts the four names exactly as they are spelt.
func ParseActionType(s string) (ActionType, bool) {
	i := slices.Index(actionTypeNames[:], s)
	return ActionType(max(i, 0)), i > 0
}

// Effect is the effect of a decision. Greater effects win: block over escalate over allow.
type Effect uint8

// The effects.
const (
	Allow Effect = iota
	Escalate
	Block
)

var effectNames = [...]string{"allow", "escalate", "block"}

func (e Effect) String() string { return effectNames[e] }

// ParseEffect is the inverse of String; of another text it returns Allow and false.
func ParseEffect(s string) (Effect, bool) {
	i := slices.Index(effectNames[:], s)
	return Effect(max(i, 0)), i >= 0
}

// Confidence is how sure the service is of a decision's premises (S16).
type Confidence uint8

// The confidences, in order.
const (
	Low Confidence = iota
	Medium
	High
)

var confidenceNames = [...]string{"low", "medium", "high"}

func (c Confidence) String() string { return confidenceNames[c] }

// ParseConfidence is the inverse of String; of another text it returns Low and false.
func ParseConfidence(s string) (Confidence, bool) {
	i := slices.Index(confidenceNames[:], s)
	return Confidence(max(i, 0)), i >= 0
}

// Reason is a reason_code (S15); empty on allow.
type Reason string

// The reason codes.
const (
	ReasonNone                  Reason = ""
	ReasonMaxAmount             Reason = "max_amount_exceeded"
	ReasonCurrencyNotCovered    Reason = "currency_not_covered"
	ReasonRefundAge             Reason = "refund_age_limit_exceeded"
	ReasonBlockedCategory       Reason = "blocked_category"
	ReasonVendorNotOnAllowlist  Reason = "vendor_not_on_allowlist"
	ReasonBlockedPaymentRail    Reason = "blocked_payment_rail"
	ReasonDiscountCap           Reason = "discount_cap_exceeded"
	ReasonBlockedGeography      Reason = "blocked_geography"
	ReasonTimeRestriction       Reason = "time_restriction_violated"
	ReasonDuplicate             Reason = "duplicate_action_detected"
	ReasonEscalationThreshold   Reason = "escalation_threshold_exceeded"
	ReasonRequiredContextMissed Reason = "required_context_missing"
	ReasonBudgetExceeded        Reason = "budget_exceeded"
	ReasonCountLimitExceeded    Reason = "count_limit_exceeded"
	ReasonConditionMet          Reason = "condition_met"
	ReasonFrozen                Reason = "frozen"
)

// Decision is the answer to one action and why.
type Decision struct {
	Effect          Effect
	Confidence      Confidence
	Reason          Reason // empty on allow
	RuleID          string // violated_rule_id; empty on allow
	RuleDescription string // never empty on block or escalate (S14)
	Message         string
	NextStep        string
	PolicyVersion   int
}

// Exceeded reports a block because a budget has no room (S36).
func (d *Decision) Exceeded() bool { return d.Effect == Block && d.LacksRoom() }

// LacksRoom reports a block or an escalation because a budget has no room.
func (d *Decision) LacksRoom() bool {
	return d.Reason == ReasonBudgetExceeded || d.Reason == ReasonCountLimitExceeded
}

// Frozen is the decision about a check that a freeze stops (S87). why is what the asker is told beyond that.
func Frozen(policyVersion int, why string) Decision {
	return Decision{
		Effect: Block, Confidence: High, Reason: ReasonFrozen, RuleID: "freeze", PolicyVersion: policyVersion,
		RuleDescription: "Actions in the scope of a freeze are blocked until people release it", Message: "stopped by a freeze" + why,
		NextStep: "Stop. Do not try the action another way.",
	}
}

// Resolution is an action's type as the rules see it. Confidence is High when
// the request named the type, else the intent classifier's (S16).
type Resolution struct {
	Type       ActionType
	Confidence Confidence
}
