package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"spendgate/hotpath/client"
)

// approvalsNeed is what each command of this group needs.
const approvalsNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY, the key of a person: role approver."

func approvalsCommand() command {
	return command{
		name:    "approvals",
		summary: "decide what escalated checks ask of people",
		details: approvalsNeed,
		sub: []command{
			{
				name: "list", summary: "list approvals, newest first", setup: approvalsList,
				details: approvalsNeed + "\nBy default those that wait for a decision; --status all lists all.",
			},
			{name: "show", args: "APPROVAL_ID", summary: "print an approval and its action", setup: approvalsShow, details: approvalsNeed},
			{
				name: "approve", args: "APPROVAL_ID", summary: "approve exactly the action that is shown", setup: approvalsApprove,
				details: approvalsNeed + "\nShows the action, asks, and sends its action_hash: what is approved is what was shown, once. Who asked, or runs\n" +
					"the agent that asked, does not decide.",
			},
			{
				name: "deny", args: "APPROVAL_ID", summary: "deny it, also after it was approved and while it is not used", setup: approvalsDeny,
				details: approvalsNeed,
			},
		},
	}
}

func approvalsList(flags *flag.FlagSet) action {
	status := flags.String("status", "pending", "only those that are `STATUS`: pending, approved, denied, expired, used; or all")
	policyID := flags.String("policy-id", "", "only of the policy `ID`")
	agentID := flags.String("agent-id", "", "only of the agent `ID`")
	asJSON := flags.Bool("json", false, "print the approvals as JSON")
	return func(ctx context.Context, p process, _ []string) error {
		api, err := keyAPI(p)
		if err != nil {
			return err
		}
		query := client.ApprovalQuery{PolicyID: *policyID, AgentID: *agentID, Limit: 100}
		if *status != "all" {
			query.Status = client.ApprovalStatus(*status)
		}
		return printAll(p, api.AllApprovals(ctx, query), *asJSON, writeApprovals)
	}
}

func writeApprovals(w io.Writer, all []client.Approval) error {
	out := newTable(w)
	fmt.Fprintln(out, "APPROVAL ID\tSTATUS\tAGENT\tACTION\tAMOUNT\tCOUNTERPARTY\tAPPROVED\tEXPIRES")
	for i := range all {
		a := &all[i]
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s %s\t%s\t%d of %d\t%s\n", printable(a.ApprovalID), a.Status, printable(a.Action.AgentID),
			printable(string(a.Action.ActionType)), a.Action.Amount, printable(a.Action.Currency), printable(a.Action.Counterparty),
			approvedBy(a), a.Required, a.ExpiresAt)
	}
	return out.Flush()
}

// approvedBy returns how many people approved it so far.
func approvedBy(a *client.Approval) (n int) {
	for _, d := range a.Decisions {
		if d.Decision == "approve" {
			n++
		}
	}
	return n
}

func approvalsShow(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print the answer as JSON")
	return func(ctx context.Context, p process, args []string) error {
		_, a, err := readApproval(ctx, p, args)
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(p.stdout, a.Body)
		}
		return writeApproval(p.stdout, a)
	}
}

// readApproval reads the one approval that the arguments name.
func readApproval(ctx context.Context, p process, args []string) (*client.Client, *client.Approval, error) {
	if len(args) != 1 || args[0] == "" {
		return nil, nil, usageError{text: "needs one APPROVAL_ID"}
	}
	api, err := keyAPI(p)
	if err != nil {
		return nil, nil, err
	}
	a, err := api.Approval(ctx, args[0], 0)
	return api, a, err
}

func writeApproval(w io.Writer, a *client.Approval) error {
	out := newTable(w)
	line := func(name, value string) { fmt.Fprintf(out, "%s:\t%s\n", name, printable(cmp.Or(value, "-"))) }
	line("approval", a.ApprovalID)
	line("status", string(a.Status))
	line("check", a.CheckID)
	line("principal", a.Principal)
	line("agent", a.Action.AgentID)
	line("action", string(a.Action.ActionType))
	line("amount", a.Action.Amount.String()+" "+a.Action.Currency)
	line("counterparty", a.Action.Counterparty)
	line("payment method", a.Action.PaymentMethod)
	line("merchant or vendor", a.Action.MerchantOrVendor)
	line("reason", a.Action.ReasonText)
	line("metadata", string(a.Action.Metadata))
	line("policy", fmt.Sprintf("%s, version %d", a.PolicyID, a.PolicyVersion))
	line("rules", strings.Join(a.RuleIDs, ", "))
	for _, left := range a.Remaining {
		line("left of "+printable(left.RuleID), remainingText(left))
	}
	line("approved by", fmt.Sprintf("%d of %d", approvedBy(a), a.Required))
	for _, g := range a.From {
		line("of "+printable(g.Group), fmt.Sprintf("%d, of which %d missing", g.Required, g.Missing))
	}
	if a.ExcludeAuthor {
		line("not by", "who wrote the version")
	}
	for _, d := range a.Decisions {
		line(d.Decision, strings.TrimSpace(d.Principal+groupsOf(d)+" at "+d.At.String()+" "+d.Note))
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

// groupsOf returns the groups that a decision was made in, to be put behind a name.
func groupsOf(d client.ApprovalDecision) string {
	if len(d.Groups) == 0 {
		return ""
	}
	return " (" + strings.Join(d.Groups, ", ") + ")"
}

func remainingText(left client.BudgetRemaining) string {
	var parts []string
	if left.Remaining != nil {
		parts = append(parts, left.Remaining.String())
	}
	if left.RemainingCount != nil {
		parts = append(parts, fmt.Sprintf("%d actions", *left.RemainingCount))
	}
	return strings.Join(parts, ", ")
}

func approvalsApprove(flags *flag.FlagSet) action {
	note := noteFlag(flags)
	yes := flags.Bool("yes", false, "do not ask")
	return func(ctx context.Context, p process, args []string) error {
		api, a, err := readApproval(ctx, p, args)
		if err != nil {
			return err
		}
		if !*yes {
			if err := confirm(p, a); err != nil {
				return err
			}
		}
		decided, err := api.Approve(ctx, a.ApprovalID, a.ActionHash, *note)
		if err != nil {
			return err
		}
		return writeApproval(p.stdout, decided)
	}
}

// confirm shows an approval on the error output and asks.
func confirm(p process, a *client.Approval) error {
	if err := writeApproval(p.stderr, a); err != nil {
		return err
	}
	fmt.Fprint(p.stderr, "\nApprove exactly this action? Type yes: ") //nolint:errcheck // who does not see it does not answer
	answer, _ := bufio.NewReader(p.stdin).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("nothing was approved: the answer was not yes")
	}
	return nil
}

func approvalsDeny(flags *flag.FlagSet) action {
	note := noteFlag(flags)
	return func(ctx context.Context, p process, args []string) error {
		api, a, err := readApproval(ctx, p, args)
		if err != nil {
			return err
		}
		decided, err := api.Deny(ctx, a.ApprovalID, a.ActionHash, *note)
		if err != nil {
			return err
		}
		return writeApproval(p.stdout, decided)
	}
}

func noteFlag(flags *flag.FlagSet) *string {
	return flags.String("note", "", "why, as `TEXT`, recorded with the decision")
}
