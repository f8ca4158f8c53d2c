package policy

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// ChargeOf returns what an action of no amount would take at a time from the counter of a budget for these values of its `per`
// (S91), as the charge of a check with these values. Faults are added by path; then the charge is of no use.
func (p *Program) ChargeOf(
	ruleID string, per map[string]jsontext.Value, at time.Time, faults *spend.Faults,
) (c spend.Charge, info BudgetInfo) {
	i := slices.IndexFunc(p.budgets, func(b *budget) bool { return b.rule.id == ruleID })
	if i < 0 {
		faults.Add("rule_id", "is no budget of the policy")
		return c, info
	}
	b, before := p.budgets[i], len(*faults)
	names := b.perNames()
	for _, name := range slices.Sorted(maps.Keys(per)) {
		if !slices.Contains(names, name) {
			faults.Add("per."+name, "is not in the budget's per")
		}
	}
	var action spend.Action
	var t spend.ActionType
	var principal string
	fields := map[string]*string{
		dimensionNames[0]: &action.AgentID, dimensionNames[1]: &action.Counterparty, dimensionNames[2]: &principal,
		dimensionNames[4]: &action.MerchantOrVendor, dimensionNames[5]: &action.PaymentMethod,
	}
	metadata := []byte{'{'}
	for _, name := range names {
		value, given := per[name]
		text, isText := unquote(value)
		member, ofMetadata := strings.CutPrefix(name, metadataPrefix)
		switch {
		case !given:
			faults.Add("per."+name, isRequired)
		case ofMetadata:
			if len(metadata) > 1 {
				metadata = append(metadata, ',')
			}
			metadata, _ = jsontext.AppendQuote(metadata, member) // it is valid UTF-8
			metadata = append(append(metadata, ':'), value...)
		case !isText || spend.Blank(text) || spend.TooLong(text, spend.MaxIdentifier):
			faults.Add("per."+name, "must be a text of 1 to 256 characters")
		case name == dimensionNames[3]:
			var known bool
			if t, known = spend.ParseActionType(text); !known {
				faults.Add("per."+name, mustBeActionType)
			}
		default:
			*fields[name] = text
		}
	}
	action.Metadata.JSON = string(append(metadata, '}'))
	if len(*faults) > before {
		return c, info
	}
	for _, name := range b.lacking(&action) {
		faults.Add("per."+name, "must be a text, an integer or a boolean of at most 256 characters")
	}
	return b.charge(p.policyID, &action, t, principal, at), p.Budgets()[i]
}

// Began returns when the window of a budget began that a time lies in, of a rolling window a time that is not after it; zero of a
// lifetime.
func (p *Program) Began(ruleID string, at time.Time) (began time.Time) {
	i := slices.IndexFunc(p.budgets, func(b *budget) bool { return b.rule.id == ruleID })
	if i < 0 {
		return began
	}
	of := p.budgets[i].period
	start := of.window(at).start - of.bucketMS()*spend.RollingBuckets
	if !of.lasts() {
		began = time.UnixMilli(start)
	}
	return began
}
