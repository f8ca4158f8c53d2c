package policycmd

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"strings"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/client"
)

func policiesDraftCommand() cli.Command {
	return cli.Command{
		Name: "draft", Summary: "compare a draft with what is decided, and make it the next version",
		Sub: []cli.Command{
			{
				Name: "put", Summary: "put the draft of a policy from a file, in place of the one before", Setup: policiesDraftPut,
				Details: policiesNeed + "\nThe key needs the scope policies:write. The file has one policy, with its policy_id.\n" +
					"A draft decides nothing. The draft of another author is replaced only by its hash, in --replaces.",
			},
			{Name: "get", Args: "POLICY_ID", Summary: "print the draft of a policy as JSON", Setup: policiesDraftGet, Details: policiesNeed},
			{
				Name: "show", Args: "POLICY_ID", Summary: "show what the draft changes, who has approved it, and who is missing",
				Setup:   policiesDraftShow,
				Details: policiesNeed + "\nThe key needs the scope policies:read.",
			},
			{
				Name: "approve", Args: "POLICY_ID", Summary: "approve exactly the draft that is shown as the next version", Setup: policiesDraftApprove,
				Details: policiesNeed + "\nThe key is a person's: role approver, and not of who put the draft. Shows the draft as show does, asks, " +
					"and sends its hash: a draft\n" +
					"that is put afterwards was approved by nobody. Only policies whose version in force has changes ask people.",
			},
			{
				Name: "reject", Args: "POLICY_ID", Summary: "reject exactly the draft that is shown", Setup: policiesDraftReject,
				Details: policiesNeed + "\nThe key is as for approve. No approval of the draft counts until it is put again.",
			},
			{
				Name: "report", Args: "POLICY_ID", Summary: "compare what the draft makes of checks with what was decided", Setup: policiesDraftReport,
				Details: policiesNeed + "\nThe key needs the scopes policies:read and checks:read.",
			},
			{Name: "delete", Args: "POLICY_ID", Summary: "end the draft of a policy", Setup: policiesDraftDelete, Details: policiesNeed},
			{
				Name: "promote", Args: "POLICY_ID --if-match N", Summary: "make the draft the next version, if version N is in force",
				Setup: policiesDraftPromote,
				Details: policiesNeed + "\nThe key needs the scope policies:write. A version that would empty budgets in use is refused, " +
					"unless --drop-budget names each.\n" +
					"Where the version in force asks people, so many must have approved the draft, with the same --drop-budget.",
			},
		},
	}
}

func policiesDraftPut(flags *flag.FlagSet) cli.Action {
	path := fileFlag(flags)
	note := flags.String("note", "", "a `TEXT` that the draft shows")
	replaces := ""
	flags.Func("replaces", "the `HASH` of the draft that is replaced; needed for another author's", cli.NotEmpty(&replaces))
	return func(ctx context.Context, p cli.Process, _ []string) error {
		if *path == "" {
			return cli.UsageError{Text: "needs -f FILE"}
		}
		policies, err := readPolicies(p, *path)
		if err != nil {
			return err
		}
		if len(policies) != 1 || policies[0].ID() == "" {
			return cli.UsageError{Text: "-f must name one policy, with its policy_id"}
		}
		id, policy := policies[0].ID(), policies[0]
		if *note != "" {
			if policy, err = policy.With("note", *note); err != nil {
				return err
			}
		}
		api, err := cli.KeyAPI(p)
		if err != nil {
			return err
		}
		if policy, err = policy.Without("policy_id"); err != nil {
			return err
		}
		d, err := api.PutDraftJSON(ctx, id, replaces, policy.Body)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Stdout, "%s draft %.12s beside version %d\n", spend.Printable(d.PolicyID),
			spend.Printable(d.DraftHash), d.BaseVersion)
		return err
	}
}

func policiesDraftGet(*flag.FlagSet) cli.Action {
	return func(ctx context.Context, p cli.Process, args []string) error {
		_, d, err := oneDraft(ctx, p, args)
		if err != nil {
			return err
		}
		return cli.WriteJSON(p.Stdout, d.Body)
	}
}

