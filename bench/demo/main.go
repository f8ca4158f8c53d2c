// Command demo sends a day of agent actions to a running node and prints what
// the node decided: refunds, credits, discounts and spends within and
// beyond four policies, action types left to the intent classifier, retries
// with an idempotency key and actions sent twice. Checks are sent with a key of
// role agent, policies with one of role author, as it should be.
//
// The same seed draws the same actions; agents and keys have the run's name, so
// that a second run does not consist of duplicates.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"time"

	"spendgate/cmd/spendgate/policyfile"
	"spendgate/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("demo", flag.ExitOnError)
	count := flags.Int("n", 200, "how many actions to send")
	seed := flags.Uint64("seed", 1, "seed of the actions")
	name := flags.String("run", strconv.FormatInt(time.Now().Unix(), 36), "the run's name, in agents and idempotency keys")
	policies := flags.String("policies", "deploy/policies", "the folder of the policies, stored if the node has them not")
	_ = flags.Parse(args) // exits on error

	settings, err := config.LoadClient(os.Environ())
	if err != nil {
		return err
	}
	files, err := policyfile.Read(*policies, nil)
	if err != nil {
		return err
	}
	out := newTable(os.Stdout)
	out.printf("%d actions against %s (seed %d, run %s)\n\n", *count, settings.APIURL, *seed, *name)
	random := rand.New(rand.NewPCG(*seed, 0))
	return send(ctx, settings, files, *name, out, script(random, *name, *count))
}

// send sends the policies with one key and the steps with another.
func send(ctx context.Context, settings config.Client, files []policyfile.Policy, run string, out *table, steps []step) error {
	k, err := findKeys(ctx, settings, files, run)
	if err != nil {
		return err
	}
	author, err := newNode(settings.APIURL, k.author)
	if err != nil {
		return err
	}
	if err := ensurePolicies(ctx, author, files); err != nil {
		return err
	}
	agent, err := newNode(settings.APIURL, k.agent)
	if err != nil {
		return err
	}
	return play(ctx, agent, out, steps)
}

// ensurePolicies stores those that the node does not have.
func ensurePolicies(ctx context.Context, n *node, files []policyfile.Policy) error {
	for _, file := range files {
		version, stored, err := n.ensurePolicy(ctx, file.Body)
		if err != nil {
			return fmt.Errorf("%s: %w", file.Source, err)
		}
		if stored {
			fmt.Fprintf(os.Stderr, "stored the policy of %s as version %d\n", file.Source, version)
		}
	}
	return nil
}

// play sends the steps one after the other and prints each answer as it comes.
func play(ctx context.Context, n *node, table *table, steps []step) error {
	table.head()
	started := time.Now()
	bodies := make([][]byte, len(steps)) // of answers, by step
	var changed []int
	for i, s := range steps {
		a, err := n.check(ctx, s.action)
		if err != nil {
			return err
		}
		bodies[i] = a.Body
		if s.kind == replay && !bytes.Equal(a.Body, bodies[s.of]) {
			changed = append(changed, i+1)
		}
		table.row(i+1, s, a)
	}
	table.summary(time.Since(started))
	if len(changed) > 0 {
		return fmt.Errorf("replays that differ from the first answer: %v", changed)
	}
	return nil
}
