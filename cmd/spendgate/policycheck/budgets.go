package policycheck

import (
	"slices"

	"spendgate/audit/spend"
	"spendgate/hotpath/httpapi"
	"spendgate/hotpath/policy"
)

// EndedBudgets returns the sorted rule_ids of the budgets of the policy before that would end if
// after became its next version (S37). A body with faults, which the API refuses, ends none.
func EndedBudgets(before, after []byte) (ended []string) {
	next, ok := identities(after)
	if !ok {
		return nil
	}
	previous, _ := identities(before)
	for id, own := range previous {
		if !slices.ContainsFunc(next[id], func(other spend.Hash) bool { return slices.Contains(own, other) }) {
			ended = append(ended, id)
		}
	}
	slices.Sort(ended)
	return ended
}

func identities(body []byte) (map[string][]spend.Hash, bool) {
	read, _ := httpapi.ReadPolicy(body) // read-only members are faults too, but do not concern the rules
	var faults spend.Faults
	program := policy.CompileStored("", 0, read.Rules, &faults)
	if faults != nil {
		return nil, false
	}
	return program.BudgetIdentities(), true
}
