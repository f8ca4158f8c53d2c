package apicmd

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/client"
)

const grantsNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY, else with the session of spendgate login."

func grantsCommand() cli.Command {
	return cli.Command{
		Name: "grants", Summary: "raise the limit of a budget for a time", Details: grantsNeed,
		Sub: []cli.Command{
			{
				Name: "create", Summary: "raise the limit of one counter until a time", Setup: grantsCreate,
				Details: grantsNeed + "\nThe key needs budgets:grant. Where the policy has changes, as many people as these ask must approve it.",
			},
			{Name: "list", Summary: "list grants, newest first", Setup: grantsList, Details: grantsNeed},
			{
				Name: "approve", Args: "GRANT_ID", Summary: "approve a grant that waits for people",
				Setup: grantsDecide((*client.Client).ApproveGrant), Details: grantsNeed,
			},
			{
				Name: "revoke", Args: "GRANT_ID", Summary: "end a grant; what passed stays",
				Setup: grantsDecide((*client.Client).RevokeGrant), Details: grantsNeed,
			},
		},
	}
}

func grantsCreate(flags *flag.FlagSet) cli.Action {
	asked := client.NewGrant{IdempotencyKey: rand.Text(), Per: make(map[string]any)}
	flags.StringVar(&asked.PolicyID, "policy", "", "the policy `ID`")
	flags.StringVar(&asked.RuleID, "rule", "", "the rule `ID` of the budget")
	const per = "for whom, as `NAME=VALUE`, once for each name in the budget's per: agent_id=bot-1, metadata.tier=2,\n" +
		"metadata.code=\"2\" for a text"
	flags.Func("per", per, func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if asked.Per[name] = value; !ok {
			return cli.UsageError{Text: "must be NAME=VALUE"}
		}
		var typed any // of metadata, whose values have types
		if strings.HasPrefix(name, "metadata.") && json.Unmarshal([]byte(value), &typed) == nil && typed != nil {
			asked.Per[name] = json.RawMessage(value)
		}
		return nil
	})
	flags.Func("add-amount", "how much more, in the budget's currency, as `NUMBER`", func(text string) error {
		amount, err := spend.ParseAmount(text)
		asked.AddAmount = &amount
		return err
	})
	flags.Int64Var(&asked.AddCount, "add-count", 0, "how many more actions, as `NUMBER`")
	flags.StringVar(&asked.Note, "note", "", "why, as `TEXT`")
	var until cli.UntilFlag
	flags.Var(&until, "until", "when it ends, as `TIME` or how long from now (2h)")
	asJSON := flags.Bool("json", false, "print the answer as JSON")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		asked.Until = until.At
		var missing []string
		for _, name := range [...]string{"policy", "rule", "until", "note"} {
			if flags.Lookup(name).Value.String() == "" && (name != "until" || until.At.IsZero()) {
				missing = append(missing, "--"+name)
			}
		}
		if (asked.AddAmount == nil) == (asked.AddCount == 0) {
			missing = append(missing, "one of --add-amount and --add-count")
		}
		if missing != nil {
			return cli.UsageError{Text: "needs " + strings.Join(missing, ", ")}
		}
		api, err := cli.KeyAPI(p)
		if err != nil {
			return err
		}
		g, err := api.CreateGrant(ctx, asked)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.WriteJSON(p.Stdout, g.JSON())
		}
		warnOfCounter(ctx, p, api, g)
		return writeGrant(p, g)
	}
}

// warnOfCounter says where a grant probably does not do what is meant: nobody uses its counter, or it is still full. What
// cannot be read is not warned of.
func warnOfCounter(ctx context.Context, p cli.Process, api *client.Client, g *client.Grant) {
	warning := "nothing is counted for " + spend.Printable(perText(g.Per)) + " in this window; is the name exactly right?"
	for b, err := range api.AllBudgets(ctx, client.BudgetQuery{PolicyID: g.PolicyID, RuleID: g.RuleID, Limit: 100}) {
		if err != nil {
			return
		}
		if perText(b.Per) != perText(g.Per) {
			continue
		}
		full := b.Remaining != nil && b.Remaining.IsZero() || b.RemainingCount != nil && *b.RemainingCount == 0
		if g.Missing > 0 || !full {
			return
		}
		warning = "the counter is still full"
		break
	}
	fmt.Fprintln(p.Stderr, "WARNING: "+warning) //nolint:errcheck // the grant is made
}

func writeGrant(p cli.Process, g *client.Grant) error {
	text := g.Status
	if g.Missing > 0 {
		text = fmt.Sprintf("pending: %d of %d people are missing", g.Missing, g.Required)
	}
	_, err := fmt.Fprintln(p.Stdout, spend.Printable(g.GrantID), spend.Printable(text))
	return err
}

func grantsDecide(decide func(*client.Client, context.Context, string, string) (*client.Grant, error)) func(*flag.FlagSet) cli.Action {
	return func(flags *flag.FlagSet) cli.Action {
		note := flags.String("note", "", "why, as `TEXT`")
		return func(ctx context.Context, p cli.Process, args []string) error {
			id, api, err := cli.OneID(p, "GRANT_ID", args)
			if err != nil {
				return err
			}
			g, err := decide(api, ctx, id, *note)
			if err != nil {
				return err
			}
			return writeGrant(p, g)
		}
	}
}

func grantsList(flags *flag.FlagSet) cli.Action {
	var q client.GrantQuery
	flags.StringVar(&q.PolicyID, "policy-id", "", "only of the policy `ID`")
	flags.StringVar(&q.RuleID, "rule-id", "", "only of the rule `ID`")
	flags.StringVar(&q.AgentID, "agent-id", "", "only for the agent `ID`")
	flags.StringVar(&q.Status, "status", "", "only `STATUS`: pending, open, revoked or ended")
	return cli.List(flags, cli.KeyAPI, func(api *client.Client, ctx context.Context) iter.Seq2[client.Grant, error] {
		return api.AllGrants(ctx, q)
	}, writeGrants)
}

func writeGrants(w io.Writer, all []client.Grant) error {
	headings := []string{"GRANT ID", "POLICY", "RULE", "OF", "ADDS", "STATUS", "UNTIL", "BY", "MISSING", "NOTE"}
	return cli.WriteTable(w, headings, all, func(g *client.Grant) []string {
		return []string{
			g.GrantID, g.PolicyID, g.RuleID, perText(g.Per), addsText(g), g.Status, g.Until.String(), g.CreatedBy.Principal,
			strconv.Itoa(g.Missing), g.Note,
		}
	})
}

// addsText says what a grant adds to a limit.
func addsText(g *client.Grant) string {
	if g.AddAmount != nil {
		return g.AddAmount.Money(spend.Printable(g.Currency))
	}
	return fmt.Sprintf("%d actions", g.AddCount)
}

// perText says for whom a counter counts. A text that could be another value has its quotes: "5" and 5 are two counters.
func perText(per map[string]any) string {
	var of []string
	for _, name := range slices.Sorted(maps.Keys(per)) {
		value := fmt.Sprint(per[name])
		if text, is := per[name].(string); is && strings.HasPrefix(name, "metadata.") &&
			(json.Valid([]byte(text)) || strings.TrimSpace(text) != text) {
			value = strconv.Quote(text)
		}
		of = append(of, name+"="+value)
	}
	return cmp.Or(strings.Join(of, " "), "all")
}
