package policy

import (
	"strings"
	"time"

	"spendgate/hotpath/spend"
)

// kind is what one rule type is, whatever its parameters.
type kind struct {
	name   string       // rule_type
	effect spend.Effect // when its condition is shown to be true
	types  typeSet      // the action types it judges (S11)
	reads  string       // the optional field it needs, by path; such a rule accepts on_missing (S9)

	// compile reads the parameters, completes the rule and describes it. What
	// it leaves in the rule after a fault does not matter.
	compile func(parameters *object, r *rule) (description string)

	// unlisted describes a rule that has a list to whom the list is not shown.
	unlisted string
}

// kinds are the eleven rule types.
var kinds = [...]kind{
	{"max_amount", spend.Block, everyType, "", compileMaxAmount, ""},
	{"refund_age_limit", spend.Block, 1 << spend.Refund, "metadata.days_since_purchase", compileRefundAgeLimit, ""},
	{"blocked_categories", spend.Block, everyType, "metadata.category", compileBlockedCategories, "Blocks some categories"},
	{"vendor_allowlist", spend.Block, 1 << spend.Spend, "", compileVendorAllowlist, "Blocks spends to any but the approved vendors"},
	{"blocked_payment_rails", spend.Block, everyType, "payment_method", compileBlockedPaymentRails, "Blocks some payment methods"},
	{"discount_cap", spend.Block, 1 << spend.Discount, "metadata.discount_percent", compileDiscountCap, ""},
	{"geography_block", spend.Block, everyType, "metadata.country", compileGeographyBlock, "Blocks actions in some countries"},
	{"time_restriction", spend.Block, everyType, "", compileTimeRestriction, ""},
	{duplicateGuard, spend.Block, everyType, "", compileDuplicateGuard, ""},
	{"escalate_if", spend.Escalate, everyType, "", compileEscalateIf, ""},
	{"budget", spend.Block, everyType, "", compileBudget, ""},
}

// rule is one compiled rule.
type rule struct {
	condition
	effect    spend.Effect
	onMissing spend.Effect // Allow means skip
	types     typeSet

	id          string
	description string        // the policy's, or else a generated one (S14)
	reads       string        // as in kind
	unlisted    string        // likewise
	window      time.Duration // of a duplicate_guard only
	budget      *budget       // of a budget only
	approval    *Approval     // of a rule that escalates; nil when it asks for none
	identity    spend.Hash    // of its parameters by meaning, if it has an approval
}

// confidence returns the confidence of the rule's finding (S16): what holds for
// every action type does not depend on how the type was resolved.
func (r *rule) confidence(resolved spend.Resolution) spend.Confidence {
	if r.types == everyType {
		return spend.High
	}
	return resolved.Confidence
}

// condition is the part of a rule that differs between rule types. Its
// implementations are immutable.
type condition interface {
	// judge returns the reason for which the rule fires, ReasonNone if it does
	// not, or ReasonRequiredContextMissed if the action lacks what it reads.
	// It must not allocate.
	judge(a *spend.Action, at weekMinute) spend.Reason
	// explain returns the texts for a reason that judge returned for that action,
	// except ReasonRequiredContextMissed, which explainMissing explains for all.
	explain(f Finding, a *spend.Action, g *guard) (message, nextStep string)
}

// typeSet is a set of action types.
type typeSet uint8

const everyType typeSet = 1<<spend.Refund | 1<<spend.Credit | 1<<spend.Discount | 1<<spend.Spend

func (s typeSet) has(t spend.ActionType) bool { return s&(1<<t) != 0 }

// String lists the types in the interface's order.
func (s typeSet) String() string {
	var listed []string
	for _, t := range spend.ActionTypes {
		if s.has(t) {
			listed = append(listed, t.String())
		}
	}
	return strings.Join(listed, ", ")
}