// oneDraft reads the draft of the policy that the arguments name.
func oneDraft(ctx context.Context, p cli.Process, args []string) (*client.Client, *client.Draft, error) {
	id, api, err := cli.OneID(p, "POLICY_ID", args)
	if err != nil {
		return nil, nil, err
	}
	d, err := api.Draft(ctx, id)
	return api, d, err
}

func policiesDraftReport(flags *flag.FlagSet) cli.Action {
	asJSON := flags.Bool("json", false, "print the report as JSON")
	return func(ctx context.Context, p cli.Process, args []string) error {
		id, api, err := cli.OneID(p, "POLICY_ID", args)
		if err != nil {
			return err
		}
		waits := false
		r, err := api.AwaitDraftReport(ctx, id, func(r *client.DraftReport) {
			if waits = waits || !r.Ended(); waits {
				printProgress(p.Stderr, r.Status, r.Progress)
			}
		})
		if waits {
			fmt.Fprintln(p.Stderr) //nolint:errcheck // ends the progress bar
		}
		if err != nil {
			return err
		}
		if r.Report == nil {
			return fmt.Errorf("the backtest of the draft %s: %s", r.Status, spend.Printable(cmp.Or(r.Error, r.BacktestID)))
		}
		if *asJSON {
			return cli.WriteJSON(p.Stdout, r.Body)
		}
		out := cli.NewTable(p.Stdout)
		fmt.Fprintf(out, "%d checks of %s since %s, %d compared\n", r.Report.Coverage.Checks, spend.Printable(r.PolicyID), r.Since,
			r.Report.Coverage.Compared)
		printComparison(out, r.Report)
		if len(r.Flips) > 0 {
			fmt.Fprintln(out, flipHeader)
		}
		for i := range r.Flips {
			printFlip(out, &r.Flips[i])
		}
		return out.Flush()
	}
}

func policiesDraftDelete(flags *flag.FlagSet) cli.Action {
	hash := ""
	flags.Func("draft-hash", "delete only the draft with this `HASH`; needed for another author's", cli.NotEmpty(&hash))
	return func(ctx context.Context, p cli.Process, args []string) error {
		id, api, err := cli.OneID(p, "POLICY_ID", args)
		if err != nil {
			return err
		}
		return api.DeleteDraft(ctx, id, hash)
	}
}

func policiesDraftPromote(flags *flag.FlagSet) cli.Action {
	version := flags.Int("if-match", 0, "the version `N` that must be in force (required)")
	var promotion client.Promotion
	flags.Func("draft-hash", "promote only the draft with this `HASH`, as show prints it", cli.NotEmpty(&promotion.DraftHash))
	flags.Func("drop-budget", "empty the budget `RULE` though it is in use; may be given again", cli.EachNotEmpty(&promotion.DropBudgets))
	flags.StringVar(&promotion.Note, "note", "", "a `TEXT` that the versions show")
	return func(ctx context.Context, p cli.Process, args []string) error {
		if *version < 1 {
			return cli.UsageError{Text: "needs --if-match N, the version that the draft replaces"}
		}
		id, api, err := cli.OneID(p, "POLICY_ID", args)
		if err != nil {
			return err
		}
		made, err := api.PromoteDraft(ctx, id, *version, promotion)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Stdout, "%s version %d\n", spend.Printable(made.PolicyID), made.Version)
		return err
	}
}

const flipHeader = "CHECK\tRECORDED\tRULE\tWOULD BE\tRULE\tAMOUNT\tCOUNTERPARTY"

// printFlip prints a row below flipHeader.
func printFlip(out interface{ Write([]byte) (int, error) }, f *client.Flip) {
	cells := []string{
		f.CheckID, f.Recorded.Decision.String(), cmp.Or(f.Recorded.RuleID, "-"), f.Candidate.Decision.String(), cmp.Or(f.Candidate.RuleID, "-"),
		"-", "-",
	}
	if f.Action != nil {
		cells[5], cells[6] = f.Action.Amount.Money(f.Action.Currency), f.Action.Counterparty
	}
	for i := range cells {
		cells[i] = spend.Printable(cells[i])
	}
	fmt.Fprintln(out, strings.Join(cells, "\t")) //nolint:errcheck // flushing tells
}
