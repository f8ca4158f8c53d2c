package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spendgate/bench/load"
)

// version is set when the binary is linked (-X main.version=...).
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// settings are what the command line says.
type settings struct {
	rounds      int
	warmup      time.Duration
	duration    time.Duration
	connections []int
	results     string
}

func parse(args []string) (settings, error) {
	s := settings{connections: []int{16, 64, 256}}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", 5, "rounds at each number of connections")
	flags.DurationVar(&s.warmup, "warmup", 2*time.Second, "of each run, not measured")
	flags.DurationVar(&s.duration, "duration", 6*time.Second, "of each run, measured")
	flags.StringVar(&s.results, "results", "bench/results", "folder for the results")
	flags.Func("connections", "separated by commas (default 16,64,256)", func(list string) error {
		s.connections = nil
		for word := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			s.connections = append(s.connections, n)
		}
		return nil
	})
	err := flags.Parse(args)
	return s, err
}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	s, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "spendgate-peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	c := &comparison{
		settings: s, out: out, dir: dir, adminKey: rand.Text(),
		workload: load.DefaultWorkload(1), machine: load.ThisMachine(version),
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.start(ctx); err != nil {
		return err
	}
	return c.run(ctx)
}
