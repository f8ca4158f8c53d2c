// Command check asks whether a refund is allowed, and has it carried out once.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"spendgate/hotpath/client"
)

func main() {
	c, err := client.New(client.Options{
		BaseURL: os.Getenv("SPENDGATE_API_URL"),
		APIKey:  os.Getenv("SPENDGATE_API_KEY"),
	})
	if err != nil {
		log.Fatal(err)
	}
	amount, err := client.ParseAmount("19.90")
	if err != nil {
		log.Fatal(err)
	}
	result, err := c.Check(context.Background(), client.Action{
		AgentID: "support-bot", PolicyID: "support-refunds", ActionType: client.Refund,
		Amount: amount, Currency: "USD", Counterparty: "customer-8",
		IdempotencyKey: "order-2002-refund",
	})
	if err != nil {
		log.Fatal(err) // there is no decision: do nothing yet
	}
	if !result.Allowed() { // also what was executed, failed or voided
		log.Fatal("not carried out: ", result.NextStep)
	}
	fmt.Println("allowed:", result.Message)
	if !result.Replayed || !refunded(result.CheckID) {
		refund(result.CheckID)
	}
}

// refunded asks the provider whether it has a refund under the key.
func refunded(key string) bool {
	log.Fatal("not known whether there is a refund under " + key)
	return false
}

// refund has the provider refund, once for a key.
func refund(key string) { fmt.Println("refund under", key) }
