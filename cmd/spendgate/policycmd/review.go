package policycmd

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/policyfile"
	"spendgate/hotpath/client"
)

func policiesDraftShow(*flag.FlagSet) cli.Action {
	return func(ctx context.Context, p cli.Process, args []string) error {
		api, d, err := oneDraft(ctx, p, args)
		if err != nil {
			return err
		}
		return showDraft(ctx, p.Stdout, api, d)
	}
}

func policiesDraftApprove(flags *flag.FlagSet) cli.Action {
	drop := []string(nil)
	flags.Func("drop-budget", "let the promotion empty the budget `RULE`; may be given again", cli.EachNotEmpty(&drop))
	approve := func(api *client.Client, ctx context.Context, id string, d client.DraftDecision) (*client.Draft, error) {
		d.DropBudgets = drop
		return api.ApproveDraft(ctx, id, d)
	}
	return decideDraft(flags, "approve", approve)
}

func policiesDraftReject(flags *flag.FlagSet) cli.Action {
	return decideDraft(flags, "reject", (*client.Client).RejectDraft)
}

// decideDraft returns the action of a command that shows a draft, asks, and sends the decision about it.
func decideDraft(
	flags *flag.FlagSet, verb string, send func(*client.Client, context.Context, string, client.DraftDecision) (*client.Draft, error),
) cli.Action {
	decision := client.DraftDecision{}
	flags.StringVar(&decision.Note, "note", "", "a `TEXT` that the draft and the record show")
	flags.Func("draft-hash", "the `HASH` of the draft that was looked at: any other is refused, and nothing is asked",
		cli.NotEmpty(&decision.DraftHash))
	yes := flags.Bool("yes", false, "do not ask")
	return func(ctx context.Context, p cli.Process, args []string) error {
		id, api, err := cli.OneID(p, "POLICY_ID", args)
		if err != nil {
			return err
		}
		if decision.DraftHash == "" {
			d, err := api.Draft(ctx, id)
			if err != nil {
				return err
			}
			if decision.DraftHash = d.DraftHash; !*yes {
				if err := confirmDraft(ctx, p, api, d, verb); err != nil {
					return err
				}
			}
		}
		d, err := send(api, ctx, id, decision)
		if err != nil {
			return err
		}
		done := "approved; " + whatIsNext(d)
		if d.Rejection != nil {
			done = "rejected"
		}
		_, err = fmt.Fprintf(p.Stdout, "%s draft %.12s %s\n", spend.Printable(d.PolicyID), spend.Printable(d.DraftHash), done)
		return err
	}
}

func confirmDraft(ctx context.Context, p cli.Process, api *client.Client, d *client.Draft, verb string) error {
	if err := showDraft(ctx, p.Stderr, api, d); err != nil {
		return err
	}
	fmt.Fprintf(p.Stderr, "\n%s exactly this draft? Type yes: ", verb) //nolint:errcheck // who does not see it does not answer
	return cli.SaidYes(ctx, p)
}

// showDraft prints how a draft differs from the version in force, and who has approved it.
func showDraft(ctx context.Context, w io.Writer, api *client.Client, d *client.Draft) error {
	out := cli.NewTable(w)
	line := cli.NamedLines(out)
	line("draft hash", d.DraftHash)
	line("policy", fmt.Sprintf("%s, put beside version %d", d.PolicyID, d.BaseVersion))
	author := ""
	if d.Author != nil {
		author = d.Author.Principal
	}
	line("author", author)
	line("put", d.CreatedAt.String())
	line("note", d.Note)
	if d.PolicyVersion > 0 {
		line("in force", fmt.Sprintf("version %d, which asks %d", d.PolicyVersion, d.Required))
	}
	for _, g := range d.From {
		line("of "+spend.Printable(g.Group), fmt.Sprintf("%d, of which %d missing", g.Required, g.Missing))
	}
	for _, a := range d.Approvals {
		text := a.Principal
		if len(a.Groups) > 0 {
			text += " (" + strings.Join(a.Groups, ", ") + ")"
		}
		text += fmt.Sprintf(" at %s beside version %d", a.At, a.PolicyVersion)
		if len(a.DropBudgets) > 0 {
			text += ", may drop " + strings.Join(a.DropBudgets, ", ")
		}
		name := "approved by"
		if !a.Counts {
			name = "does not count"
		}
		line(name, strings.TrimSpace(text+" "+a.Note))
	}
	if r := d.Rejection; r != nil {
		line("rejected by", strings.TrimSpace(fmt.Sprintf("%s at %s %s", r.Principal, r.At, r.Note)))
	}
	line("next", whatIsNext(d))
	if err := out.Flush(); err != nil {
		return err
	}
	live, err := api.Policy(ctx, d.PolicyID, 0)
	if err != nil {
		return err
	}
	policy := policyfile.Policy{Body: d.Body}
	for _, name := range []string{
		"draft_hash", "base_version", "policy_version", "required", "missing", "from", "approvals", "status", "rejection",
	} {
		if policy, err = policy.Without(name); err != nil {
			return err
		}
	}
	text, err := differenceOf(live, "draft", policy.Body)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%s", text)
	return err
}

// whatIsNext says what a draft still needs, or how it becomes the next version.
func whatIsNext(d *client.Draft) string {
	if d.Rejection != nil {
		return "put it again, changed or not: spendgate policies draft put -f FILE"
	}
	if d.Missing != nil && *d.Missing > 0 {
		return fmt.Sprintf("%d of %d are missing: somebody else than the author, spendgate policies draft approve %s", *d.Missing, d.Required,
			d.PolicyID)
	}
	return fmt.Sprintf("spendgate policies draft promote %s --if-match %d --draft-hash %s", d.PolicyID, cmp.Or(d.PolicyVersion, d.BaseVersion),
		d.DraftHash)
}

// instead says what to do when a version is refused because it needs approvals, or because somebody
// stored another.
func instead(err error, policyID, version string) error {
	refused, ok := errors.AsType[*client.Error](err)
	if ok && refused.Code == client.CodeVersionMismatch {
		return fmt.Errorf("%w; nothing is stored: spendgate policies get %s prints what is in force", err, spend.Printable(policyID))
	}
	if !ok || refused.Code != client.CodeChangeNeedsApproval {
		return err
	}
	return fmt.Errorf("%w; instead: spendgate policies draft put -f FILE, then somebody else: spendgate policies draft approve %s, "+
		"then: spendgate policies draft promote %s --if-match %s",
		err, spend.Printable(policyID), spend.Printable(policyID), version)
}
