package apicmd

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
	"spendgate/hotpath/client"
)

const freezeNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY, else with the session of\n" +
	"spendgate login, else with SPENDGATE_ADMIN_KEY."

func freezeCommand() cli.Command {
	return cli.Command{
		Name: "freeze", Summary: "stop everything in a scope, at once: checks, redemptions and what was allowed before", Setup: freeze,
		Details: `Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_API_KEY, else with SPENDGATE_ADMIN_KEY, else with
the session of spendgate login.
Exactly one of --all, --policy, --agent, --principal and --counterparty says what is
frozen. Freezing an agent stops a fault; freezing a principal stops a thief, since an
agent chooses its own name. It is in force on every node when the command returns.`,
	}
}

func thawCommand() cli.Command {
	return cli.Command{
		Name: "thaw", Args: "FREEZE_ID", Summary: "release a freeze, or be one of the people who do", Setup: thaw, Details: freezeNeed,
	}
}

func freezesCommand() cli.Command {
	return cli.Command{Name: "freezes", Summary: "list what is frozen, newest first", Setup: freezesList, Details: freezeNeed}
}

// freezeAPI returns a client with the API key, the session or the admin key, whichever is there first.
func freezeAPI(p cli.Process) (*client.Client, error) {
	c, err := config.LoadClient(p.Environ)
	if err != nil {
		return nil, err
	}
	if s, err := p.ReadSession(c.APIURL); err == nil && s != nil {
		return cli.KeyAPI(p)
	}
	return stopAPI(p)
}

// stopAPI returns a client with the API key or the admin key, else with the session: a session may have ended, and reaches less.
func stopAPI(p cli.Process) (*client.Client, error) {
	c, err := config.LoadClient(p.Environ)
	if err != nil {
		return nil, err
	}
	if c.APIKey == "" && c.AdminKey != "" {
		return cli.AdminAPI(p)
	}
	return cli.KeyAPI(p)
}

func freeze(flags *flag.FlagSet) cli.Action {
	asked := client.NewFreeze{IdempotencyKey: rand.Text()}
	flags.BoolVar(&asked.Scope.All, "all", false, "freeze everything")
	flags.StringVar(&asked.Scope.PolicyID, "policy", "", "freeze what the policy `ID` judges")
	flags.StringVar(&asked.Scope.AgentID, "agent", "", "freeze the agent `ID`, as checks name it")
	flags.StringVar(&asked.Scope.Principal, "principal", "", "freeze what the principal `NAME` asks for, redeems and takes over")
	flags.StringVar(&asked.Scope.Counterparty, "counterparty", "", "freeze what goes to `TEXT`, as checks name it")
	flags.StringVar(&asked.Reason, "reason", "", "why, as `TEXT`")
	var until cli.UntilFlag
	flags.Var(&until, "until", "when it ends by itself, as `TIME` or how long from now (2h); by default it must be released")
	asJSON := flags.Bool("json", false, "print the answer as JSON")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		if scopes := flags.NFlag() - given(flags, "reason", "until", "json"); scopes != 1 || asked.Scope == (client.FreezeScope{}) {
			return cli.UsageError{Text: "needs exactly one of --all, --policy, --agent, --principal and --counterparty"}
		}
		if asked.Reason == "" {
			return cli.UsageError{Text: "needs --reason TEXT"}
		}
		asked.Until = until.At
		api, err := stopAPI(p)
		if err != nil {
			return err
		}
		f, err := api.CreateFreeze(ctx, asked)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.WriteJSON(p.Stdout, f.JSON())
		}
		return writeFreeze(p, f)
	}
}

// given returns how many of the flags were given.
func given(flags *flag.FlagSet, names ...string) (n int) {
	for _, name := range names {
		if cli.IsSet(flags, name) {
			n++
		}
	}
	return n
}

func writeFreeze(p cli.Process, f *client.Freeze) error {
	out := cli.NewTable(p.Stdout)
	line := cli.NamedLines(out)
	line("frozen", scopeText(f.Scope))
	line("freeze id", f.FreezeID)
	line("until", untilText(f))
	if r := f.Reaches; r != nil {
		line("reaches", fmt.Sprintf("%d checks of the last 24 hours, of %d principals", r.Checks, r.Principals))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if r := f.Reaches; r != nil && r.Checks == 0 {
		_, err := fmt.Fprintln(p.Stderr, "WARNING: no check of the last 24 hours is in this scope; is the name exactly right?")
		return err
	}
	return nil
}

func scopeText(s client.FreezeScope) string {
	for _, member := range [...]struct{ name, value string }{
		{"policy", s.PolicyID}, {"agent", s.AgentID}, {"principal", s.Principal}, {"counterparty", s.Counterparty},
	} {
		if member.value != "" {
			return member.name + " " + member.value
		}
	}
	return "everything"
}

func untilText(f *client.Freeze) string {
	if f.Until == nil {
		return "it is released"
	}
	return f.Until.Format(time.RFC3339)
}

func thaw(flags *flag.FlagSet) cli.Action {
	note := flags.String("note", "", "why, as `TEXT`")
	return func(ctx context.Context, p cli.Process, args []string) error {
		if len(args) != 1 || args[0] == "" || *note == "" {
			return cli.UsageError{Text: "needs one FREEZE_ID, and --note TEXT"}
		}
		api, err := freezeAPI(p)
		if err != nil {
			return err
		}
		f, err := api.ReleaseFreeze(ctx, args[0], *note)
		if err != nil {
			return err
		}
		text := f.Status
		if f.Missing > 0 {
			text = fmt.Sprintf("still active: %d of %d people are missing", f.Missing, f.Required)
		}
		_, err = fmt.Fprintln(p.Stdout, spend.Printable(f.FreezeID), spend.Printable(text))
		return err
	}
}

func freezesList(flags *flag.FlagSet) cli.Action {
	ended := flags.Bool("ended", false, "those that are released or over, too")
	return cli.List(flags, freezeAPI, func(api *client.Client, ctx context.Context) iter.Seq2[client.Freeze, error] {
		return api.AllFreezes(ctx, client.FreezeQuery{Active: !*ended})
	}, writeFreezes)
}

func writeFreezes(w io.Writer, all []client.Freeze) error {
	headings := []string{"FREEZE ID", "FROZEN", "STATUS", "SINCE", "UNTIL", "BY", "MISSING", "REASON"}
	return cli.WriteTable(w, headings, all, func(f *client.Freeze) []string {
		by := "admin or system"
		if f.CreatedBy != nil {
			by = f.CreatedBy.Principal
		}
		return []string{
			f.FreezeID, scopeText(f.Scope), f.Status, f.CreatedAt.String(), untilText(f), by, strconv.Itoa(f.Missing), f.Reason,
		}
	})
}
