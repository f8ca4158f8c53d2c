package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"time"

	"spendgate/bench/chaos/judge"
	"spendgate/bench/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	seed     uint64
	duration time.Duration
	agents   int
	faults   string
	history  string
	mutants  string
}

func command(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", 0, "seed of the round; 0 means a random one")
	flags.DurationVar(&o.duration, "duration", 60*time.Second, "how long faults are injected")
	flags.IntVar(&o.agents, "agents", 12, "clients at work at the same time")
	flags.StringVar(&o.faults, "faults", "", "inject only faults whose names match this regular expression")
	flags.StringVar(&o.history, "judge", "", "only check the history in this file again")
	flags.StringVar(&o.mutants, "mutants", "", "break the service by every patch that matches this pattern, run each")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(1<<31)
	}
	if o.history != "" {
		return judgeAgain(o.history, out)
	}
	if err := fleet.Install(ctx, os.Stderr, "redis-server", "postgresql", "haproxy"); err != nil {
		return err
	}
	if o.mutants != "" {
		return runMutants(ctx, o, out)
	}
	dir, err := os.MkdirTemp("", "spendgate-chaos-")
	if err != nil {
		return fmt.Errorf("cannot make a folder for the binary: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	binary, err := fleet.Build(ctx, dir, fleet.BuildOptions{})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "chaos for %s with SEED=%d\n", o.duration, o.seed); err != nil {
		return err
	}
	h, logs, err := round(ctx, binary, o)
	if err != nil {
		return fmt.Errorf("seed %d: %w", o.seed, err)
	}
	return verdict(out, h, logs)
}

// round runs everything once. The logs are the processes', in a file.
func round(ctx context.Context, binary string, o options) (h *judge.History, logs string, err error) {
	only, err := regexp.Compile(o.faults)
	if err != nil {
		return nil, "", fmt.Errorf("cannot choose faults: %w", err)
	}
	s, err := startDeployment(ctx, binary)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if logs == "" && err != nil {
			err = errors.Join(err, s.writeLogs(os.Stderr))
		}
		err = errors.Join(err, s.stop())
	}()
	rec := newRecorder(o.seed)
	w, err := newWorkload(s, rec, o.seed, o.agents)
	if err != nil {
		return nil, "", err
	}
	defer w.close()
	going, end := context.WithTimeout(ctx, o.duration)
	defer end()
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	go rec.watchMachine(watching)
	injected := make(chan error, 1)
	go func() {
		in := &injector{deployment: s, ctx: ctx, rec: rec}
		err := in.run(going, schedule(o.seed, o.duration, only))
		if err != nil {
			end()
		}
		injected <- err
	}()
	w.run(going)
	if err := <-injected; err != nil {
		return nil, "", err
	}
	for _, n := range s.Nodes {
		ready, cancel := context.WithTimeout(ctx, patience)
		err := n.WaitReady(ready)
		cancel()
		if err != nil {
			return nil, "", fmt.Errorf("after the last fault: %w", err)
		}
	}
	w.readBack()
	unwatch()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if err := s.readTrail(ctx, &rec.history); err != nil {
		return nil, "", err
	}
	if rec.history.Run.Unproved, err = s.proveTrail(ctx, binary); err != nil {
		return nil, "", err
	}
	if rec.history.Run.Flipped, err = s.backtest(ctx, w.editor.key, rec.history.Rows); err != nil {
		return nil, "", err
	}
	logs, err = keepLogs(s, o.seed)
	return &rec.history, logs, err
}

func keepLogs(s *deployment, seed uint64) (string, error) {
	file, err := os.CreateTemp("", fmt.Sprintf("spendgate-chaos-%d-*.log", seed))
	if err != nil {
		return "", fmt.Errorf("cannot keep the logs: %w", err)
	}
	return file.Name(), errors.Join(s.writeLogs(file), file.Close())
}

var errViolated = errors.New("the contract was violated")

// verdict checks a history and keeps it if the contract was violated.
func verdict(out io.Writer, h *judge.History, logs string) error {
	findings, err := judge.Judge(h)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, summary(h)); err != nil {
		return err
	}
	if len(findings) == 0 {
		_, err := fmt.Fprintln(out, "no violation found")
		return errors.Join(err, os.Remove(logs))
	}
	path, err := keep(h)
	if err != nil {
		return err
	}
	if err := report(out, h, findings); err != nil {
		return err
	}
	return fmt.Errorf("%w: %d findings with SEED=%d; history in %s, logs in %s", errViolated, len(findings), h.Run.Seed, path, logs)
}

func judgeAgain(path string, out io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot check a history again: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	h, err := judge.Read(file)
	if err != nil {
		return err
	}
	findings, err := judge.Judge(h)
	if err != nil {
		return err
	}
	if len(findings) > 0 {
		return errors.Join(report(out, h, findings), fmt.Errorf("%w: %d findings with SEED=%d", errViolated, len(findings), h.Run.Seed))
	}
	_, err = fmt.Fprintln(out, summary(h)+"\nno violation found")
	return err
}
