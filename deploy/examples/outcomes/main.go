// Command outcomes reports what became of two checks, and prints what is used of their budget.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"spendgate/hotpath/client"
)

func connect(key string) *client.Client {
	c, err := client.New(client.Options{BaseURL: os.Getenv("SPENDGATE_API_URL"), APIKey: key})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// used prints what the till has used of its budget.
func used(till *client.Client) {
	for b, err := range till.AllBudgets(context.Background(), client.BudgetQuery{PolicyID: "store-refunds", AgentID: "till-8"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("used:", b.Used)
	}
}

func main() {
	ctx := context.Background()
	till, payments := connect(os.Getenv("TILL_KEY")), connect(os.Getenv("PAYMENTS_KEY"))
	for i, report := range []client.OutcomeReport{{Status: "executed", Reference: "psp-7732"}, {Status: "voided"}} {
		amount, err := client.ParseAmount("100.00")
		if err != nil {
			log.Fatal(err)
		}
		checked, err := till.Check(ctx, client.Action{
			AgentID: "till-8", PolicyID: "store-refunds", ActionType: client.Refund,
			Amount: amount, Currency: "USD", Counterparty: fmt.Sprint("customer-", i),
		})
		if err != nil || !checked.Allowed() {
			log.Fatal(checked, err)
		}
		used(till)
		outcome, err := payments.ReportOutcome(ctx, checked.CheckID, report)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(outcome.Status, outcome.Release)
	}
	used(till)
}
