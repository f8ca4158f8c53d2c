package equivalent

import (
	"fmt"
	"strings"

	"spendgate/bench/load"
)

// CerbosAction is the one action that is asked about.
const CerbosAction = "pay"

// Cerbos is the i-th policy as a Cerbos resource policy. What blocks denies
// the action; what escalates allows it with the output "escalate". Conditions
// are listed in spendgate's order; Cerbos ends at the first that holds.
func Cerbos(i int) string {
	return strings.NewReplacer(
		"$kind", load.PolicyID(i), "$action", CerbosAction,
		"$cap", fmt.Sprint(load.Cap(i)), "$threshold", fmt.Sprint(load.Threshold(i)),
		"$days_since", fmt.Sprint(load.MaxDaysSince), "$discount", fmt.Sprint(load.MaxDiscountPercent),
		"$categories", list(lowered(load.BlockedCategories[:]), "[", "]"),
		"$rails", list(lowered(load.BlockedRails[:]), "[", "]"),
		"$countries", list(lowered(load.BlockedCountries[:]), "[", "]"),
		"$types", list(load.EscalatedTypes[:], "[", "]"),
		"$vendors", list(vendors(), "[", "]"),
	).Replace(cerbosPolicy)
}

const cerbosPolicy = `apiVersion: api.cerbos.dev/v1
resourcePolicy:
  resource: $kind
  version: default
  rules:
    - name: blocked
      actions: ["$action"]
      roles: ["*"]
      effect: EFFECT_DENY
      condition:
        match:
          any:
            of:
              - expr: R.attr.currency != "USD" || R.attr.amount > $cap.0
              - expr: >-
                  R.attr.action_type == "refund" && has(R.attr.metadata.days_since_purchase) &&
                  R.attr.metadata.days_since_purchase > $days_since.0
              - expr: has(R.attr.metadata.category) && R.attr.metadata.category.lowerAscii() in $categories
              - expr: R.attr.action_type == "spend" && !(R.attr.counterparty in $vendors)
              - expr: has(R.attr.payment_method) && R.attr.payment_method.lowerAscii() in $rails
              - expr: >-
                  R.attr.action_type == "discount" && has(R.attr.metadata.discount_percent) &&
                  R.attr.metadata.discount_percent > $discount.0
              - expr: has(R.attr.metadata.country) && R.attr.metadata.country.lowerAscii() in $countries
              - expr: '!(now().getDayOfWeek() in [0, 1, 2, 3, 4, 5, 6]) || now().getHours() * 60 + now().getMinutes() >= 1440'
    - name: needs-a-human
      actions: ["$action"]
      roles: ["*"]
      effect: EFFECT_ALLOW
      condition:
        match:
          expr: R.attr.amount > $threshold.0 && R.attr.action_type in $types
      output:
        when:
          ruleActivated: '"escalate"'
    - name: allowed
      actions: ["$action"]
      roles: ["*"]
      effect: EFFECT_ALLOW
`
