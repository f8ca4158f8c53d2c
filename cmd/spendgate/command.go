package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// command is a node of the tree of commands: a leaf with setup, a branch with sub, or both. If it is
// both, arguments that name no branch belong to the leaf.
type command struct {
	name    string
	args    string // the arguments after the flags; none are accepted if it is empty
	summary string
	details string // more for --help

	sub []command
	// setup declares the leaf's flags and returns the action that runs with the remaining arguments.
	setup func(*flag.FlagSet) action
}

type action func(ctx context.Context, p process, args []string) error

// usageError says that the command line is wrong.
type usageError struct{ path, text string }

func (e usageError) Error() string {
	return e.text + "\nTry: " + e.path + " --help"
}

// exec finds the leaf that args name and runs it. path holds the names so far.
func (c command) exec(ctx context.Context, p process, path string, args []string) error {
	if c.setup != nil && (len(args) == 0 || !slices.Contains(c.names(), args[0])) {
		return c.execLeaf(ctx, p, path, args)
	}
	if len(args) == 0 {
		return usageError{path, "a command is missing: " + strings.Join(c.names(), ", ")}
	}
	if isHelp(args[0]) {
		if args[0] == "help" && len(args) > 1 {
			return c.exec(ctx, p, path, append(slices.Clone(args[1:]), "--help"))
		}
		return c.help(p.stdout, path, nil)
	}
	for _, sub := range c.sub {
		if sub.name == args[0] {
			return sub.exec(ctx, p, path+" "+sub.name, args[1:])
		}
	}
	return usageError{path, fmt.Sprintf("unknown command %q: there are %s", args[0], strings.Join(c.names(), ", "))}
}

func (c command) execLeaf(ctx context.Context, p process, path string, args []string) error {
	flags := flag.NewFlagSet(path, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	act := c.setup(flags)
	rest, err := parseFlags(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		return c.help(p.stdout, path, flags)
	}
	if err != nil {
		return usageError{path, flagFault(err)}
	}
	if text := saidTwice(flags); text != "" {
		return usageError{path, text}
	}
	if c.args == "" && len(rest) > 0 {
		return usageError{path, fmt.Sprintf("takes no arguments, not %q", rest)}
	}
	err = act(ctx, p, rest)
	if usage, ok := errors.AsType[usageError](err); ok {
		usage.path = path
		return usage
	}
	return err
}

// saidTwice refuses --json beside --output, since one of the two would silently be ignored.
func saidTwice(flags *flag.FlagSet) string {
	if isSet(flags, "json") && isSet(flags, "output") {
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

// noFlags returns the setup of a command that takes neither flags nor arguments.
func noFlags(f func(context.Context, process) error) func(*flag.FlagSet) action {
	return func(*flag.FlagSet) action {
		return func(ctx context.Context, p process, _ []string) error { return f(ctx, p) }
	}
}

func isHelp(arg string) bool {
	return arg == "-h" || arg == "-help" || arg == "--help" || arg == "help"
}

func (c command) names() []string {
	var names []string
	for _, sub := range c.sub {
		names = append(names, sub.name)
	}
	return names
}

// help prints usage; flags is nil for a branch.
func (c command) help(w io.Writer, path string, flags *flag.FlagSet) error {
	out := newTable(w)
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
	if len(c.sub) > 0 && c.setup == nil {
		usage += " COMMAND"
	}
	line("%s\n\n%s", strings.TrimSpace(usage+" "+c.args), c.summary)
	if c.details != "" {
		line("\n%s", c.details)
	}
	if len(c.sub) > 0 {
		line("\ncommands:")
		for _, sub := range c.sub {
			line("  %s\t%s", sub.name, sub.summary)
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
