package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"spendgate/audit/spend"
)

const routeToHuman = "Pause and route the action to a human; proceed only if they approve it"

// Explain renders the decision for a Finding of this Program. The finding must be of that action and
// resolution.
func (p *Program) Explain(f Finding, a *spend.Action, r spend.Resolution) spend.Decision {
	return p.explain(f, a, r, false)
}

// ExplainAnonymous is Explain for a caller without a key. The texts contain no entry of the policy's
// lists that the action does not name, and nothing about the usage of a budget: a rule with a list is
// described by its type alone.
func (p *Program) ExplainAnonymous(f Finding, a *spend.Action, r spend.Resolution) spend.Decision {
	d := p.explain(f, a, r, true)
	if f.Effect != spend.Allow {
		d.RuleDescription = cmp.Or(p.fired(f).unlisted, d.RuleDescription)
	}
	return d
}

func (p *Program) explain(f Finding, a *spend.Action, r spend.Resolution, anonymous bool) spend.Decision {
	d := spend.Decision{Effect: f.Effect, Confidence: f.Confidence, Reason: f.Reason, PolicyVersion: p.version}
	if f.Effect == spend.Allow {
		d.Message, d.NextStep = p.explainAllow(f, a, r)
		return d
	}
	rule := p.fired(f)
	d.RuleID, d.RuleDescription = rule.id, rule.description
	dependsOnType := rule.types != everyType
	g := &p.guard
	if p.guards != nil {
		own := p.guardOf(a, r.Type)
		g = &own
	}
	switch {
	case f.Reason == spend.ReasonRequiredContextMissed:
		d.Message, d.NextStep = rule.explainMissing(f, a, g)
	case f.over == nil && f.Reason == spend.ReasonCurrencyNotCovered && p.caps != nil:
		covered := p.coveredFor(a, r.Type)
		d.Message, d.NextStep = (&maxAmount{covered: covered}).explain(f, a, g)
	case f.over == nil:
		d.Message, d.NextStep = rule.explain(f, a, g)
	case f.Reason == spend.ReasonCurrencyNotCovered:
		d.Message, d.NextStep = p.explainUncovered(a, r)
		dependsOnType = f.Confidence < spend.High
	default:
		d.Message, d.NextStep = f.over.explain(a, g, anonymous)
		dependsOnType = f.over.budget.dependsOnType()
	}
	if a.Type == spend.Unspecified && dependsOnType {
		// Another type has another fingerprint, so this retry is no repeat.
		d.NextStep += " The action was classified as a " + r.Type.String() +
			" by its reason_text: if that is wrong, check again with its action_type."
	}
	return d
}

// fired returns the rule that a finding is about.
func (p *Program) fired(f Finding) *rule {
	switch {
	case f.over != nil && slices.Contains(p.budgets, f.over.budget):
		return &f.over.budget.rule
	case f.over == nil && f.rule >= 0 && f.rule < len(p.rules):
		return &p.rules[f.rule]
	}
	panic("BUG: finding of another program")
}

// RedeemFirst begins what an allowed check that must be redeemed says next.
const RedeemFirst = "Do not carry this out before the check is redeemed"

// RequiresRedemption reports whether an allowed check must be redeemed before its action is carried
// out (S74). The record has this only in the decision's text.
func RequiresRedemption(d *spend.Decision) bool {
	return d.Effect == spend.Allow && strings.HasPrefix(d.NextStep, RedeemFirst)
}

func (p *Program) explainAllow(f Finding, a *spend.Action, r spend.Resolution) (message, nextStep string) {
	var buf [192]byte // one string is made, instead of one for each part
	b := append(append(buf[:0], "a "...), r.Type.String()...)
	b = a.Amount.AppendMoney(append(b, " of "...), a.Currency)
	b = append(append(b, " is within policy "...), p.policyID...)
	b = strconv.AppendInt(append(b, ", version "...), int64(p.version), 10)
	message = string(b)
	nextStep = "Proceed with exactly this action."
	if p.redeem.Required {
		nextStep = RedeemFirst + ": within " + inMinutes(p.redeem.Within()) +
			", by whoever moves the money, with POST /v1/checks/{check_id}/redeem, for exactly this action."
	}
	if !f.skipped {
		return message, nextStep
	}
	missing := p.missing(f, a, r)
	return message + "; rules were skipped for missing context: " + missing,
		nextStep + " Send " + missing + " with later checks, so that every rule can judge them."
}

// missing lists the absent fields because of which applicable rules were skipped.
func (p *Program) missing(f Finding, a *spend.Action, r spend.Resolution) string {
	var fields []string
	for i := range p.rules {
		rule := &p.rules[i]
		if _, reason := rule.fire(a, r.Type, f.at); reason != spend.ReasonRequiredContextMissed {
			continue
		}
		for _, field := range rule.missing(a) {
			if !slices.Contains(fields, field) {
				fields = append(fields, field)
			}
		}
	}
	return strings.Join(fields, ", ")
}

// explainMissing explains a rule that fired because the action lacks the field
// it reads (S9). The field is no part of the fingerprint, hence the wait.
func (r *rule) explainMissing(f Finding, a *spend.Action, g *guardSettings) (message, nextStep string) {
	fields := strings.Join(r.missing(a), ", ")
	message = fields + " is missing, and rule " + strconv.Quote(r.id) + " requires it"
	retry := "check again with " + fields
	if f.Effect == spend.Escalate {
		return message, routeToHuman + ", or " + retry + g.afterWindow() + "."
	}
	return message, "Do not proceed. Instead, " + retry + g.afterBlock() + "."
}

// missing lists the fields that the rule reads and the action lacks.
func (r *rule) missing(a *spend.Action) []string {
	if fields := r.when.missing(a); fields != nil {
		return fields
	}
	if c, ok := r.condition.(*budgetContext); ok {
		return c.budget.lacking(a)
	}
	return []string{r.reads}
}

// count formats a number of units: "1 day", "2 days".
func count(n int64, unit string) string {
	s := strconv.FormatInt(n, 10) + " " + unit
	if n == 1 {
		return s
	}
	return s + "s"
}

func inMinutes(d time.Duration) string { return count(int64(d/time.Minute), "minute") }

// maxEnumerated bounds how many entries of a list a text repeats.
const maxEnumerated = 5

// enumerate formats a list: "a, b" or, of many, "a, b, c, d, e and 7 more".
func enumerate(entries []string) string {
	if len(entries) <= maxEnumerated {
		return strings.Join(entries, ", ")
	}
	return strings.Join(entries[:maxEnumerated], ", ") + " and " + strconv.Itoa(len(entries)-maxEnumerated) + " more"
}
