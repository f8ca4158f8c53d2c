package apicmd

import (
	"context"
	"flag"
	"fmt"
	"strconv"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/client"
	"spendgate/hotpath/wire"
)

func paymentsCommand() cli.Command {
	return cli.Command{
		Name: "payments", Summary: "show what became of a payment", Details: checksNeed,
		Sub: []cli.Command{
			{Name: "show", Args: "PAYMENT_KEY", Summary: "print a payment and its checks, newest first", Setup: paymentsShow, Details: checksNeed},
		},
	}
}

func paymentsShow(flags *flag.FlagSet) cli.Action {
	principal := flags.String("principal", "", "whose payment it is: `NAME`; by default the API key's principal")
	return func(ctx context.Context, p cli.Process, args []string) error {
		key, api, err := cli.OneID(p, "PAYMENT_KEY", args)
		if err != nil {
			return err
		}
		var checks []client.CheckRecord
		var payment *wire.Payment
		for c, err := range api.AllChecks(ctx, client.CheckQuery{PaymentKey: key, Principal: *principal, Limit: 100}) {
			if err != nil {
				return err
			}
			if checks = append(checks, c); payment == nil {
				payment = c.Payment
			}
		}
		if payment == nil {
			return fmt.Errorf("there is no payment %s, or the API key may not read it", spend.Printable(key))
		}
		if err := writePayment(p, payment); err != nil {
			return err
		}
		return writeChecks(p.Stdout, checks)
	}
}

func writePayment(p cli.Process, payment *wire.Payment) error {
	out := cli.NewTable(p.Stdout)
	line := cli.NamedLines(out)
	line("payment", payment.PaymentKey)
	line("state", payment.State)
	line("attempt", strconv.Itoa(payment.Attempt))
	line("execution id", payment.ExecutionID)
	line("redemption", payment.RedemptionID)
	line("outcome", payment.Outcome)
	line("reference", payment.Reference)
	if a := payment.Approval; a != nil {
		line("approval", fmt.Sprintf("%s, %s, %d missing", a.ApprovalID, a.Status, a.Missing))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(p.Stdout)
	return err
}
