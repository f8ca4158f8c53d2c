package peers

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"spendgate/bench/load"
)

// allPeers are what spendgate is compared with, beside an earlier build of itself.
const allPeers = "opa cerbos postgres"

func parse(c *load.Call) (load.Plan, []string, error) {
	p := load.Plan{
		Rounds: 5, Warmup: 2 * time.Second, Duration: 6 * time.Second,
		Connections: []int{16, 64, 256},
	}
	flags := c.Flags
	p.Flags(flags)
	peers := flags.String("peers", allPeers, "peers to compare with, separated by spaces: "+allPeers+" before")
	err := c.Parse()
	p.Results = c.Results
	return p, strings.Fields(*peers), err
}

// Run compares.
func Run(ctx context.Context, call *load.Call) (err error) {
	plan, peers, err := parse(call)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "spendgate-peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	c := &comparison{Bench: load.NewBench(plan, call.Out, call.Version), peers: peers, dir: dir}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.start(ctx); err != nil {
		return err
	}
	return c.run(ctx)
}
