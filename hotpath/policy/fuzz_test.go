package policy

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"spendgate/audit/spend"
)

// FuzzCompile: Compile returns a Program or faults for any text. A Program judges without a panic,
// and written out again it compiles to itself: nothing accepted can be read in two ways.
func FuzzCompile(f *testing.F) {
	f.Add("")
	f.Add(`[{}]`)
	f.Add(rule1("max_amount", `{"limit":500.50,"currency":"usd"}`))
	f.Add(rule1("time_restriction", `{"allowed_days":["fri"],"allowed_hours_utc":"22:00-06:00"}`))
	f.Add(rule1("blocked_categories", `{"categories":[" K","ſ","\u0000"],"on_missing":"block"}`))
	f.Add(rule1("escalate_if", `{"amount_above":1e2,"action_types":["refund","spend"]}`))
	f.Add(rule1("budget", `{"limit":1000,"currency":"usd","max_count":50,"per":["counterparty","agent_id"],"window":"week",`+
		`"time_zone":"Europe/Berlin","on_exceed":"escalate","approval":{"required":2}}`))
	f.Add(rule1("escalate_if", `{"amount_above":1,"approval":{"from":[{"group":"Support"},{"group":"finance","required":2}],`+
		`"exclude_author":true}}`))
	f.Add(rule1("budget", `{"max_count":1,"window":"day","per":["metadata.order","merchant_or_vendor"],"on_missing":"escalate",`+
		`"approval":{}}`))
	f.Add(rule1("time_restriction", `{"allowed_hours":"22:00-06:00","time_zone":"America/New_York"}`))
	f.Add(ruleWhen("block_if", `{}`, `{"amount_above":75,"metadata":{"a":[1,"b",true],"c":{"above":-1}},"absent":["metadata.r"]}`))
	f.Add(rule1("budget", `{"max_count":0,"rolling_minutes":90,"action_types":["refund"],"per":[]}`))
	f.Fuzz(func(t *testing.T, rules string) {
		var faults spend.Faults
		p := Compile("desk", 7, rules, &faults)
		if (p == nil) != (len(faults) > 0) {
			t.Fatalf("program %v with faults %v", p, faults)
		}
		if p == nil {
			return
		}
		if !strings.Contains(rules, "when") && !strings.Contains(rules, `\`) { // conditions are not written out again
			again := mustCompile(t, written(p))
			if !reflect.DeepEqual(p, again) {
				t.Fatalf("%s\nreads   %+v\nwritten %s\nreads   %+v", rules, p, written(p), again)
			}
		}
		for _, actionType := range spend.ActionTypes {
			for _, a := range []*spend.Action{
				action(t), action(t, by("Wire"), with(t, `{"country":"KP","category":"k","discount_percent":99.5,"days_since_purchase":400}`)),
			} {
				found := p.Evaluate(a, named(actionType), noon)
				if problem := decisionProblem(found, p.Explain(found, a, named(actionType))); problem != "" {
					t.Fatalf("%s: %s", rules, problem)
				}
			}
		}
	})
}

// An accepted window is written as it was read, holds its start and not its
// end.
func FuzzParseHours(f *testing.F) {
	for _, s := range []string{
		"09:00-17:30", "22:00-06:00", "00:00-24:00", "24:00-00:00", "09:00-09:00", "9:00-17:00", "29:00-17:00", "00:60-01:00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHours(s)
		if err != nil {
			return
		}
		if h.String() != s {
			t.Fatalf("%q reads as %s", s, h)
		}
		c := timeRestriction{everyDay, h, nil}
		if start := weekMinute(minutesPerDay + h.start); !c.open(start) ||
			h.end-h.start != minutesPerDay && c.open(weekMinute(minutesPerDay+h.end)) {
			t.Fatalf("%s does not hold its start, or holds its end", h)
		}
	})
}

// written returns the JSON of the Program's rules.
func written(p *Program) string {
	var texts []string
	write := func(id, ruleType, description string, parameters map[string]any) {
		text, err := json.Marshal(map[string]any{"rule_id": id, "rule_type": ruleType, "description": description, "parameters": parameters})
		if err != nil {
			panic("BUG: " + err.Error())
		}
		texts = append(texts, string(text))
	}
	budgets := p.budgets
	writeBudgets := func(before int) {
		for len(budgets) > 0 && budgets[0].before == before {
			b := budgets[0]
			budgets = budgets[1:]
			write(b.rule.id, "budget", b.rule.description, writtenBudget(b))
		}
	}
	for i := range p.rules {
		writeBudgets(i)
		r := &p.rules[i]
		if _, isContext := r.condition.(*budgetContext); isContext {
			continue
		}
		ruleType, parameters := writtenCondition(r)
		if r.reads != "" {
			parameters["on_missing"] = map[spend.Effect]string{spend.Allow: "skip", spend.Escalate: "escalate", spend.Block: "block"}[r.onMissing]
		}
		parameters["approval"] = writtenApproval(r.approval)
		if r.approval == nil {
			delete(parameters, "approval")
		}
		write(r.id, ruleType, r.description, parameters)
	}
	writeBudgets(len(p.rules))
	if g := p.guard; g.byRule {
		write(g.id, duplicateGuard, g.description, map[string]any{"window_minutes": int(g.window.Minutes())})
	}
	return "[" + strings.Join(texts, ",") + "]"
}

func writtenCondition(r *rule) (ruleType string, parameters map[string]any) {
	number := func(a spend.Amount) json.Number { return json.Number(a.String()) }
	list := func(s set) (texts []string) {
		for i := range s.ends {
			texts = append(texts, s.at(i))
		}
		return texts
	}
	switch c := r.condition.(type) {
	case *maxAmount:
		return "max_amount", map[string]any{"limit": number(c.limit), "currency": c.currency}
	case *refundAgeLimit:
		return "refund_age_limit", map[string]any{"max_days": c.maxDays}
	case *blockedCategories:
		return "blocked_categories", map[string]any{"categories": list(c.names.set)}
	case *vendorAllowlist:
		return "vendor_allowlist", map[string]any{"vendors": list(c.set)}
	case *blockedPaymentRails:
		return "blocked_payment_rails", map[string]any{"rails": list(c.names.set)}
	case *discountCap:
		return "discount_cap", map[string]any{"max_percent": number(c.maxPercent)}
	case *geographyBlock:
		return "geography_block", map[string]any{"blocked_countries": list(c.set)}
	case *timeRestriction:
		if c.zone != nil {
			return "time_restriction", map[string]any{
				"allowed_days": listedDays(c.days), "allowed_hours": c.hours.String(), "time_zone": c.zone.String(),
			}
		}
		return "time_restriction", map[string]any{"allowed_days": listedDays(c.days), "allowed_hours_utc": c.hours.String()}
	case *escalateIf:
		written := map[string]any{"amount_above": number(*c.above), "action_types": r.types.names()}
		if c.upTo != nil {
			written["amount_up_to"] = number(*c.upTo)
		}
		return "escalate_if", written
	}
	panic("BUG: unknown condition")
}

func writtenBudget(b *budget) map[string]any {
	parameters := map[string]any{"per": b.perNames(), "currency": b.currency, "action_types": b.types.names()}
	if b.limited {
		parameters["limit"] = json.Number(b.limit.String())
	}
	if b.counted {
		parameters["max_count"] = b.maxCount
	}
	if b.period.rolling > 0 {
		parameters["rolling_minutes"] = b.period.rolling
	} else {
		parameters["window"], parameters["time_zone"] = unitNames[b.period.unit], b.period.zone.String()
	}
	if b.rule.effect == spend.Escalate {
		parameters["on_exceed"] = "escalate"
	}
	if b.rule.condition != nil {
		parameters["on_missing"] = b.rule.onMissing.String()
		if b.rule.onMissing == spend.Allow {
			parameters["on_missing"] = "skip"
		}
	}
	if b.rule.approval != nil {
		parameters["approval"] = writtenApproval(b.rule.approval)
	}
	return parameters
}

func writtenApproval(a *ApprovalTerms) map[string]any {
	if a == nil {
		return nil
	}
	written := map[string]any{
		"expires_minutes": int(a.Expires.Minutes()), "use_within_minutes": int(a.UseWithin.Minutes()), "exclude_author": a.ExcludeAuthor,
	}
	if written["from"] = a.From; a.From == nil {
		written["from"], written["required"] = nil, a.Required
	}
	return written
}

func listedDays(s daySet) []string {
	var days []string
	for day, name := range dayNames {
		if s.has(day) {
			days = append(days, name)
		}
	}
	return days
}
