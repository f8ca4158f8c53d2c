package apicmd

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/client"
	"spendgate/hotpath/wire"
)

// approvalsNeed describes the settings that each command of this group needs.
const approvalsNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY, the key of a person: role approver."

func approvalsCommand() cli.Command {
	return cli.Command{
		Name:    "approvals",
		Summary: "decide what escalated checks ask of people",
		Details: approvalsNeed,
		Sub: []cli.Command{
			{
				Name: "list", Summary: "list approvals, newest first", Setup: approvalsList,
				Details: approvalsNeed + "\nBy default those that wait for a decision; --status all lists all. --mine lists\n" +
					"what an approval with this key brings forward, drafts of policies too, soonest to expire first.",
			},
			{Name: "show", Args: "APPROVAL_ID", Summary: "print an approval and its action", Setup: approvalsShow, Details: approvalsNeed},
			{
				Name: "approve", Args: "[APPROVAL_ID]", Summary: "approve exactly the action that is shown",
				Setup: decideApproval("Approve", (*client.Client).Approve),
				Details: approvalsNeed + "\nShows the action, asks, and sends its action_hash: what is approved is what was shown, once. Who asked, " +
					"or runs\n" +
					"the agent that asked, does not decide.",
			},
			{
				Name: "deny", Args: "[APPROVAL_ID]", Summary: "deny it, also after it was approved and while it is not used",
				Setup: decideApproval("Deny", (*client.Client).Deny),
				Details: approvalsNeed + "\nWithout an APPROVAL_ID, in a terminal, approve and deny list those that wait for this key.\n" +
					"Both show the action and ask.",
			},
		},
	}
}

func approvalsList(flags *flag.FlagSet) cli.Action {
	q := client.ApprovalQuery{Status: client.ApprovalPending, Limit: 100}
	const help = "only those that are `STATUS`: pending (the default), approved, denied, expired, used; or all"
	flags.Func("status", help, func(text string) error {
		if q.Status = client.ApprovalStatus(text); text == "all" {
			q.Status = ""
		}
		return nil
	})
	flags.StringVar(&q.PolicyID, "policy-id", "", "only of the policy `ID`")
	flags.StringVar(&q.AgentID, "agent-id", "", "only of the agent `ID`")
	flags.StringVar(&q.Counterparty, "counterparty", "", "only of actions to `TEXT`")
	flags.StringVar(&q.AmountFrom, "amount-from", "", "only of `AMOUNT` or more, whatever the currency")
	flags.StringVar(&q.AmountTo, "amount-to", "", "only of `AMOUNT` or less")
	flags.StringVar(&q.DecidedBy, "decided-by", "", "only those that the `PRINCIPAL` approved or denied")
	flags.StringVar(&q.From, "from", "", "only those that were asked for from `TIME` on: RFC 3339, or a date")
	flags.StringVar(&q.To, "to", "", "only until `TIME`: RFC 3339, or a date")
	mine := flags.Bool("mine", false, "what an approval with this key brings forward, drafts of policies too")
	asJSON := cli.OutputFlag(flags)
	return func(ctx context.Context, p cli.Process, _ []string) error {
		api, err := cli.KeyAPI(p)
		switch {
		case err != nil:
			return err
		case *mine && q.Status != client.ApprovalPending:
			return cli.UsageError{Text: "--mine lists what is pending, without --status"}
		case *mine:
			return cli.PrintAll(p, api.Waiting(ctx, q), *asJSON, writeWaiting)
		}
		return cli.PrintAll(p, api.AllApprovals(ctx, q), *asJSON, writeApprovals)
	}
}

var approvalHeadings = []string{"APPROVAL ID", "STATUS", "AGENT", "ACTION", "AMOUNT", "COUNTERPARTY", "APPROVED", "EXPIRES"}

