package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"spendgate/audit/spend"
	"spendgate/hotpath/client"
)

func budgetsCommand() command {
	return command{
		name: "budgets", summary: "list what budgets have used and what is left", setup: budgetsList,
		details: "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY, a key with budgets:read, and policies:read\n" +
			"unless --policy-id says which policy.",
	}
}

func budgetsList(flags *flag.FlagSet) action {
	var q client.BudgetQuery
	flags.StringVar(&q.PolicyID, "policy-id", "", "only of the policy `ID`; by default of all")
	flags.StringVar(&q.RuleID, "rule-id", "", "only of the rule `ID`")
	flags.StringVar(&q.AgentID, "agent-id", "", "only what the agent `ID` may use")
	flags.StringVar(&q.Counterparty, "counterparty", "", "only of what goes to `TEXT`")
	flags.StringVar(&q.At, "at", "", "the windows that held `TIME`, RFC 3339; by default now")
	asJSON := outputFlag(flags)
	return func(ctx context.Context, p process, _ []string) error {
		api, err := keyAPI(p)
		if err != nil {
			return err
		}
		q.Limit = 100
		return printAll(p, allBudgets(ctx, api, q), *asJSON, writeBudgets)
	}
}

// allBudgets yields the budgets of one policy, or of each.
func allBudgets(ctx context.Context, api *client.Client, q client.BudgetQuery) iter.Seq2[client.Budget, error] {
	if q.PolicyID != "" {
		return api.AllBudgets(ctx, q)
	}
	return func(yield func(client.Budget, error) bool) {
		for policy, err := range api.AllPolicies(ctx, client.PolicyQuery{Limit: 100}) {
			if err != nil {
				yield(client.Budget{}, err)
				return
			}
			q.PolicyID = policy.PolicyID
			for b, err := range api.AllBudgets(ctx, q) {
				if !yield(b, err) || err != nil {
					return
				}
			}
		}
	}
}

func writeBudgets(w io.Writer, all []client.Budget) error {
	out := newTable(w)
	fmt.Fprintln(out, "POLICY\tRULE\tOF\tWINDOW\tUSED\tLIMIT\tLEFT\tCOUNT\tMAX COUNT\tRESETS")
	for i := range all {
		b := &all[i]
		of, window, used, limit, left, most, resets := "all", b.Window, "-", "-", "-", "-", "never"
		currency := spend.Printable(b.Currency)
		if currency != "" {
			used = b.Used.Money(currency)
		}
		if len(b.Per) > 0 {
			var per []string
			for _, name := range slices.Sorted(maps.Keys(b.Per)) {
				per = append(per, name+"="+b.Per[name])
			}
			of = strings.Join(per, " ")
		}
		if b.RollingMinutes > 0 {
			window, resets = fmt.Sprintf("%d minutes", b.RollingMinutes), "rolling"
		}
		if b.Limit != nil {
			limit = b.Limit.Money(currency)
		}
		if b.Remaining != nil {
			left = b.Remaining.Money(currency)
		}
		if b.MaxCount != nil {
			most = fmt.Sprint(*b.MaxCount)
		}
		if b.ResetsAt != nil {
			resets = b.ResetsAt.String()
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", spend.Printable(b.PolicyID), spend.Printable(b.RuleID), spend.Printable(of),
			spend.Printable(window), used, limit, left, b.Count, most, resets)
	}
	return out.Flush()
}

func webhooksCommand() command {
	return command{
		name: "webhooks", summary: "list where events are delivered to", setup: webhooksList,
		details: "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_ADMIN_KEY.",
	}
}

func webhooksList(flags *flag.FlagSet) action {
	asJSON := outputFlag(flags)
	return func(ctx context.Context, p process, _ []string) error {
		api, err := adminAPI(p)
		if err != nil {
			return err
		}
		return printAll(p, api.AllWebhooks(ctx), *asJSON, writeWebhooks)
	}
}

func writeWebhooks(w io.Writer, all []client.Webhook) error {
	out := newTable(w)
	fmt.Fprintln(out, "WEBHOOK ID\tSTATUS\tCREATED\tURL\tEVENTS")
	for _, h := range all {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", spend.Printable(h.WebhookID), spend.Printable(h.Status), h.CreatedAt, spend.Printable(h.URL),
			listText(h.EventTypes))
	}
	return out.Flush()
}
