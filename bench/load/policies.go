package load

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// The parts of the policies. Every policy has the same ten rules, one of each type; cap and
// threshold differ.
const (
	Vendors            = 40 // on the allowlist
	MaxDaysSince       = 30
	MaxDiscountPercent = 20
	WindowMinutes      = 5
	allowedHours       = "00:00-24:00" // evaluated, but always open
)

// AllowedDays are the days on which policies are open: all, so that decisions do not depend on when
// a run is started.
var AllowedDays = [...]string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// What the policies block.
var (
	BlockedCategories = [...]string{"gambling", "weapons", "adult", "tobacco"}
	BlockedRails      = [...]string{"crypto", "wire", "cash"}
	BlockedCountries  = [...]string{"KP", "IR", "SY", "CU"}
	EscalatedTypes    = [...]string{"spend", "refund", "credit"}
)

// What ordinary actions are made of.
var (
	actionTypes    = [...]string{"spend", "spend", "spend", "spend", "refund", "refund", "refund", "credit", "discount", "discount"}
	paymentMethods = [...]string{"card", "card", "card", "ach", "sepa"}
	categories     = [...]string{"office supplies", "software", "travel", "hardware", "cloud services", "training"}
	countries      = [...]string{"US", "US", "US", "DE", "FR", "GB", "JP", "BR"}
)

// Vendor returns the i-th entry of the allowlist.
func Vendor(i int) string { return vendorNames[i] }

var vendorNames = func() (names [Vendors]string) {
	for i := range names {
		names[i] = fmt.Sprintf("vendor-%02d", i)
	}
	return names
}()

// PolicyID names the i-th policy.
func PolicyID(i int) string { return "bench_" + strconv.Itoa(i) }

// Cap returns the i-th policy's max_amount, in dollars.
func Cap(i int) int { return 5000 + 100*(i%10) }

// Threshold returns the amount above which the i-th policy escalates, in dollars.
func Threshold(i int) int { return 1000 + 10*(i%10) }

// policyBody returns the body of POST /v1/policies that creates the i-th policy, with further rules
// after its own.
func policyBody(i int, more ...map[string]any) []byte {
	type object = map[string]any
	rule := func(id, kind string, parameters object) object {
		return object{"rule_id": id, "rule_type": kind, "parameters": parameters}
	}
	body, err := json.Marshal(object{
		"policy_id": PolicyID(i),
		"name":      "Benchmark policy " + strconv.Itoa(i),
		"rules": append([]object{
			rule("cap", "max_amount", object{"limit": Cap(i), "currency": "USD"}),
			rule("refund-age", "refund_age_limit", object{"max_days": MaxDaysSince}),
			rule("categories", "blocked_categories", object{"categories": BlockedCategories}),
			rule("vendors", "vendor_allowlist", object{"vendors": vendorNames}),
			rule("rails", "blocked_payment_rails", object{"rails": BlockedRails}),
			rule("discount-cap", "discount_cap", object{"max_percent": MaxDiscountPercent}),
			rule("countries", "geography_block", object{"blocked_countries": BlockedCountries}),
			rule("hours", "time_restriction", object{"allowed_days": AllowedDays, "allowed_hours_utc": allowedHours}),
			rule("repeats", "duplicate_guard", object{"window_minutes": WindowMinutes}),
			rule("needs-a-human", "escalate_if", object{"amount_above": Threshold(i), "action_types": EscalatedTypes}),
		}, more...),
	})
	if err != nil {
		panic("BUG: a benchmark policy is no JSON: " + err.Error())
	}
	return body
}