// writeWaiting writes a table of approvals and grants, and lines for the drafts behind them.
func writeWaiting(w io.Writer, all []client.Waiting) error {
	return cli.WriteTable(w, approvalHeadings, all, func(item *client.Waiting) []string {
		switch {
		case item.Approval != nil:
			return approvalCells(item.Approval)
		case item.Grant != nil:
			g := item.Grant
			return []string{
				g.GrantID, "grant", g.CreatedBy.Principal, g.RuleID, addsText(g), perText(g.Per),
				fmt.Sprintf("%d missing", g.Missing), g.Until.String(),
			}
		}
		author := ""
		if item.Draft.Author != nil {
			author = item.Draft.Author.Principal
		}
		return []string{item.Draft.PolicyID, "draft", author, "policy", "", item.Draft.Note, fmt.Sprintf("%d missing", item.Draft.Missing), ""}
	})
}

func writeApprovals(w io.Writer, all []client.Approval) error {
	return cli.WriteTable(w, approvalHeadings, all, approvalCells)
}

func approvalCells(a *client.Approval) []string {
	return []string{
		a.ApprovalID, string(a.Status), a.Action.AgentID, string(a.Action.ActionType), a.Action.Amount.Money(spend.Printable(a.Action.Currency)),
		a.Action.Counterparty, fmt.Sprintf("%d of %d", approvedBy(a), a.Required), a.ExpiresAt.String(),
	}
}

// approvedBy returns how many of the people who have to approve have done so: with groups not everybody counts.
func approvedBy(a *client.Approval) (n int) {
	if a.Missing != nil {
		return a.Required - *a.Missing
	}
	for _, d := range a.Decisions {
		if d.Decision == "approve" {
			n++
		}
	}
	return n
}

func approvalsShow(flags *flag.FlagSet) cli.Action {
	asJSON := cli.OutputFlag(flags)
	return func(ctx context.Context, p cli.Process, args []string) error {
		_, a, err := readApproval(ctx, p, args)
		return writeDecided(p, a, err, *asJSON)
	}
}

// readApproval reads the one approval that the arguments name.
func readApproval(ctx context.Context, p cli.Process, args []string) (*client.Client, *client.Approval, error) {
	id, api, err := cli.OneID(p, "APPROVAL_ID", args)
	if err != nil {
		return nil, nil, err
	}
	a, err := api.Approval(ctx, id, 0)
	return api, a, err
}

func writeApproval(w io.Writer, a *client.Approval) error {
	out := cli.NewTable(w)
	line := cli.NamedLines(out)
	line("approval", a.ApprovalID)
	line("status", string(a.Status))
	line("check", a.CheckID)
	line("principal", a.Principal)
	actionLines(line, &a.Action)
	line("policy", fmt.Sprintf("%s, version %d", a.PolicyID, a.PolicyVersion))
	line("rules", strings.Join(a.RuleIDs, ", "))
	for _, left := range a.Remaining {
		line("left of "+spend.Printable(left.RuleID), remainingText(left))
	}
	line("approved by", fmt.Sprintf("%d of %d", approvedBy(a), a.Required))
	for _, g := range a.From {
		line("of "+spend.Printable(cmp.Or(g.Group, strings.Join(g.AnyOf, " or "))), fmt.Sprintf("%d, of which %d missing", g.Required, g.Missing))
	}
	if a.ExcludeAuthor {
		line("not by", "who wrote the version")
	}
	for _, d := range a.Decisions {
		if d.Void {
			d.Decision += ", void"
		}
		line(d.Decision, strings.TrimSpace(d.Principal+nameOf(d)+groupsOf(d)+" at "+d.At.String()+" "+d.Note))
	}
	line("expires", a.ExpiresAt.String())
	if a.UseBy != nil {
		line("use by", a.UseBy.String())
	}
	if a.UsedByCheckID != "" {
		line("used by", a.UsedByCheckID)
	}
	line("action hash", a.ActionHash)
	return out.Flush()
}

// nameOf returns the name and e-mail address of a person who had signed in, in parentheses;
// empty if the decision was made with a key.
func nameOf(d wire.ApprovalDecision) string {
	if d.Name == "" && d.Email == "" {
		return ""
	}
	return " (" + strings.TrimSpace(d.Name+" "+d.Email) + ")"
}

