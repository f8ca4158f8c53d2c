package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"time"

	"spendgate/bench/load"
)

// version is set when the binary is linked (-X main.version=...).
var version = "dev"

func main() { load.Command("peers", run) }

// allPeers are what spendgate is compared with, beside an earlier build of itself.
const allPeers = "opa cerbos postgres"

func parse(args []string) (load.Plan, []string, error) {
	p := load.Plan{
		Rounds: 5, Warmup: 2 * time.Second, Duration: 6 * time.Second,
		Connections: []int{16, 64, 256}, Results: "bench/results",
	}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	p.Flags(flags)
	peers := flags.String("peers", allPeers, "peers to compare with, separated by spaces: "+allPeers+" before")
	err := flags.Parse(args)
	return p, strings.Fields(*peers), err
}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	plan, peers, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "spendgate-peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	c := &comparison{Bench: load.NewBench(plan, out, version), peers: peers, dir: dir}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.start(ctx); err != nil {
		return err
	}
	return c.run(ctx)
}
