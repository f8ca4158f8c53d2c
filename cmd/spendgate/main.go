// Command spendgate runs and administers the authorization service: a node of
// a fleet, the embedded single node, schema migrations, and the commands that
// talk to a running node.
//
// Servers and clients take their settings from SPENDGATE_... variables; flags
// are for one call. The exit code is 0 on success, 2 on wrong usage and 1 on any
// other failure; policies diff and probe have their own.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"spendgate/cmd/spendgate/apicmd"
	"spendgate/cmd/spendgate/auditcmd"
	"spendgate/cmd/spendgate/cli"
	"spendgate/cmd/spendgate/policycmd"
	"spendgate/hotpath/policy"
)

// version is set when the binary is linked (-X main.version=...).
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks the command to end. It also removes the handler, so that a
	// second signal ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, cli.Process{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Environ(), Terminal: cli.IsTerminal(os.Stdin), Version: version,
	}, os.Args[1:]))
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, p cli.Process, args []string) int { return cli.Run(ctx, root(), p, args) }

// root returns the tree of all commands.
func root() cli.Command {
	return cli.Command{
		Summary: "Spend authorization for AI agents: allow, block or escalate, recorded before it is answered.",
		Details: "Settings are environment variables, SPENDGATE_LISTEN_ADDR and so on, each also as ..._FILE.",
		Sub: slices.Concat([]cli.Command{
			{
				Name: "serve", Summary: "run a node of a fleet (Redis and PostgreSQL)", Setup: serveCommand,
				Details: "Needs SPENDGATE_REDIS_URL and SPENDGATE_DATABASE_URL, and waits for both. Migrates the schema, then serves the\n" +
					"API on SPENDGATE_LISTEN_ADDR (:8080); /metrics, /livez and /readyz are on SPENDGATE_OPS_ADDR (:9090) from the start.\n" +
					"SIGHUP has it read SPENDGATE_LOG_LEVEL_FILE and SPENDGATE_ADMIN_KEY_FILE again.\n" +
					"SIGTERM makes it not ready, and ends it within 10 s, when its requests are finished.",
			},
			{
				Name: "dev", Summary: "run a single node with everything embedded", Setup: cli.NoFlags(dev),
				Details: "Needs no settings and no servers. Listens as serve does, and keeps its state in SPENDGATE_DATA_DIR (.spendgate),\n" +
					"where it also leaves an admin key and a key to try it with.",
			},
			{
				Name: "migrate", Summary: "bring the schema of the PostgreSQL database up to date", Setup: migrateCommand,
				Details: "Needs SPENDGATE_DATABASE_URL. Nodes do the same when they start. Safe at any time, concurrently, and\n" +
					"while older nodes are running. With --service it also does what deploy/postgres/grants.sql says, as the owner.",
			},
			{
				Name: "doctor", Summary: "look at all that a fleet needs, and say what to do about what is not well", Setup: doctorCommand,
				Details: "Run it with the settings of a node. It changes nothing, and prints a line for each part: settings, checkpoints, sign-in,\n" +
					"ports, Redis, PostgreSQL, schema, rights, time zones, each node that runs; with --balancer and --prometheus these, too.",
			},
			{
				Name: "healthcheck", Summary: "ask a node on this machine whether it is ready", Setup: cli.NoFlags(healthcheck),
				Details: "Asks /readyz at SPENDGATE_OPS_ADDR (:9090). The exit code is 0 when the node is ready and 1 when it is not.",
			},
		}, apicmd.Commands(), []cli.Command{
			policycmd.Command(),
			auditcmd.Command(),
			mcpCommand(),
			gatewayCommand(),
			probeCommand(),
			zonesCommand(),
			{Name: "version", Summary: "print the version and the release of the time zones", Setup: cli.NoFlags(printVersion)},
		}),
	}
}

func printVersion(_ context.Context, p cli.Process) error {
	zones := policy.Zones()
	_, err := fmt.Fprintf(p.Stdout, "spendgate %s\ntime zones %s (%s)\n", p.Version, zones.Release, zones.Origin)
	return err
}
