package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"spendgate/audit/spend"
)

// explainUncovered returns the texts of an action that Uncovered blocked.
func (p *Program) explainUncovered(a *spend.Action, r spend.Resolution) (message, nextStep string) {
	var currencies []string
	for _, b := range p.budgets {
		if b.limited && b.rule.types.has(r.Type) && b.counts(a) {
			currencies = append(currencies, b.currency)
		}
	}
	slices.Sort(currencies)
	covered := enumerate(slices.Compact(currencies))
	return a.Amount.Money(a.Currency) + " is in a currency for which the policy has no budget: it has budgets in " + covered,
		"Do not proceed. Use a currency that the policy covers (" + covered + "), or ask the policy's owner for a budget in " + a.Currency + "."
}

// explain returns the texts of an exceeded budget. For a caller without a key they do not show what
// others used.
func (o *overrun) explain(a *spend.Action, _ *guardSettings, anonymous bool) (message, nextStep string) {
	asked := a.Amount.Money(a.Currency)
	most := o.charge.Limit.Money(a.Currency)
	if o.charge.FitsLimit(o.usage) {
		asked = "another action, of " + asked + ","
		most = o.budget.actions(o.charge.MaxCount)
	}
	message = asked + " would exceed the budget of " + most
	if !anonymous {
		message += o.forWhom()
	}
	message += " " + o.when()
	if !anonymous {
		message += ": " + o.used(a.Currency) + " are used"
	}
	const whole = "do not split the action to get under the budget."
	if o.budget.rule.effect == spend.Escalate {
		nextStep = routeToHuman + ", and " + whole
	} else {
		nextStep = "Do not proceed, and " + whole
	}
	if !anonymous {
		nextStep += " Left: " + o.left(a.Currency) + "."
	}
	nextStep += " " + o.resets()
	if o.budget.rule.effect == spend.Block {
		nextStep += " " + o.instead(a, anonymous)
	}
	return message, nextStep
}

// forWhom returns a text like ` for agent_id "agent-1"`.
func (o *overrun) forWhom() string {
	names := o.budget.perNames()
	values, ok := valuesOf(o.charge.Subject)
	if !ok || len(values) != len(names) || len(names) == 0 {
		return ""
	}
	for i, value := range values {
		text, isText := unquote(value)
		if text = strconv.Quote(text); !isText {
			text = string(value)
		}
		names[i] += " " + text
	}
	return " for " + strings.Join(names, ", ")
}

// when returns a text like "in the day from ... to ... (UTC)".
func (o *overrun) when() string {
	switch p := o.budget.period; {
	case p.rolling > 0:
		return "in the last " + count(p.rolling, "minute")
	case p.lasts() && o.budget.since.At.IsZero():
		return "over its lifetime"
	case p.lasts():
		return "over its lifetime, since " + clockText(o.budget.since.At.UTC())
	default:
		start, end := o.window()
		return "in the " + unitNames[p.unit] + " from " + clockText(start) + " to " + clockText(end) + " (" + p.zone.String() + ")"
	}
}

// window returns the calendar window, in the budget's zone.
func (o *overrun) window() (start, end time.Time) {
	p := o.budget.period
	return time.UnixMilli(o.charge.BeginMS()).In(p.zone), time.UnixMilli(o.charge.EndMS).In(p.zone)
}

func clockText(t time.Time) string { return t.Format(time.RFC3339) }

// used returns a text like "700.00 USD of 1000.00 USD and 3 of 50 actions".
func (o *overrun) used(currency string) string {
	var parts []string
	if o.charge.Limited {
		parts = append(parts, o.usage.Used.Money(currency)+" of "+o.charge.Limit.Money(currency))
	}
	if o.charge.Counted {
		parts = append(parts, strconv.FormatInt(o.usage.Count, 10)+" of "+o.budget.actions(o.charge.MaxCount))
	}
	return strings.Join(parts, " and ")
}

// left returns a text like "300.00 USD and 47 actions".
func (o *overrun) left(currency string) string {
	var parts []string
	if o.charge.Limited {
		parts = append(parts, o.leftTotal().Money(currency))
	}
	if o.charge.Counted {
		parts = append(parts, o.budget.actions(max(0, o.charge.MaxCount-o.usage.Count)))
	}
	return strings.Join(parts, " and ")
}

func (o *overrun) leftTotal() spend.Total {
	left, ok := o.charge.Limit.Minus(o.usage.Used)
	if !ok {
		return spend.Total{} // the limit was lowered
	}
	return left
}

func (o *overrun) resets() string {
	switch p := o.budget.period; {
	case p.rolling > 0:
		return "What was used leaves the budget after " + count(p.rolling, "minute") + ", in steps of " + stepText(p.bucketMS()) + "."
	case p.lasts():
		return "The budget never resets."
	default:
		_, end := o.window()
		return "The budget resets at " + clockText(end) + "."
	}
}

func stepText(ms int64) string {
	if ms%60_000 == 0 {
		return count(ms/60_000, "minute")
	}
	return count(ms/1000, "second")
}

// instead returns what the agent may do about a block.
func (o *overrun) instead(a *spend.Action, anonymous bool) string {
	c := &o.charge
	var options []string
	if c.Limited && c.FitsCount(o.usage) && !o.leftTotal().IsZero() && !anonymous {
		options = append(options, "ask for at most "+o.leftTotal().Money(a.Currency))
	}
	if !o.budget.period.lasts() && c.Fits(spend.Usage{}) { // else no window has room for it
		after := "after that"
		if o.budget.period.rolling > 0 {
			after = "when enough has left the budget"
		}
		options = append(options, "check again "+after)
	}
	options = append(options, "ask the policy's owner to raise the limit")
	last := len(options) - 1
	text := "Instead, "
	if last > 0 {
		text += strings.Join(options[:last], ", ") + ", or "
	}
	return text + options[last] + "."
}
