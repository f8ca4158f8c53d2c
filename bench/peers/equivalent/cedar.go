package equivalent

import (
	"fmt"
	"strings"

	"spendgate/bench/load"
)

// CedarEscalates is the id of the policy that asks for a human. An action that
// no other policy forbids is not blocked.
const CedarEscalates = "needs-a-human"

// Cedar is the i-th policy as Cedar policies. Each has an id by annotation;
// what blocks or escalates forbids, and the diagnostics tell which did. Cedar
// has neither fractions as they are needed here nor a way to lower a string,
// so the context holds cents, and words in lower case.
func Cedar(i int) string {
	const cents = 100
	return strings.NewReplacer(
		"$cap", fmt.Sprint(load.Cap(i)*cents), "$threshold", fmt.Sprint(load.Threshold(i)*cents),
		"$days_since", fmt.Sprint(load.MaxDaysSince), "$discount", fmt.Sprint(load.MaxDiscountPercent),
		"$categories", list(lowered(load.BlockedCategories[:]), "[", "]"),
		"$rails", list(lowered(load.BlockedRails[:]), "[", "]"),
		"$countries", list(lowered(load.BlockedCountries[:]), "[", "]"),
		"$types", list(load.EscalatedTypes[:], "[", "]"),
		"$vendors", list(vendors(), "[", "]"),
		"$all_day", "86400000",
	).Replace(cedarPolicies)
}

const cedarPolicies = `@id("allowed")
permit (principal, action, resource);

@id("cap")
forbid (principal, action, resource)
when { context.currency != "USD" || context.amount > $cap };

@id("refund-age")
forbid (principal, action, resource)
when { context.action_type == "refund" && context has days_since_purchase && context.days_since_purchase > $days_since };

@id("categories")
forbid (principal, action, resource)
when { context has category && $categories.contains(context.category) };

@id("vendors")
forbid (principal, action, resource)
when { context.action_type == "spend" && !$vendors.contains(context.counterparty) };

@id("rails")
forbid (principal, action, resource)
when { context has payment_method && $rails.contains(context.payment_method) };

@id("discount-cap")
forbid (principal, action, resource)
when { context.action_type == "discount" && context has discount_percent && context.discount_percent > $discount };

@id("countries")
forbid (principal, action, resource)
when { context has country && $countries.contains(context.country) };

@id("hours")
forbid (principal, action, resource)
when { !(context.now.toTime() < duration("$all_dayms")) };

@id("needs-a-human")
forbid (principal, action, resource)
when { context.amount > $threshold && $types.contains(context.action_type) };
`
