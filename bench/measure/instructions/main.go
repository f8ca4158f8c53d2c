package instructions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"spendgate/bench/load"
)

// What a build's name may end in: its policies all have a budget for each agent (S34), each check is
// of a payment and redeemed in the same request (S84), or so many freezes are active that cover none (S87).
const (
	budgets  = "+budgets"
	payments = "+payments"
	freezes  = "+freezes"

	active = 1000
)

// plan is what the command line says.
type plan struct {
	builds []string // binaries in .bin, maybe with budgets, payments or freezes; ratios are to the first
	rounds int
	checks int
	batch  int
}

func parse(c *load.Call) (plan, error) {
	var p plan
	flags := c.Flags
	builds := flags.String("builds", "before spendgate",
		"binaries in .bin, separated by spaces, each maybe with "+budgets+", "+payments+" or "+freezes+"; ratios are to the first")
	flags.IntVar(&p.rounds, "rounds", 2, "rounds of each build")
	flags.IntVar(&p.checks, "checks", 512, "checks that are counted")
	flags.IntVar(&p.batch, "batch", 1, "checks in flight at once")
	err := c.Parse()
	p.builds = strings.Fields(*builds)
	if err == nil && (len(p.builds) == 0 || p.rounds < 1 || p.batch < 1 || p.checks < p.batch) {
		err = errors.New("-builds, -rounds and -batch need at least one, -checks at least a batch")
	}
	return p, err
}

const header = `Instructions a check, in user mode, %s.
%d checks of bench/load's workload, with policies without budgets unless said, over loopback, %d at a time, after %d others.
node: the whole process, with GOMAXPROCS=1, without garbage collections, and less what it does when nobody asks.
postgres: the sessions that commit checks, to which the messages of a node are replayed.

`

// Run counts.
func Run(ctx context.Context, call *load.Call) error {
	out := call.Out
	p, err := parse(call)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "spendgate-instructions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	c, err := findCounter(ctx, dir)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, header, c.what, p.checks, p.batch, warmup); err != nil {
		return err
	}
	// Of the nodes. Whether a run has one garbage collection more than another is chance, and
	// the emulator does not survive goroutines that are interrupted by signals.
	if err := errors.Join(os.Setenv("GOMAXPROCS", "1"), os.Setenv("GOGC", "off"), os.Setenv("GODEBUG", "asyncpreemptoff=1"),
		os.Chmod(dir, 0o777)); err != nil {
		return err
	}
	m := &measurement{plan: p, counter: c, out: out}
	return m.run(ctx)
}
