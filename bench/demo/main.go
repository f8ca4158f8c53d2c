// Command demo sends a day of agent actions to a running node and prints what
// the node decided: refunds, credits, discounts and spends within and
// beyond four policies, action types left to the intent classifier, retries
// with an idempotency key and actions sent twice. Checks are sent with an API key of
// role agent, policies with one of role author. The command needs an admin key to create both.
//
// The actions are the same each time; agents and keys have the run's name, so
// that a second run does not consist of duplicates.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"time"

	"spendgate/cmd/spendgate/policyfile"
	"spendgate/config"
)

// seed and count say which actions, and how many.
const seed, count = 1, 200

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	settings, err := config.LoadClient(os.Environ())
	if err != nil {
		return err
	}
	files, err := policyfile.Read("deploy/policies", nil)
	if err != nil {
		return err
	}
	name := strconv.FormatInt(time.Now().Unix(), 36)
	out := newTable(os.Stdout)
	out.printf("%d actions against %s (run %s)\n\n", count, settings.APIURL, name)
	return play(ctx, settings, files, name, out, script(rand.New(rand.NewPCG(seed, 0)), name, count))
}

// play stores the policies that the node lacks, sends the steps one after the other
// and prints each answer as it comes.
func play(ctx context.Context, settings config.Client, policies []policyfile.Policy, run string, table *table, steps []step) error {
	agent, author, err := newNodes(ctx, settings, policies, run)
	if err != nil {
		return err
	}
	for _, file := range policies {
		if err := author.ensurePolicy(ctx, file); err != nil {
			return fmt.Errorf("%s: %w", file.Source, err)
		}
	}
	table.head()
	started := time.Now()
	for i, s := range steps {
		a, err := agent.check(ctx, s.action)
		if err != nil {
			return err
		}
		table.row(i+1, s, a)
	}
	table.summary(time.Since(started))
	return nil
}
