package cli

import (
	"context"
	"errors"
	"flag"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// OutputFlag declares the flags for the form of a command's output: --output json or table,
// and --json for short.
func OutputFlag(flags *flag.FlagSet) (asJSON *bool) {
	asJSON = flags.Bool("json", false, "short for --output json")
	flags.Func("output", "how to print, as `FORM`: json or table (the default)", func(form string) error {
		if form != "json" && form != "table" {
			return errors.New("must be json or table")
		}
		*asJSON = form == "json"
		return nil
	})
	return asJSON
}

// LimitFlag declares the flag for how much of a long list is printed.
func LimitFlag(flags *flag.FlagSet) *int {
	limit := 100
	flags.Func("limit", "print the newest `N` at most, 100 by default; 0 prints all", func(text string) error {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return errors.New("must be a whole number of 0 or more")
		}
		limit = int(n)
		return nil
	})
	return &limit
}

// First yields the first n items, all if n is 0.
func First[T any](items iter.Seq2[T, error], n int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := n
		for item, err := range items {
			if !yield(item, err) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// IsTerminal reports whether the input is a terminal, where a person can answer.
func IsTerminal(from io.Reader) bool {
	f, ok := from.(*os.File)
	if !ok {
		return false
	}
	is, err := f.Stat()
	if err != nil || is.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(is, null)
}

// ReadLine reads one line and nothing after it, since the rest answers later questions. It fails
// when the context ends, as when a person interrupts the program.
func ReadLine(ctx context.Context, from io.Reader) (string, error) {
	said := make(chan string, 1)
	go func() { said <- lineOf(from) }()
	select {
	case <-ctx.Done():
		return "", errors.New("nothing was decided: interrupted")
	case line := <-said:
		return line, nil
	}
}

func lineOf(from io.Reader) string {
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := from.Read(b)
		if n > 0 && b[0] == '\n' || err != nil {
			return string(line)
		}
		line = append(line, b[:n]...)
	}
}

// SaidYes fails unless the answer is yes.
func SaidYes(ctx context.Context, p Process) error { return Yes(ReadLine(ctx, p.Stdin)) }

// Yes fails unless the line that was read is yes.
func Yes(line string, err error) error {
	if err == nil && strings.TrimSpace(line) != "yes" {
		err = errors.New("nothing was decided: the answer was not yes")
	}
	return err
}

// WithDeployment adds the name of the deployment to every metric, if it has one.
func WithDeployment(registry prometheus.Registerer, name string) prometheus.Registerer {
	if name == "" {
		return registry
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"deployment": name}, registry)
}
