package main

import (
	"strings"
	"testing"
)

// A file that is applied again makes no new version, however its values are written.
func TestPoliciesAppliedAgain(t *testing.T) {
	n := startDev(t)
	for id, more := range map[string]string{
		"group":   "changes: {required: 2, from: [{group: risk}]}",
		"integer": "redeem: required\nredeem_within_minutes: 7.0",
		"both":    "changes: {required: 2.0, from: [{group: Züri, required: 1.0}, {group: b, required: null}]}",
		"nulls":   "changes: {required: null, from: [{group: risk}]}",
		"none":    "changes: null\ndescription: ' '\nredeem: ''",
	} {
		const rule = "{rule_id: cap, rule_type: max_amount, parameters: {limit: 10.00, currency: usd}}"
		const ask = "{rule_id: ask, rule_type: escalate_if, parameters: {amount_above: 5, approval: {expires_minutes: 60.0, from: [{group: g}]}}}"
		file := "policy_id: " + id + "\nname: n\nrules:\n- " + rule + "\n- " + ask + "\n" + more + "\n"
		n.as(t, n.sample, false, file, "policies", "apply", "-f", "-").Has(t, 0, id+" version 1")
		n.as(t, n.sample, false, file, "policies", "apply", "-f", "-").Has(t, 0, id+" version 1, unchanged")
		respelt := strings.NewReplacer("10.00", "10.0", "60.0", "60", "amount_above: 5,", "amount_above: 5.0,").Replace(file)
		n.as(t, n.sample, false, respelt, "policies", "apply", "-f", "-").Has(t, 0, id+" version 1, unchanged")
		if r := n.as(t, n.sample, false, file, "policies", "diff", "-f", "-"); r.Code != 0 || r.Stdout != "" {
			t.Errorf("%s: %+v", id, r)
		}
	}
}
