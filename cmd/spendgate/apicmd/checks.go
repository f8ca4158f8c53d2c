package apicmd

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"iter"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/client"
	"spendgate/hotpath/wire"
)

const checksNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY, a key with checks:read."

func checksCommand() cli.Command {
	return cli.Command{
		Name: "checks", Summary: "list recorded checks, or show one", Details: checksNeed,
		Sub: []cli.Command{
			{Name: "list", Summary: "list checks, newest first", Setup: checksList, Details: checksNeed},
			{Name: "show", Args: "CHECK_ID", Summary: "print a check, its action and what became of it", Setup: checksShow, Details: checksNeed},
		},
	}
}

func checksList(flags *flag.FlagSet) cli.Action {
	q := client.CheckQuery{Limit: 100}
	flags.StringVar(&q.AgentID, "agent-id", "", "only of the agent `ID`")
	flags.StringVar(&q.PolicyID, "policy-id", "", "only of the policy `ID`")
	flags.Func("decision", "only those that are `DECISION`: allow, block or escalate",
		func(text string) error { return q.Decision.UnmarshalText([]byte(text)) })
	flags.StringVar((*string)(&q.ActionType), "action-type", "", "only those of the `TYPE`: refund, credit, discount or spend")
	flags.StringVar(&q.ReasonCode, "reason-code", "", "only those that were decided by the `CODE`, such as max_amount_exceeded")
	flags.StringVar(&q.RuleID, "rule-id", "", "only those that the rule of this `ID` decided")
	flags.StringVar(&q.Outcome, "outcome", "", "only those whose last report is `STATUS`: executed, failed, voided; or none, or in_doubt")
	flags.StringVar(&q.Counterparty, "counterparty", "", "only those to `TEXT`")
	flags.StringVar(&q.IdempotencyKey, "idempotency-key", "", "only those of the idempotency `KEY`")
	flags.StringVar(&q.PaymentKey, "payment-key", "", "only those of the payment `KEY`, of the API key's principal or --principal")
	flags.StringVar(&q.Principal, "principal", "", "only those that the principal `NAME` asked for; with --payment-key, whose payment it is")
	flags.StringVar(&q.AmountFrom, "amount-from", "", "only of `AMOUNT` or more, whatever the currency")
	flags.StringVar(&q.AmountTo, "amount-to", "", "only of `AMOUNT` or less")
	flags.StringVar(&q.ApprovalID, "approval-id", "", "only those that were sent with the approval `ID`")
	flags.StringVar(&q.From, "from", "", "only from `TIME` on: RFC 3339, or a date")
	flags.StringVar(&q.To, "to", "", "only until `TIME`: RFC 3339, or a date")
	limit := cli.LimitFlag(flags)
	return cli.List(flags, cli.KeyAPI, func(api *client.Client, ctx context.Context) iter.Seq2[client.CheckRecord, error] {
		return cli.First(api.AllChecks(ctx, q), *limit)
	}, writeChecks)
}

func writeChecks(w io.Writer, all []client.CheckRecord) error {
	headings := []string{
		"CHECK ID", "TIME", "DECISION", "OUTCOME", "AGENT", "ACTION", "AMOUNT", "COUNTERPARTY", "POLICY", "REASON",
	}
	return cli.WriteTable(w, headings, all, func(c *client.CheckRecord) []string {
		a := &c.Action
		return []string{
			c.CheckID, c.Timestamp.String(), c.Decision.String(), outcomeText(c), a.AgentID, string(a.ActionType),
			a.Amount.Money(spend.Printable(a.Currency)), a.Counterparty, a.PolicyID, cmp.Or(c.ReasonCode, "-"),
		}
	})
}

// outcomeText returns the outcome of a check: its last report, or the state before one.
func outcomeText(c *client.CheckRecord) string {
	switch {
	case c.Outcome != nil:
		return c.Outcome.Status
	case c.Redemption == nil:
		return "-"
	case c.Redemption.InDoubtAt != nil:
		return "in doubt"
	}
	return "redeemed"
}

func checksShow(flags *flag.FlagSet) cli.Action {
	asJSON := cli.OutputFlag(flags)
	return func(ctx context.Context, p cli.Process, args []string) error {
		id, api, err := cli.OneID(p, "CHECK_ID", args)
		if err != nil {
			return err
		}
		shown, err := findCheck(ctx, api, id)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.WriteJSON(p.Stdout, shown.Body)
		}
		return writeCheck(p.Stdout, shown)
	}
}

// findCheck reads a check as lists show it, with its action. It lists the checks of the same
// millisecond to find it.
func findCheck(ctx context.Context, api *client.Client, id string) (*client.CheckRecord, error) {
	answer, err := api.GetCheck(ctx, id)
	if err != nil {
		return nil, err
	}
	at := answer.Timestamp.String()
	for c, err := range api.AllChecks(ctx, client.CheckQuery{From: at, To: at, Limit: 100}) {
		if err != nil {
			return nil, err
		}
		if c.CheckID == answer.CheckID {
			return &c, nil
		}
	}
	return nil, fmt.Errorf("check %s is not in the list of its moment, %s", spend.Printable(id), at)
}

func writeCheck(w io.Writer, c *client.CheckRecord) error {
	out := cli.NewTable(w)
	line := cli.NamedLines(out)
	line("check", c.CheckID)
	line("time", c.Timestamp.String())
	line("decision", c.Decision.String())
	line("policy", fmt.Sprintf("%s, version %d", c.Action.PolicyID, c.PolicyVersion))
	if c.ViolatedRuleID != "" {
		line("rule", c.ViolatedRuleID)
		line("reason code", c.ReasonCode)
	}
	line("message", c.Message)
	line("principal", c.Principal)
	actionLines(line, &c.Action)
	line("idempotency key", c.Action.IdempotencyKey)
	line("approval", cmp.Or(c.Action.ApprovalID, c.ApprovalID))
	if c.Payment != nil {
		line("payment", c.Payment.PaymentKey)
		line("payment state", c.Payment.State)
	}
	line("outcome", outcomeText(c))
	return out.Flush()
}

// actionLines writes the fields of an action.
func actionLines(line func(name, value string), a *wire.RecordedAction) {
	line("agent", a.AgentID)
	line("action", string(a.ActionType))
	line("amount", a.Amount.Money(a.Currency))
	line("counterparty", a.Counterparty)
	line("payment method", a.PaymentMethod)
	line("merchant or vendor", a.MerchantOrVendor)
	line("reason", a.ReasonText)
	line("metadata", string(a.Metadata))
}
