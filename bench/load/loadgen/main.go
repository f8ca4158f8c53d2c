// Command loadgen sends the benchmark's workload to a running spendgate and
// prints what was measured, as a table or as JSON.
//
//	loadgen --url http://127.0.0.1:8080 --admin-key KEY --connections 64 --duration 10s
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spendgate/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(1)
	}
}

type settings struct {
	deployment load.Deployment
	workload   load.Workload
	options    load.Options
	asJSON     bool
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("loadgen", flag.ContinueOnError)
	w := load.DefaultWorkload(rand.Uint64() >> 40)
	flags.StringVar(&s.deployment.URL, "url", "http://127.0.0.1:8080", "where a node answers")
	flags.StringVar(&s.deployment.AdminKey, "admin-key", os.Getenv("SPENDGATE_ADMIN_KEY"), "admin key, to make API keys with (default SPENDGATE_ADMIN_KEY)")
	flags.Uint64Var(&w.Seed, "seed", w.Seed, "of the workload; the default is a fresh one, since a repeated run is all duplicates")
	flags.IntVar(&w.Keys, "keys", w.Keys, "API keys, of 10,000 requests a minute each")
	flags.IntVar(&w.Agents, "agents", w.Agents, "agents")
	flags.IntVar(&w.Policies, "policies", w.Policies, "policies of ten rules")
	flags.IntVar(&s.options.Connections, "connections", 64, "keep-alive connections")
	flags.IntVar(&s.options.Workers, "workers", 1, "threads of the generator")
	flags.Float64Var(&s.options.Rate, "rate", 0, "requests a second of an open loop; 0 is a closed loop")
	flags.DurationVar(&s.options.Warmup, "warmup", 2*time.Second, "not measured")
	flags.DurationVar(&s.options.Duration, "duration", 10*time.Second, "measured")
	flags.BoolVar(&s.asJSON, "json", false, "print JSON")
	flags.Func("process", "NAME=PID whose processor time is reported; NAME=PID+ with all its descendants; may be repeated",
		func(value string) error {
			p, err := parseProcess(value)
			s.options.Processes = append(s.options.Processes, p)
			return err
		})
	err = flags.Parse(args)
	s.workload = w
	return s, err
}

func parseProcess(value string) (load.Process, error) {
	name, number, _ := strings.Cut(value, "=")
	number, tree := strings.CutSuffix(number, "+")
	pid, err := strconv.Atoi(number)
	return load.Process{Name: name, PID: pid, Tree: tree}, err
}

func run(ctx context.Context, out io.Writer, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	base, err := url.Parse(s.deployment.URL)
	if err != nil {
		return err
	}
	keys, err := s.deployment.Prepare(ctx, s.workload)
	if err != nil {
		return err
	}
	o := s.options
	o.Addrs, o.Workload = []string{base.Host}, s.workload
	o.Target = func() load.Target { return load.NewSpendgate(keys) }
	result, err := load.Run(ctx, o)
	if err != nil {
		return err
	}
	result.Name = "seed " + strconv.FormatUint(s.workload.Seed, 10)
	if s.asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	}
	return load.WriteTable(out, []load.Result{result})
}
