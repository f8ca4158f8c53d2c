package policycmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/policycheck"
	"spendgate/hotpath/client"
)

// maxCountersShown is how many counters of a budget are printed.
const maxCountersShown = 10

// emptied returns a line for each budget that a policy's next version would empty, with its present
// usage (S63).
func emptied(ctx context.Context, api *client.Client, current *client.Policy, next []byte, drop ...string) (lines []string, err error) {
	for _, id := range policycheck.EndedBudgets(current.Body, next) {
		used, inUse, err := usedOf(ctx, api, current.PolicyID, id)
		if err != nil {
			return nil, err
		}
		if inUse && !slices.Contains(drop, id) {
			used += "; only --drop-budget " + id + " stores this"
		}
		lines = append(lines, fmt.Sprintf("budget %q of %s is not continued; %s", id, spend.Printable(current.PolicyID), used))
	}
	return lines, nil
}

func usedOf(ctx context.Context, api *client.Client, policyID, ruleID string) (text string, inUse bool, err error) {
	var used []string
	for b, err := range api.AllBudgets(ctx, client.BudgetQuery{PolicyID: policyID, RuleID: ruleID, Limit: 100}) {
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusForbidden {
			return "what is used cannot be read with this key", false, nil
		}
		if err != nil {
			return "", false, err
		}
		if len(used) == maxCountersShown {
			used = append(used, "and more")
			break
		}
		text := fmt.Sprintf("count %d", b.Count)
		if b.Currency != "" {
			text = b.Used.Money(b.Currency) + " and " + text
		}
		for _, name := range slices.Sorted(maps.Keys(b.Per)) {
			text += fmt.Sprintf(" of %s %q", name, fmt.Sprint(b.Per[name]))
		}
		used = append(used, text)
	}
	if used == nil {
		return "nothing of it is used", false, nil
	}
	return "in use: " + strings.Join(used, ", "), true, nil
}
