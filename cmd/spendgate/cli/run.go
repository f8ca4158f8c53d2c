package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"spendgate/audit/postgres"
	"spendgate/config"
)

// Process is the part of the process that a command may use.
type Process struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
	Terminal       bool // somebody can answer on stdin
	Version        string
}

// Load reads the settings of a server, or of a command that uses its database.
func (p Process) Load(mode config.Mode) (config.Config, error) {
	return config.Load(p.Environ, mode, postgres.CheckURL)
}

// ExitError is an error with an exit code of its own. A wrong command line exits with 2, any other error with 1.
type ExitError struct {
	Err    error
	Code   int
	Logged bool // it is printed already
}

func (e ExitError) Error() string { return e.Err.Error() }

// Run executes the command line and returns the exit code.
func Run(ctx context.Context, root Command, p Process, args []string) int {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-v") {
		args = []string{"version"}
	}
	err := root.exec(ctx, p, "spendgate", args)
	if err == nil {
		return 0
	}
	failed, ok := errors.AsType[ExitError](err)
	if !ok {
		failed = ExitError{Err: err, Code: 1}
		if errors.As(err, new(UsageError)) {
			failed.Code = 2
		}
	}
	if !failed.Logged {
		// An error that occurred twice, such as with TLS and without, is printed once.
		lines := slices.Compact(strings.Split(err.Error(), "\n"))
		fmt.Fprintln(p.Stderr, "spendgate:", strings.Join(lines, "\n")) //nolint:errcheck // there is no other place to report it
	}
	return failed.Code
}
