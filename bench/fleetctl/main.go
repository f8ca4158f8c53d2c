// Command fleetctl starts servers for the development and the trial of
// spendgate:
//
//	fleetctl up         starts a fleet in the background, or those of its servers
//	                    that do not run, and prints their addresses
//	fleetctl restart    restarts its nodes one by one, which fails no request
//	fleetctl down       stops it and removes its data; the logs stay
//	fleetctl with-servers COMMAND [ARGUMENT...]
//	                    runs a command with a Redis and a PostgreSQL to test
//	                    against, and passes its exit code on
//	fleetctl install PACKAGE...
//	                    installs Debian packages, where that is possible
//	fleetctl provider LEDGER
//	                    is the payment provider behind the fleet's gateway
//
// Environment:
//
//	API_PORT      where the fleet's HAProxy listens (8080; 0 is a free port)
//	FLEET_DIR     where its state is found (.bin/fleet), a link to a temporary
//	              folder, since PostgreSQL's user may not be able to enter the tree
//	FLEET_BINARY  the spendgate that its nodes run (.bin/spendgate)
//	TEST_REDIS_URL, TEST_DATABASE_URL
//	              servers that with-servers uses as they are; a missing one is
//	              started on a free loopback port, and removed afterwards
//	TEST_REDIS_SERVER, TEST_HAPROXY, TEST_PROMETHEUS, TEST_PGBOUNCER
//	              these programs, where they are not on the PATH
//	TEST_POSTGRES_BIN, TEST_POSTGRES_USER
//	              the folder of PostgreSQL's programs, and the user who runs them if
//	              the caller is root, since PostgreSQL refuses to run as root
//	TEST_POSTGRES_SETTINGS
//	              more settings of the PostgreSQL that with-servers starts
//	TEST_SERVERS_DIR
//	              where with-servers keeps the data of its servers (the folder for
//	              temporary files)
//
// The command of with-servers sees all variables that start with TEST_; those
// of programs that are not installed are unset.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/template"

	"spendgate/bench/fleet"
)

const usage = `usage: fleetctl up | restart | down
       fleetctl with-servers COMMAND [ARGUMENT...]
       fleetctl install PACKAGE...
       fleetctl provider LEDGER`

// interrupt is the signal that ended this program's context.
type interrupt struct{ syscall.Signal }

// Error implements error.
func (i interrupt) Error() string { return i.String() }

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range signals {
			if number, ok := s.(syscall.Signal); ok {
				cancel(interrupt{number})
			}
		}
	}()
	code, err := run(ctx, os.Stdout, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleetctl:", err)
	}
	if by, ok := errors.AsType[interrupt](context.Cause(ctx)); ok {
		code = 128 + int(by.Signal) // as a shell does
	}
	os.Exit(code)
}

func run(ctx context.Context, out io.Writer, args []string) (code int, err error) {
	command := strings.Join(args[:min(1, len(args))], "")
	switch {
	case command == "with-servers" && len(args) > 1:
		return withServers(ctx, args[1:])
	case command == "install" && len(args) > 1:
		err = fleet.Install(ctx, os.Stderr, args[1:]...)
	case command == "provider" && len(args) == 2:
		err = fleet.Provide(ctx, args[1], 0)
	case (command == "up" || command == "restart" || command == "down") && len(args) == 1:
		err = local(ctx, out, command)
	default:
		_, err := fmt.Fprintln(os.Stderr, usage)
		return 2, err
	}
	if err != nil {
		code = 1
	}
	return code, err
}

//go:embed up.txt
var upText string

