package policy

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"spendgate/audit/spend"
)

// A second evaluator, written straight from the contract: it keeps parameters as
// they are spelt, evaluates every rule and only then chooses. It shares nothing
// with the package but the types of spend.

// plainRule is a rule as its author thinks of it; unused parameters are empty.
type plainRule struct {
	id, ruleType string
	number       string   // limit, max_days, max_percent, window_minutes, amount_above
	text         string   // currency or allowed_hours_utc
	list         []string // categories, vendors, rails, blocked_countries, allowed_days, action_types
	onMissing    string
	upTo         string   // amount_up_to
	zone         string   // of allowed_hours
	per          []string // of a budget, as is budget
	budget       *plainBudget
	when         *plainWhen
}

// json spells the rule as a request would.
func (r plainRule) json() string {
	names := map[string][3]string{
		"max_amount": {"limit", "currency", ""}, "refund_age_limit": {"max_days", "", ""}, "blocked_categories": {"", "", "categories"},
		"vendor_allowlist": {"", "", "vendors"}, "blocked_payment_rails": {"", "", "rails"}, "discount_cap": {"max_percent", "", ""},
		"geography_block": {"", "", "blocked_countries"}, "time_restriction": {"", "allowed_hours_utc", "allowed_days"},
		"duplicate_guard": {"window_minutes", "", ""}, "escalate_if": {"amount_above", "", "action_types"},
		"budget": {"", "window", "action_types"},
	}[r.ruleType]
	if r.zone != "" {
		names[1] = "allowed_hours"
	}
	var members []string
	if r.number != "" {
		members = append(members, strconv.Quote(names[0])+":"+r.number)
	}
	if r.text != "" {
		members = append(members, strconv.Quote(names[1])+":"+strconv.Quote(r.text))
	}
	if r.list != nil {
		var entries []string
		for _, entry := range r.list {
			entries = append(entries, strconv.Quote(entry))
		}
		members = append(members, strconv.Quote(names[2])+":["+strings.Join(entries, ",")+"]")
	}
	if r.onMissing != "" {
		members = append(members, `"on_missing":`+strconv.Quote(r.onMissing))
	}
	if r.upTo != "" {
		members = append(members, `"amount_up_to":`+r.upTo)
	}
	if r.zone != "" {
		members = append(members, `"time_zone":`+strconv.Quote(r.zone))
	}
	if r.budget != nil {
		members = append(members, r.budget.members()...)
	}
	if r.per != nil {
		members = append(members, `"per":["`+strings.Join(r.per, `","`)+`"]`)
	}
	when := ""
	if r.when != nil {
		text, err := json.Marshal(r.when)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		when = `"when":` + string(text) + ","
	}
	return `{` + when + `"rule_id":` + strconv.Quote(r.id) + `,"rule_type":"` + r.ruleType + `","parameters":{` +
		strings.Join(members, ",") + `}}`
}

// plainFinding is the finding of one rule, or of all together.
type plainFinding struct {
	effect     spend.Effect
	reason     spend.Reason
	rule       string
	confidence spend.Confidence
}

func plainEvaluate(rules []plainRule, a *spend.Action, r spend.Resolution, now time.Time) plainFinding {
	var findings []plainFinding
	var in []plainRule // those that the policy has for the action
	for _, rule := range rules {
		if all, _ := rule.when.match(a, r.Type); all {
			in = append(in, rule)
		}
	}
	skipped := false
	for _, rule := range rules {
		var reason spend.Reason
		var missing bool
		onMissing := rule.onMissing
		switch all, present := rule.when.match(a, r.Type); {
		case all:
			before := in[:slices.IndexFunc(in, func(o plainRule) bool { return o.id == rule.id })]
			reason, missing = rule.reason(before, in, a, r.Type, now)
		case !present || !rule.judgesType(a, r.Type):
			continue
		default:
			missing, onMissing = true, rule.when.OnMissing
		}
		f := plainFinding{effect: spend.Block, reason: reason, rule: rule.id, confidence: spend.High}
		if rule.dependsOnType() {
			f.confidence = r.Confidence
		}
		if rule.ruleType == "escalate_if" {
			f.effect = spend.Escalate
		}
		if missing {
			f.reason = "required_context_missing"
			switch onMissing {
			case "block":
				f.effect = spend.Block
			case "escalate":
				f.effect = spend.Escalate
			default:
				skipped = true
				continue
			}
		}
		if f.reason != "" {
			findings = append(findings, f)
		}
	}
	for _, effect := range []spend.Effect{spend.Block, spend.Escalate} {
		for _, f := range findings {
			if f.effect == effect {
				return f
			}
		}
	}
	allow := plainFinding{effect: spend.Allow, confidence: r.Confidence}
	if skipped && allow.confidence == spend.High {
		allow.confidence = spend.Medium
	}
	return allow
}

// judgesType reports whether the parameters are for actions of the type and currency.
func (r plainRule) judgesType(a *spend.Action, t spend.ActionType) bool {
	switch r.ruleType {
	case "refund_age_limit":
		return t == spend.Refund
	case "discount_cap":
		return t == spend.Discount
	case "vendor_allowlist":
		return t == spend.Spend
	case "max_amount":
		return r.text == "" || strings.EqualFold(r.text, a.Currency)
	case "escalate_if":
		return r.list == nil || slices.Contains(r.list, t.String())
	case "budget":
		return r.inCurrency(a) && (r.list == nil || slices.Contains(r.list, t.String()))
	}
	return true
}

