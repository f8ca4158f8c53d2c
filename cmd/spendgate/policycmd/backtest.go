package policycmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/client"
	"spendgate/hotpath/report"
)

// maxFlipsShown bounds the flips in a table; --json has all.
const maxFlipsShown = 50

// policiesBacktest replays recorded checks by a policy in a file.
func policiesBacktest(flags *flag.FlagSet) cli.Action {
	path := fileFlag(flags)
	ask := client.NewBacktest{}
	flags.StringVar(&ask.From, "from", "", "replay checks from this `TIME` or date on (required)")
	flags.StringVar(&ask.To, "to", "", "replay checks up to this `TIME` or date (required)")
	flags.StringVar(&ask.State, "state", "",
		"whose decisions fill windows and budgets: `STATE` is counterfactual (the file's, the default) or recorded")
	asJSON := flags.Bool("json", false, "print the backtest and its report as JSON")
	failOnLooser := flags.Bool("fail-on-looser", false,
		"exit with 3 when a check that was blocked or escalated would be allowed, with 2 when none was compared")
	drafted := flags.Bool("draft", false, "replay by the draft that the policy of the file has on the server, instead of the file's rules")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		if *path == "" || ask.From == "" || ask.To == "" {
			return cli.UsageError{Text: "needs -f FILE, --from and --to"}
		}
		policies, err := readPolicies(p, *path)
		if err != nil {
			return trouble(err)
		}
		if len(policies) != 1 || policies[0].ID() == "" {
			return cli.UsageError{Text: "-f must name one policy, with its policy_id"}
		}
		var body struct {
			Rules json.RawMessage `json:"rules"`
		}
		if err := json.Unmarshal(policies[0].Body, &body); err != nil {
			return trouble(err)
		}
		ask.PolicyID, ask.Rules = policies[0].ID(), body.Rules
		api, err := cli.KeyAPI(p)
		if err != nil {
			return trouble(err)
		}
		if *drafted {
			draft, err := api.Draft(ctx, ask.PolicyID)
			if err != nil {
				return trouble(err)
			}
			ask.Rules = draft.Rules
		}
		b, err := runBacktest(ctx, p, api, ask)
		if err != nil {
			return trouble(err)
		}
		if *asJSON {
			err = cli.WriteJSON(p.Stdout, b.Body)
		} else {
			err = printBacktest(ctx, p.Stdout, api, b)
		}
		switch {
		case err != nil:
			return err
		case *failOnLooser:
			return looser(b.Report)
		case b.Report.Coverage.Compared == 0:
			fmt.Fprintln(p.Stderr, "WARNING: "+nothingCompared) //nolint:errcheck // the report says it, too
		}
		return nil
	}
}

const nothingCompared = "no check was compared, so that nothing is known of what would be allowed"

// looser returns an error unless a report shows that no further checks would be allowed.
func looser(r *report.Report) error {
	switch {
	case r.Flips.ToAllow > 0:
		return cli.ExitError{Err: fmt.Errorf("%d checks that were blocked or escalated would be allowed", r.Flips.ToAllow), Code: 3}
	case r.Coverage.Compared == 0:
		return trouble(errors.New(nothingCompared))
	case len(r.Coverage.MissingDays) > 0:
		return trouble(fmt.Errorf("%d days are not at hand, so that nothing is known of what would be allowed on them",
			len(r.Coverage.MissingDays)))
	}
	return nil
}

// runBacktest waits for the end of the backtest, with a progress bar, and cancels it if it is
// interrupted.
func runBacktest(ctx context.Context, p cli.Process, api *client.Client, ask client.NewBacktest) (*client.Backtest, error) {
	made, err := api.CreateBacktest(ctx, ask)
	if err != nil {
		return nil, err
	}
	b, err := api.AwaitBacktest(ctx, made.BacktestID, func(b *client.Backtest) { printProgress(p.Stderr, b.Status, b.Progress) })
	fmt.Fprintln(p.Stderr) //nolint:errcheck // as above
	switch {
	case ctx.Err() != nil:
		_, _ = api.CancelBacktest(context.WithoutCancel(ctx), made.BacktestID) // nobody waits for it any more
		return nil, err
	case err != nil:
		return nil, err
	case b.Status != "succeeded":
		return nil, fmt.Errorf("the backtest %s: %s", b.Status, spend.Printable(cmp.Or(b.Error, made.BacktestID)))
	}
	return b, nil
}

