package equivalent

import (
	"encoding/json"
	"fmt"
	"strings"

	"spendgate/bench/load"
)

// Rego is the i-th policy as a Rego module. Its rule "decision" is an object
// of the decision and the rule that fired.
func Rego(i int) string {
	return strings.NewReplacer(
		"$package", "bench."+load.PolicyID(i),
		"$cap", fmt.Sprint(load.Cap(i)), "$threshold", fmt.Sprint(load.Threshold(i)),
		"$days_since", fmt.Sprint(load.MaxDaysSince), "$discount", fmt.Sprint(load.MaxDiscountPercent),
		"$categories", list(lowered(load.BlockedCategories[:]), "{", "}"),
		"$rails", list(lowered(load.BlockedRails[:]), "{", "}"),
		"$countries", list(lowered(load.BlockedCountries[:]), "{", "}"),
		"$types", list(load.EscalatedTypes[:], "{", "}"),
		"$vendors", list(vendors(), "{", "}"),
	).Replace(regoModule)
}

const regoModule = `package $package

blocked_categories := $categories

blocked_rails := $rails

blocked_countries := $countries

escalated_types := $types

vendors := $vendors

open_days := {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}

default decision := {"decision": "allow"}

decision := {"decision": "block", "rule": "cap"} if {
	not within_cap
} else := {"decision": "block", "rule": "refund-age"} if {
	input.action_type == "refund"
	input.metadata.days_since_purchase > $days_since
} else := {"decision": "block", "rule": "categories"} if {
	lower(input.metadata.category) in blocked_categories
} else := {"decision": "block", "rule": "vendors"} if {
	input.action_type == "spend"
	not input.counterparty in vendors
} else := {"decision": "block", "rule": "rails"} if {
	lower(input.payment_method) in blocked_rails
} else := {"decision": "block", "rule": "discount-cap"} if {
	input.action_type == "discount"
	input.metadata.discount_percent > $discount
} else := {"decision": "block", "rule": "countries"} if {
	lower(input.metadata.country) in blocked_countries
} else := {"decision": "block", "rule": "hours"} if {
	not open
} else := {"decision": "escalate", "rule": "needs-a-human"} if {
	input.amount > $threshold
	input.action_type in escalated_types
}

within_cap if {
	input.currency == "USD"
	input.amount <= $cap
}

open if {
	now := time.now_ns()
	time.weekday(now) in open_days
	[hour, minute, _] := time.clock(now)
	(hour * 60) + minute < 1440
}
`

func vendors() []string {
	names := make([]string, load.Vendors)
	for i := range names {
		names[i] = load.Vendor(i)
	}
	return names
}

func lowered(words []string) []string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = strings.ToLower(word)
	}
	return out
}

// list writes words as quoted strings between two brackets.
func list(words []string, open, closing string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		text, err := json.Marshal(word)
		if err != nil {
			panic("BUG: a word is no JSON: " + err.Error())
		}
		quoted[i] = string(text)
	}
	return open + strings.Join(quoted, ", ") + closing
}
