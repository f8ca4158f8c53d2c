package policy

import (
	"slices"
	"strings"
	"time"

	"spendgate/audit/spend"
)

// RuleType describes one rule type: its parameters, and how it is compiled.
type RuleType struct {
	Name       string      // rule_type
	Parameters []Parameter // in the order in which they are read and shown
	Reads      []string    // the fields of a check that its condition reads, by path; none if it has no condition of its own

	effect spend.Effect // when its condition is shown to be true
	types  typeSet      // the action types it judges (S11)

	// compile reads the parameters, completes the rule and describes it. After a fault the rule is not
	// used.
	compile func(parameters *objectReader, r *rule) (description string)

	// unlisted describes a rule that has a list to whom the list is not shown.
	unlisted string
}

// Parameter is one parameter of a rule type.
type Parameter struct {
	Name     string
	Required bool
	Min, Max int64    // of a number; without Max the interface's maximum holds. For a text they bound the length
	Names    []string // the accepted values of the parameter, or of each entry of its list
	Example  string   // its JSON in RuleType.Example; empty if left out there
	Text     string   // a description of one line
}

// ruleTypes are the twelve rule types.
var ruleTypes = [...]RuleType{
	{"max_amount", maxAmountParameters, []string{"amount"}, spend.Block, everyType, compileMaxAmount, ""},
	{
		"refund_age_limit", refundAgeLimitParameters,
		[]string{"metadata.days_since_purchase"},
		spend.Block, 1 << spend.Refund,
		compileRefundAgeLimit, "",
	},
	{
		"blocked_categories", blockedCategoriesParameters,
		[]string{"metadata.category"},
		spend.Block, everyType,
		compileBlockedCategories, "Blocks some categories",
	},
	{
		"vendor_allowlist", vendorAllowlistParameters,
		[]string{"counterparty"},
		spend.Block, 1 << spend.Spend,
		compileVendorAllowlist, "Blocks spends to any but the approved vendors",
	},
	{
		"blocked_payment_rails", blockedPaymentRailsParameters,
		[]string{"payment_method"},
		spend.Block, everyType,
		compileBlockedPaymentRails, "Blocks some payment methods",
	},
	{"discount_cap", discountCapParameters, []string{"metadata.discount_percent"}, spend.Block, 1 << spend.Discount, compileDiscountCap, ""},
	{
		"geography_block", geographyBlockParameters,
		[]string{"metadata.country"},
		spend.Block, everyType,
		compileGeographyBlock, "Blocks actions in some countries",
	},
	{"time_restriction", timeRestrictionParameters, []string{"timestamp"}, spend.Block, everyType, compileTimeRestriction, ""},
	{duplicateGuard, duplicateGuardParameters, nil, spend.Block, everyType, compileDuplicateGuard, ""},
	{"escalate_if", escalateIfParameters, []string{"amount", "action_type"}, spend.Escalate, everyType, compileEscalateIf, ""},
	{blockIf, blockIfParameters, nil, spend.Block, everyType, compileBlockIf, ""},
	{"budget", budgetParameters, []string{"amount", "action_type"}, spend.Block, everyType, compileBudget, ""},
}

// RuleTypes returns all rule types.
func RuleTypes() []RuleType { return ruleTypes[:] }

// Type returns the rule type of that name, nil if there is none.
func Type(name string) *RuleType {
	for i := range ruleTypes {
		if ruleTypes[i].Name == name {
			return &ruleTypes[i]
		}
	}
	return nil
}

// Example returns parameters as JSON.
func (t *RuleType) Example() string {
	var members []string
	for _, p := range t.Parameters {
		if p.Example != "" {
			members = append(members, `"`+p.Name+`": `+p.Example)
		}
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// ruleMembers are the members of a rule.
var ruleMembers = []Parameter{
	{Name: "rule_id", Required: true},
	{Name: "rule_type", Required: true},
	{Name: "description", Max: spend.MaxDescription},
	{Name: "when"},
	{Name: "parameters", Required: true},
}

// paramOnMissing is accepted by the rules whose condition reads an optional field,
// the first of their Reads (S9).
const paramOnMissing = "on_missing"

var (
	onMissingParameter = Parameter{
		Name: paramOnMissing, Names: []string{"block", "escalate", "skip"},
		Text: "what to do when the field that it reads is absent; skip if left out",
	}
	approvalParameter = Parameter{
		Name: "approval", Text: `{"required": 1, "expires_minutes": 1440, "use_within_minutes": 60}, ` +
			`of which {} is short: people approve what it escalates in the service; instead of required, "from": [{"group": "finance", ` +
			`"required": 1}] asks people of groups, and "exclude_author": true whoever did not write the version`,
	}
)

func indexOf(parameters []Parameter, name string) int {
	return slices.IndexFunc(parameters, func(p Parameter) bool { return p.Name == name })
}

// rule is one compiled rule.
type rule struct {
	condition
	when      *when // nil: always
	effect    spend.Effect
	onMissing spend.Effect // Allow means skip
	types     typeSet      // the rule type's, of these what the parameters name, of these what when names

	id          string
	description string         // the policy's, or else a generated one (S14)
	reads       string         // the optional field its condition reads, by path
	unlisted    string         // as in RuleType
	window      time.Duration  // of a duplicate_guard only
	judgesAgain bool           // of a duplicate_guard only: after_block is judge_again
	budget      *budget        // of a budget only
	approval    *ApprovalTerms // of a rule that escalates; nil if it requires none
	identity    spend.Hash     // of its parameters by meaning, if it has an approval
}

// confidence returns the confidence of the rule's finding (S16): a rule for every action type does not
// depend on how the type was resolved.
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
	judge(a *spend.Action, at moment) spend.Reason
	// explain returns the texts for a reason that judge returned for that action,
	// except ReasonRequiredContextMissed, which explainMissing explains for all.
	explain(f Finding, a *spend.Action, g *guardSettings) (message, nextStep string)
}

// typeSet is a set of action types.
type typeSet uint8

const everyType typeSet = 1<<spend.Refund | 1<<spend.Credit | 1<<spend.Discount | 1<<spend.Spend

func (s typeSet) has(t spend.ActionType) bool { return s&(1<<t) != 0 }

// names lists the types in the interface's order.
func (s typeSet) names() (listed []string) {
	for _, t := range spend.ActionTypes {
		if s.has(t) {
			listed = append(listed, t.String())
		}
	}
	return listed
}

func (s typeSet) String() string { return strings.Join(s.names(), ", ") }
