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
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"spendgate/audit/postgres"
	"spendgate/config"
	"spendgate/hotpath/policy"
)

// version is set when the binary is linked (-X main.version=...).
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks the command to end. It also removes the handler, so that a
	// second signal ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, process{os.Stdin, os.Stdout, os.Stderr, os.Environ(), isTerminal(os.Stdin)}, os.Args[1:]))
}

// process is the part of the process that a command may use.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	terminal       bool // somebody can answer on stdin
}

// load reads the settings of a server, or of a command that uses its database.
func (p process) load(mode config.Mode) (config.Config, error) {
	return config.Load(p.environ, mode, postgres.CheckURL)
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, p process, args []string) int {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-v") {
		args = []string{"version"}
	}
	err := root().exec(ctx, p, "spendgate", args)
	if err == nil {
		return 0
	}
	if errors.As(err, new(loggedError)) {
		return 1
	}
	// An error that occurred twice, such as with TLS and without, is printed once.
	lines := slices.Compact(strings.Split(err.Error(), "\n"))
	fmt.Fprintln(p.stderr, "spendgate:", strings.Join(lines, "\n")) //nolint:errcheck // there is no other place to report it
	if errors.As(err, new(usageError)) || errors.As(err, new(troubleError)) {
		return 2
	}
	if failed, ok := errors.AsType[probeError](err); errors.As(err, new(looserError)) || ok && failed.result != probeUnanswered {
		return 3
	}
	return 1
}

// root returns the tree of all commands.
func root() command {
	return command{
		summary: "Spend authorization for AI agents: allow, block or escalate, recorded before it is answered.",
		details: "Settings are environment variables, SPENDGATE_LISTEN_ADDR and so on, each also as ..._FILE.",
		sub: []command{
			{
				name: "serve", summary: "run a node of a fleet (Redis and PostgreSQL)", setup: serveCommand,
				details: "Needs SPENDGATE_REDIS_URL and SPENDGATE_DATABASE_URL, and waits for both. Migrates the schema, then serves the\n" +
					"API on SPENDGATE_LISTEN_ADDR (:8080); /metrics, /livez and /readyz are on SPENDGATE_OPS_ADDR (:9090) from the start.\n" +
					"SIGHUP has it read SPENDGATE_LOG_LEVEL_FILE and SPENDGATE_ADMIN_KEY_FILE again.\n" +
					"SIGTERM makes it not ready, and ends it within 10 s, when its requests are finished.",
			},
			{
				name: "dev", summary: "run a single node with everything embedded", setup: noFlags(dev),
				details: "Needs no settings and no servers. Listens as serve does, and keeps its state in SPENDGATE_DATA_DIR (.spendgate),\n" +
					"where it also leaves an admin key and a key to try it with.",
			},
			{
				name: "migrate", summary: "bring the schema of the PostgreSQL database up to date", setup: migrateCommand,
				details: "Needs SPENDGATE_DATABASE_URL. Nodes do the same when they start. Safe at any time, concurrently, and\n" +
					"while older nodes are running. With --service it also does what deploy/postgres/grants.sql says, as the owner.",
			},
			{
				name: "doctor", summary: "look at all that a fleet needs, and say what to do about what is not well", setup: doctorCommand,
				details: "Run it with the settings of a node. It changes nothing, and prints a line for each part: settings, checkpoints, sign-in,\n" +
					"ports, Redis, PostgreSQL, schema, rights, time zones, each node that runs; with --balancer and --prometheus these, too.",
			},
			{
				name: "healthcheck", summary: "ask a node on this machine whether it is ready", setup: noFlags(healthcheck),
				details: "Asks /readyz at SPENDGATE_OPS_ADDR (:9090). The exit code is 0 when the node is ready and 1 when it is not.",
			},
			freezeCommand(),
			thawCommand(),
			freezesCommand(),
			keysCommand(),
			sessionsCommand(),
			loginCommand(),
			logoutCommand(),
			policiesCommand(),
			approvalsCommand(),
			checksCommand(),
			paymentsCommand(),
			budgetsCommand(),
			grantsCommand(),
			eventsCommand(),
			webhooksCommand(),
			auditCommand(),
			mcpCommand(),
			gatewayCommand(),
			probeCommand(),
			zonesCommand(),
			{name: "version", summary: "print the version and the release of the time zones", setup: noFlags(printVersion)},
		},
	}
}

func printVersion(_ context.Context, p process) error {
	zones := policy.Zones()
	_, err := fmt.Fprintf(p.stdout, "spendgate %s\ntime zones %s (%s)\n", version, zones.Release, zones.Origin)
	return err
}
