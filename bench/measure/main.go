// Command measure measures spendgate. Each measurement is a subcommand with flags of its own, which starts
// the servers that it needs; `make` lists what each is for.
//
//	measure system -rounds 5
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"spendgate/bench/load"
	"spendgate/bench/measure/capacity"
	"spendgate/bench/measure/gateway"
	"spendgate/bench/measure/instructions"
	"spendgate/bench/measure/peers"
	"spendgate/bench/measure/redemptions"
	"spendgate/bench/measure/soak"
	"spendgate/bench/measure/system"
	"spendgate/bench/measure/violations"
)

// version is set when the binary is linked (-X main.version=...).
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	measurements := map[string]func(context.Context, *load.Call) error{
		"capacity": capacity.Run, "gateway": gateway.Run, "instructions": instructions.Run, "peers": peers.Run, "redemptions": redemptions.Run,
		"soak": soak.Run, "system": system.Run, "violations": violations.Run,
	}
	if len(args) == 0 || measurements[args[0]] == nil {
		return fmt.Errorf("say which: %s", strings.Join(slices.Sorted(maps.Keys(measurements)), ", "))
	}
	return measurements[args[0]](ctx, load.NewCall(args[0], args[1:], os.Stdout, version))
}