// groupsOf returns the groups of the person who decided, in parentheses.
func groupsOf(d wire.ApprovalDecision) string {
	if len(d.Groups) == 0 {
		return ""
	}
	return " (" + strings.Join(d.Groups, ", ") + ")"
}

func remainingText(left wire.BudgetRemaining) string {
	var parts []string
	if left.Remaining != nil {
		parts = append(parts, spend.Printable(string(*left.Remaining)))
	}
	if left.RemainingCount != nil {
		parts = append(parts, spend.Printable(string(*left.RemainingCount))+" actions")
	}
	return strings.Join(parts, ", ")
}

// decideApproval returns a command that shows an approval, asks, and sends the decision about it.
func decideApproval(
	verb string, send func(_ *client.Client, _ context.Context, id, hash, note string) (*client.Approval, error),
) func(*flag.FlagSet) cli.Action {
	return func(flags *flag.FlagSet) cli.Action {
		note := flags.String("note", "", "why, as `TEXT`, recorded with the decision")
		yes := flags.Bool("yes", false, "do not ask")
		asJSON := cli.OutputFlag(flags)
		return func(ctx context.Context, p cli.Process, args []string) error {
			api, a, err := chosenApproval(ctx, p, args)
			if err != nil {
				return err
			}
			if !*yes {
				if err := confirm(ctx, p, a, verb); err != nil {
					return err
				}
			}
			decided, err := send(api, ctx, a.ApprovalID, a.ActionHash, *note)
			return writeDecided(p, decided, err, *asJSON)
		}
	}
}

// chosenApproval reads the approval that the arguments name; without an argument, in a terminal, it
// offers those that wait for this key.
func chosenApproval(ctx context.Context, p cli.Process, args []string) (*client.Client, *client.Approval, error) {
	if len(args) > 0 || !p.Terminal {
		return readApproval(ctx, p, args)
	}
	api, err := cli.KeyAPI(p)
	if err != nil {
		return nil, nil, err
	}
	const offered = 20
	var found []*client.Approval
	for item, err := range api.Waiting(ctx, client.ApprovalQuery{Limit: offered}) {
		if err != nil {
			return nil, nil, err
		}
		if len(found) == offered {
			break
		}
		if item.Approval == nil { // drafts and grants are decided by their own commands
			continue
		}
		found = append(found, item.Approval)
	}
	if len(found) == 0 {
		return nil, nil, errors.New("no approval waits for this key")
	}
	out := cli.NewTable(p.Stderr)
	for i, a := range found {
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\tuntil %s\n", i+1, spend.Printable(a.Action.AgentID),
			a.Action.Amount.Money(spend.Printable(a.Action.Currency)),
			spend.Printable(a.Action.Counterparty), spend.Printable(a.PolicyID), a.ExpiresAt)
	}
	if err := out.Flush(); err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(p.Stderr, "\nWhich one? Type 1 to %d: ", len(found)) //nolint:errcheck // a person who does not see it does not answer
	line, err := cli.ReadLine(ctx, p.Stdin)
	if err != nil {
		return nil, nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || n < 1 || n > len(found) {
		return nil, nil, errors.New("nothing was decided: the answer was no number of the list")
	}
	return readApproval(ctx, p, []string{found[n-1].ApprovalID})
}

// writeDecided prints an approval as it was decided.
func writeDecided(p cli.Process, decided *client.Approval, err error, asJSON bool) error {
	if err != nil {
		return err
	}
	if asJSON {
		return cli.WriteJSON(p.Stdout, decided.Body)
	}
	return writeApproval(p.Stdout, decided)
}

// confirm shows an approval on the error output and asks.
func confirm(ctx context.Context, p cli.Process, a *client.Approval, verb string) error {
	if err := writeApproval(p.Stderr, a); err != nil {
		return err
	}
	fmt.Fprintf(p.Stderr, "\n%s exactly this action? Type yes: ", verb) //nolint:errcheck // who does not see it does not answer
	line, err := cli.ReadLine(ctx, p.Stdin)
	if err == nil && line == "" && !p.Terminal {
		return nil // a script without input has decided by naming the approval
	}
	return cli.Yes(line, err)
}
