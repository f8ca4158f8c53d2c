package apicmd

import (
	"context"
	"flag"
	"fmt"
	"io"
	"iter"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/client"
)

func budgetsCommand() cli.Command {
	return cli.Command{
		Name: "budgets", Summary: "list what budgets have used and what is left", Setup: budgetsList,
		Details: "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY, a key with budgets:read, and policies:read\n" +
			"unless --policy-id says which policy.",
	}
}

func budgetsList(flags *flag.FlagSet) cli.Action {
	q := client.BudgetQuery{Limit: 100}
	flags.StringVar(&q.PolicyID, "policy-id", "", "only of the policy `ID`; by default of all")
	flags.StringVar(&q.RuleID, "rule-id", "", "only of the rule `ID`")
	flags.StringVar(&q.AgentID, "agent-id", "", "only what the agent `ID` may use")
	flags.StringVar(&q.Counterparty, "counterparty", "", "only of what goes to `TEXT`")
	flags.StringVar(&q.At, "at", "", "the windows that held `TIME`, RFC 3339; by default now")
	return cli.List(flags, cli.KeyAPI, func(api *client.Client, ctx context.Context) iter.Seq2[client.Budget, error] {
		return allBudgets(ctx, api, q)
	}, writeBudgets)
}

// allBudgets yields the budgets of one policy, or of each.
func allBudgets(ctx context.Context, api *client.Client, q client.BudgetQuery) iter.Seq2[client.Budget, error] {
	if q.PolicyID != "" {
		return api.AllBudgets(ctx, q)
	}
	return func(yield func(client.Budget, error) bool) {
		for policy, err := range api.AllPolicies(ctx) {
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
	headings := []string{"POLICY", "RULE", "OF", "WINDOW", "USED", "LIMIT", "LEFT", "COUNT", "MAX COUNT", "RESETS"}
	return cli.WriteTable(w, headings, all, func(b *client.Budget) []string {
		window, used, limit, left, most, resets := b.Window, "-", "-", "-", "-", "never"
		currency := spend.Printable(b.Currency)
		if currency != "" {
			used = b.Used.Money(currency)
		}
		if b.RollingMinutes > 0 {
			if window, resets = fmt.Sprintf("%d minutes", b.RollingMinutes), "rolling"; b.RollingMinutes%(24*60) == 0 {
				window = fmt.Sprintf("%d days", b.RollingMinutes/(24*60))
			}
		}
		if b.Limit != nil {
			limit = b.Limit.Money(currency)
		}
		if b.Granted != nil && !b.Granted.IsZero() {
			limit += " + " + b.Granted.Money(currency)
		}
		if b.Remaining != nil {
			left = b.Remaining.Money(currency)
		}
		if b.MaxCount != nil {
			most = fmt.Sprint(*b.MaxCount)
		}
		if b.GrantedCount != nil && *b.GrantedCount > 0 {
			most += fmt.Sprintf(" + %d", *b.GrantedCount)
		}
		if b.ResetsAt != nil {
			resets = b.ResetsAt.String()
		}
		return []string{
			b.PolicyID, b.RuleID, perText(b.Per), window, used, limit, left, fmt.Sprint(b.Count), most, resets,
		}
	})
}

func webhooksCommand() cli.Command {
	return cli.Command{Name: "webhooks", Summary: "list where events are delivered to", Setup: webhooksList, Details: cli.AdminNeed}
}

func webhooksList(flags *flag.FlagSet) cli.Action {
	return cli.List(flags, cli.AdminAPI, (*client.Client).AllWebhooks, func(w io.Writer, all []client.Webhook) error {
		return cli.WriteTable(w, []string{"WEBHOOK ID", "STATUS", "CREATED", "URL", "EVENTS"}, all, func(h *client.Webhook) []string {
			return []string{h.WebhookID, h.Status, h.CreatedAt.String(), h.URL, listText(h.EventTypes)}
		})
	})
}