// local works on the fleet in the background.
func local(ctx context.Context, out io.Writer, command string) (err error) {
	link := cmp.Or(os.Getenv("FLEET_DIR"), ".bin/fleet")
	binary, err := filepath.Abs(cmp.Or(os.Getenv("FLEET_BINARY"), ".bin/spendgate"))
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(cmp.Or(os.Getenv("API_PORT"), "8080"))
	if err != nil {
		return fmt.Errorf("API_PORT is no number: %w", err)
	}
	l, err := fleet.OpenLocal(link, binary, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if command == "down" {
		if l.Dir == "" {
			_, err := fmt.Fprintln(out, "there is no fleet")
			return err
		}
		err := l.Down()
		_, printErr := fmt.Fprintln(out, "the fleet is stopped; its logs are in", l.Dir)
		return errors.Join(err, printErr)
	}
	if command == "up" {
		err = l.Up(ctx, port)
	} else {
		err = l.Restart(ctx)
	}
	if err != nil {
		return err
	}
	_, version, err := fleet.Run(ctx, binary, l.Dir, nil, "version")
	if err != nil {
		return err
	}
	version, _, _ = strings.Cut(version, "\n") // the second line has the time zones
	if command == "restart" {
		_, err := fmt.Fprintf(out, "the nodes are restarted (%s)\n", version)
		return err
	}
	text, err := template.New("").Parse(upText)
	if err != nil {
		return fmt.Errorf("BUG: %w", err)
	}
	return text.Execute(out, map[string]any{"Version": version, "Link": link, "Fleet": l})
}

// withServers runs a command with servers of its own.
func withServers(ctx context.Context, args []string) (code int, err error) {
	dir, err := os.MkdirTemp(os.Getenv("TEST_SERVERS_DIR"), "spendgate-servers.")
	if err != nil {
		return 1, fmt.Errorf("cannot make a folder for the servers: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// A server that runs as another user has to get at its own subfolder.
	if err := os.Chmod(dir, 0o711); err != nil {
		return 1, fmt.Errorf("cannot make a folder for the servers: %w", err)
	}
	closeRedis, err := provide(ctx, "TEST_REDIS_URL", "redis-server", func() (string, func() error, error) {
		r, err := fleet.StartRedis(ctx, filepath.Join(dir, "redis"))
		if err != nil {
			return "", nil, err
		}
		return r.URL, r.Close, nil
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, closeRedis()) }()
	closePostgres, err := provide(ctx, "TEST_DATABASE_URL", "postgresql", func() (string, func() error, error) {
		settings := append(fleet.AdvisedSettings(), strings.Fields(os.Getenv("TEST_POSTGRES_SETTINGS"))...)
		p, err := fleet.StartPostgres(ctx, filepath.Join(dir, "postgres"), settings...)
		if err != nil {
			return "", nil, err
		}
		return p.URL, p.Close, nil
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, closePostgres()) }()
	return command(ctx, args)
}

// provide starts a server and sets a variable to its URL, unless it is set.
func provide(
	ctx context.Context, variable, pkg string, start func() (url string, end func() error, err error),
) (end func() error, err error) {
	if os.Getenv(variable) != "" {
		return func() error { return nil }, nil
	}
	var url string
	err = fleet.Install(ctx, os.Stderr, pkg)
	if err == nil {
		url, end, err = start()
	}
	if err == nil {
		err = os.Setenv(variable, url)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w\nOr set %s to a server that tests may write to", err, variable)
	}
	return end, nil
}

// command runs a program to its end, which a signal brings about, and returns
// its exit code.
func command(ctx context.Context, args []string) (code int, err error) {
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // a context would kill it
	cmd.Env = fleet.Environ()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		const notFound = 127 // as a shell does
		return notFound, fmt.Errorf("cannot run %s: %w", args[0], err)
	}
	defer context.AfterFunc(ctx, func() {
		// The terminal's interrupt reached it already.
		if by, ok := errors.AsType[interrupt](context.Cause(ctx)); ok && by.Signal != syscall.SIGINT {
			_ = cmd.Process.Signal(by.Signal) // it may have ended
		}
	})()
	err = cmd.Wait()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		err = nil
	}
	code = cmd.ProcessState.ExitCode()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return code, err
}
