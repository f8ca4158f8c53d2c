// Package cli is what all commands are made of: the tree of commands and its flags, clients for the API with
// the settings of commands, and tables.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Command is a node of the tree of commands: a leaf with setup, a branch with sub, or both. If it is
// both, arguments that name no branch belong to the leaf.
type Command struct {
	Name    string
	Args    string // the arguments after the flags; none are accepted if it is empty
	Summary string
	Details string // more for --help

	Sub []Command
	// setup declares the leaf's flags and returns the action that runs with the remaining arguments.
	Setup func(*flag.FlagSet) Action
}

// Action is what a command does, with the arguments behind its flags.
type Action func(ctx context.Context, p Process, args []string) error

// UsageError says that the command line is wrong.
type UsageError struct{ path, Text string }

func (e UsageError) Error() string {
	return e.Text + "\nTry: " + e.path + " --help"
}

// exec finds the leaf that args name and runs it. path holds the names so far.
func (c Command) exec(ctx context.Context, p Process, path string, args []string) error {
	if c.Setup != nil && (len(args) == 0 || !slices.Contains(c.names(), args[0])) {
		return c.execLeaf(ctx, p, path, args)
	}
	if len(args) == 0 {
		return UsageError{path, "a command is missing: " + strings.Join(c.names(), ", ")}
	}
	if isHelp(args[0]) {
		if args[0] == "help" && len(args) > 1 {
			return c.exec(ctx, p, path, append(slices.Clone(args[1:]), "--help"))
		}
		return c.help(p.Stdout, path, nil)
	}
	for _, sub := range c.Sub {
		if sub.Name == args[0] {
			return sub.exec(ctx, p, path+" "+sub.Name, args[1:])
		}
	}
	return UsageError{path, fmt.Sprintf("unknown command %q: there are %s", args[0], strings.Join(c.names(), ", "))}
}

func (c Command) execLeaf(ctx context.Context, p Process, path string, args []string) error {
	flags := flag.NewFlagSet(path, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	act := c.Setup(flags)
	rest, err := parseFlags(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		return c.help(p.Stdout, path, flags)
	}
	if err != nil {
		return UsageError{path, flagFault(err)}
	}
	if text := saidTwice(flags); text != "" {
		return UsageError{path, text}
	}
	if c.Args == "" && len(rest) > 0 {
		return UsageError{path, fmt.Sprintf("takes no arguments, not %q", rest)}
	}
	err = act(ctx, p, rest)
	if usage, ok := errors.AsType[UsageError](err); ok {
		usage.path = path
		return usage
	}
	return err
}

// saidTwice refuses --json beside --output, since one of the two would silently be ignored.
func saidTwice(flags *flag.FlagSet) string {
	if IsSet(flags, "json") && IsSet(flags, "output") {
		return "--json and --output are two names of one flag: give one of them"
	}
	return ""
}

// parseFlags parses flags wherever they stand; package flag stops at the first
// argument that is no flag.
func parseFlags(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return rest, nil
		}
		if parsed := len(args) - flags.NArg(); parsed > 0 && args[parsed-1] == "--" {
			return append(rest, flags.Args()...), nil // these may be the flags of another program
		}
		rest = append(rest, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// flagFault returns package flag's message for a wrong flag, with the flag written
// as in the help.
func flagFault(err error) string {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return "there is no flag " + dashes(name) + name
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return dashes(name) + name + " needs a value"
	}
	var value, name string
	for _, form := range []string{"invalid value %q for flag -%s", "invalid boolean value %q for -%s"} {
		if n, _ := fmt.Sscanf(text, form, &value, &name); n < 2 {
			continue
		}
		name = strings.TrimSuffix(name, ":")
		fault := fmt.Sprintf("%s%s cannot be %q", dashes(name), name, value)
		if _, why, _ := strings.Cut(text, " -"+name+": "); why != "" && why != "parse error" {
			fault += ": " + why
		}
		return fault
	}
	return text
}

// NoFlags returns the setup of a command that takes neither flags nor arguments.
func NoFlags(f func(context.Context, Process) error) func(*flag.FlagSet) Action {
	return func(*flag.FlagSet) Action {
		return func(ctx context.Context, p Process, _ []string) error { return f(ctx, p) }
	}
}

func isHelp(arg string) bool {
	return arg == "-h" || arg == "-help" || arg == "--help" || arg == "help"
}

func (c Command) names() []string {
	var names []string
	for _, sub := range c.Sub {
		names = append(names, sub.Name)
	}
	return names
}

// help prints usage; flags is nil for a branch.
func (c Command) help(w io.Writer, path string, flags *flag.FlagSet) error {
	out := NewTable(w)
	line := func(format string, args ...any) {
		fmt.Fprintf(out, format+"\n", args...)
	}
	usage, hasFlags := "usage: "+path, false
	if flags != nil {
		flags.VisitAll(func(*flag.Flag) { hasFlags = true })
	}
	if hasFlags {
		usage += " [flags]"
	}
	if len(c.Sub) > 0 && c.Setup == nil {
		usage += " COMMAND"
	}
	line("%s\n\n%s", strings.TrimSpace(usage+" "+c.Args), c.Summary)
	if c.Details != "" {
		line("\n%s", c.Details)
	}
	if len(c.Sub) > 0 {
		line("\ncommands:")
		for _, sub := range c.Sub {
			line("  %s\t%s", sub.Name, sub.Summary)
		}
		line("\n%s COMMAND --help says more.", path)
	}
	if hasFlags {
		line("\nflags:")
		flags.VisitAll(func(f *flag.Flag) {
			value, text := flag.UnquoteUsage(f)
			line("  %s\t%s", strings.TrimSpace(dashes(f.Name)+f.Name+" "+value), text)
		})
	}
	return out.Flush()
}

func dashes(name string) string {
	if len(name) == 1 {
		return "-"
	}
	return "--"
}