// printProgress draws a progress bar in place of the one before.
func printProgress(w io.Writer, status string, p client.BacktestProgress) {
	const width = 30
	done := int(p.Fraction * width)
	bar := strings.Repeat("#", done) + strings.Repeat(".", width-done)
	fmt.Fprintf(w, "\r%-9s [%s] %d checks ", status, bar, p.Checks) //nolint:errcheck // only progress
}

// printBacktest prints coverage first, then the matrix, the rules that fired, budgets and flips.
func printBacktest(ctx context.Context, w io.Writer, api *client.Client, b *client.Backtest) error {
	r, out := b.Report, cli.NewTable(w)
	fmt.Fprintf(out, "%d checks of %s from %s to %s, %d compared\n", r.Coverage.Checks, spend.Printable(b.PolicyID), b.From, b.To,
		r.Coverage.Compared)
	printComparison(out, r)
	return printFlips(ctx, out, api, b)
}

// printComparison prints what was left out, the matrix, the rules that fired, and the number of flips.
func printComparison(out *tabwriter.Writer, r *report.Report) {
	for _, s := range r.Coverage.Skipped {
		fmt.Fprintf(out, "skipped: %d, %s\n", s.Checks, spend.Printable(s.Reason))
	}
	if len(r.Coverage.MissingDays) > 0 {
		fmt.Fprintf(out, "not at hand: %s\n", spend.Printable(strings.Join(r.Coverage.MissingDays, ", ")))
	}
	decisions := []spend.Effect{spend.Allow, spend.Escalate, spend.Block}
	fmt.Fprintln(out, "\nRECORDED\tALLOW\tESCALATE\tBLOCK")
	for _, recorded := range decisions {
		fmt.Fprint(out, recorded)
		for _, candidate := range decisions {
			cell := r.Matrix[recorded][candidate]
			fmt.Fprintf(out, "\t%d", cell.Checks)
			for _, currency := range slices.Sorted(maps.Keys(cell.Amounts)) {
				fmt.Fprintf(out, " (%s)", cell.Amounts[currency].Money(spend.Printable(currency)))
			}
		}
		fmt.Fprintln(out)
	}
	if len(r.Rules) > 0 {
		fmt.Fprintln(out, "\nRULE\tBLOCKED\tWOULD BLOCK\tESCALATED\tWOULD ESCALATE")
	}
	for _, f := range r.Rules {
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\n", spend.Printable(f.RuleID), f.Recorded.Block, f.Candidate.Block, f.Recorded.Escalate,
			f.Candidate.Escalate)
	}
	for _, budget := range r.Budgets {
		if budget.Used != nil && budget.Limit != nil && budget.Currency != nil {
			currency := spend.Printable(*budget.Currency)
			fmt.Fprintf(out, "\nbudget %s: at most %s of %s\n", spend.Printable(budget.RuleID), budget.Used.Value.Money(currency),
				budget.Limit.Money(currency))
		}
		if budget.Count != nil && budget.MaxCount != nil {
			fmt.Fprintf(out, "\nbudget %s: at most %s of %d actions\n", spend.Printable(budget.RuleID), budget.Count.Value, *budget.MaxCount)
		}
	}
	noun := "flips"
	if r.Flips.Total == 1 {
		noun = "flip"
	}
	fmt.Fprintf(out, "\n%d %s: %d stricter, %d looser, %d of them to allow\n", r.Flips.Total, noun, r.Flips.Stricter, r.Flips.Looser,
		r.Flips.ToAllow)
}

func printFlips(ctx context.Context, out *tabwriter.Writer, api *client.Client, b *client.Backtest) error {
	n := 0
	for f, err := range api.AllFlips(ctx, b.BacktestID) {
		if err != nil {
			return trouble(err)
		}
		if n == 0 {
			fmt.Fprintln(out, flipHeader)
		}
		if n++; n > maxFlipsShown {
			fmt.Fprintf(out, "and %d more\n", b.Report.Flips.Total-maxFlipsShown)
			break
		}
		printFlip(out, &f)
	}
	return out.Flush()
}