func (r plainRule) dependsOnType() bool {
	if !r.when.allTypes() {
		return true
	}
	switch r.ruleType {
	case "refund_age_limit", "discount_cap", "vendor_allowlist":
		return true
	case "escalate_if", "budget":
		for _, t := range []string{"refund", "credit", "discount", "spend"} {
			if r.list != nil && !slices.Contains(r.list, t) {
				return true
			}
		}
	}
	return false
}

// reason returns why the rule fires, empty if it does not; missing means that it
// cannot decide.
func (r plainRule) reason(before, all []plainRule, a *spend.Action, t spend.ActionType, now time.Time) (reason spend.Reason, missing bool) {
	when := func(fires bool, reason spend.Reason) (spend.Reason, bool) {
		if fires {
			return reason, false
		}
		return "", false
	}
	switch m := a.Metadata; r.ruleType {
	case "max_amount":
		if r.text == "" || strings.EqualFold(r.text, a.Currency) {
			return when(plainNumber(a.Amount.String()).Cmp(plainNumber(r.number)) > 0, "max_amount_exceeded")
		}
		first := !slices.ContainsFunc(before, func(o plainRule) bool { return o.ruleType == "max_amount" })
		covered := slices.ContainsFunc(all, func(o plainRule) bool {
			return o.ruleType == "max_amount" && (o.text == "" || strings.EqualFold(o.text, a.Currency))
		})
		return when(first && !covered, "currency_not_covered")
	case "refund_age_limit":
		if t != spend.Refund || !m.HasDaysSincePurchase {
			return "", t == spend.Refund
		}
		days := new(big.Rat).SetInt64(m.DaysSincePurchase)
		return when(days.Cmp(plainNumber(r.number)) > 0, "refund_age_limit_exceeded")
	case "blocked_categories":
		return r.listed(m.Category, "blocked_category")
	case "vendor_allowlist":
		return when(t == spend.Spend && !slices.Contains(r.list, a.Counterparty), "vendor_not_on_allowlist")
	case "blocked_payment_rails":
		return r.listed(a.PaymentMethod, "blocked_payment_rail")
	case "discount_cap":
		if t != spend.Discount || !m.HasDiscountPercent {
			return "", t == spend.Discount
		}
		return when(plainNumber(m.DiscountPercent.String()).Cmp(plainNumber(r.number)) > 0, "discount_cap_exceeded")
	case "geography_block":
		return r.listed(plainCountry(a), "blocked_geography")
	case "time_restriction":
		return when(!r.open(now), "time_restriction_violated")
	case "escalate_if":
		named := r.list == nil || slices.Contains(r.list, t.String())
		amount := plainNumber(a.Amount.String())
		within := r.upTo == "" || amount.Cmp(plainNumber(r.upTo)) <= 0
		return when(named && within && (r.number == "" || amount.Cmp(plainNumber(r.number)) > 0), "escalation_threshold_exceeded")
	case "block_if":
		return "condition_met", false
	case "budget": // the rest depends on what was counted (plainBudgets)
		return "", r.judgesType(a, t) && r.lacks(a)
	}
	return "", false // duplicate_guard
}

// listed compares with a list without regard to case.
func (r plainRule) listed(value string, reason spend.Reason) (spend.Reason, bool) {
	for _, entry := range r.list {
		if value != "" && strings.EqualFold(strings.TrimSpace(entry), strings.TrimSpace(value)) {
			return reason, false
		}
	}
	return "", value == ""
}

// open reports whether a window that opened today or yesterday is open now.
func (r plainRule) open(now time.Time) bool {
	if r.zone != "" {
		zone, err := LoadZone(r.zone)
		if err != nil {
			panic("BUG: no zone: " + r.zone)
		}
		return r.openIn(zone, now)
	}
	from, until := "00:00", "24:00"
	if r.text != "" {
		from, until, _ = strings.Cut(r.text, "-")
	}
	length := plainClock(until) - plainClock(from)
	if length <= 0 {
		length += 24 * time.Hour
	}
	now = now.UTC()
	for _, ago := range []int{0, 1} {
		midnight := time.Date(now.Year(), now.Month(), now.Day()-ago, 0, 0, 0, 0, time.UTC)
		opens := midnight.Add(plainClock(from))
		day := strings.ToLower(midnight.Weekday().String()[:3])
		if (r.list == nil || slices.Contains(r.list, day)) && !now.Before(opens) && now.Before(opens.Add(length)) {
			return true
		}
	}
	return false
}

func plainClock(s string) time.Duration {
	hour, minute, _ := strings.Cut(s, ":")
	d, err := time.ParseDuration(hour + "h" + minute + "m")
	if err != nil {
		panic("BUG: no clock: " + s)
	}
	return d
}

func plainNumber(s string) *big.Rat {
	n, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("BUG: no number: " + s)
	}
	return n
}

// plainWindow returns the duplicate guard's window and the rule it reports.
func plainWindow(rules []plainRule, a *spend.Action, t spend.ActionType) (window time.Duration, rule string) {
	for _, r := range rules {
		if all, _ := r.when.match(a, t); r.ruleType != "duplicate_guard" || !all {
			continue
		}
		minutes, _ := plainNumber(r.number).Float64()
		if w := time.Duration(minutes) * time.Minute; w > window {
			window, rule = w, r.id
		}
	}
	if rule == "" {
		return 5 * time.Minute, "duplicate_guard"
	}
	return window, rule
}
