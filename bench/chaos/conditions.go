package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"spendgate/bench/fleet"
)

// tiers are values of an action's metadata, of which two are one.
var tiers = [...]any{"gold", "silver", 5, json.Number("5.0"), true, " "}

// conditional are rules with conditions, a tier and hours, of a version of a policy (S88, S89).
func conditional(rng *rand.Rand, edit, limit int) (rules []fleet.Rule) {
	add := func(name, ruleType string, parameters, when map[string]any) {
		id := fmt.Sprintf("%s-%d-%d", name, edit, len(rules))
		rules = append(rules, fleet.Rule{RuleID: id, RuleType: ruleType, Parameters: parameters, When: when})
	}
	for range rng.IntN(3) {
		switch rng.IntN(6) {
		case 0:
			add("bare", "block_if", map[string]any{"message": "no tier"},
				map[string]any{"amount_above": limit - 100, "amount_up_to": limit, "absent": []string{"metadata.tier"}})
		case 1:
			add("tier", "escalate_if", map[string]any{"amount_above": limit / 4, "amount_up_to": limit / 2},
				map[string]any{"metadata": map[string]any{"tier": []any{"gold", 5}}})
		case 2:
			add("few", "max_amount", map[string]any{"limit": limit / 3, "currency": "USD"},
				map[string]any{"action_types": []string{"spend"}, "countries": []string{"DE"}, "merchants": []string{"shop", "other"}})
		case 3:
			hours := [...]string{"00:00-12:00", "12:00-24:00"}[rng.IntN(2)]
			add("hours", "time_restriction", map[string]any{"time_zone": "Asia/Kolkata", "allowed_hours": hours},
				map[string]any{"metadata": map[string]any{"tier": []any{true}}})
		case 4:
			add("lacking", "block_if", map[string]any{},
				map[string]any{"amount_above": limit - 50, "metadata": map[string]any{"n": map[string]any{"from": 7}}, "on_missing": "escalate"})
		case 5:
			add("bound", "escalate_if", map[string]any{"amount_above": 10},
				map[string]any{"metadata": map[string]any{"n": map[string]any{"above": 1, "below": 3}}, "present": []string{"metadata.tier"}})
		}
	}
	return rules
}
