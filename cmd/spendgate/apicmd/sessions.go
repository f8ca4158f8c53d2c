package apicmd

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/client"
)

func sessionsCommand() cli.Command {
	return cli.Command{
		Name: "sessions", Summary: "list who is signed in, and end sessions", Details: cli.AdminNeed,
		Sub: []cli.Command{
			{Name: "list", Summary: "list the sessions in force, newest first", Details: cli.AdminNeed, Setup: sessionsList},
			{
				Name: "end", Args: "SESSION_ID... | --principal NAME", Summary: "end sessions", Setup: sessionsEnd,
				Details: cli.AdminNeed + `
When the command returns, they are over on every node. Who may still sign in can do so
again: take their group away at the provider first.`,
			},
		},
	}
}

func sessionsList(flags *flag.FlagSet) cli.Action {
	return cli.List(flags, cli.AdminAPI, (*client.Client).AllSessions, writeSessions)
}

func writeSessions(w io.Writer, all []client.Session) error {
	headings := []string{"SESSION ID", "PRINCIPAL", "NAME", "E-MAIL", "MAY", "GROUPS", "SINCE", "LAST USED", "ENDS"}
	return cli.WriteTable(w, headings, all, func(s *client.Session) []string {
		return []string{
			s.SessionID, s.Principal, s.Name, cmp.Or(s.Email, "-"), cmp.Or(s.Role, strings.Join(s.Scopes, ",")), listText(s.Groups),
			s.CreatedAt.String(), s.LastUsedAt.String(), s.EndsAt.String(),
		}
	})
}

func sessionsEnd(flags *flag.FlagSet) cli.Action {
	principal := flags.String("principal", "", "end all sessions of the principal `NAME`")
	return func(ctx context.Context, p cli.Process, args []string) error {
		if (len(args) == 0) == (*principal == "") {
			return cli.UsageError{Text: "needs SESSION_IDs, or --principal NAME"}
		}
		api, err := cli.AdminAPI(p)
		if err != nil {
			return err
		}
		if *principal != "" {
			for s, err := range api.AllSessions(ctx) {
				if err != nil {
					return err
				}
				if s.Principal == *principal {
					args = append(args, s.SessionID)
				}
			}
			if len(args) == 0 {
				return errors.New("the principal has no session in force")
			}
		}
		for _, id := range args {
			if err := api.EndSession(ctx, id); err != nil {
				return fmt.Errorf("%s: %w", spend.Printable(id), err)
			}
			if _, err := fmt.Fprintln(p.Stdout, "ended", spend.Printable(id)); err != nil {
				return err
			}
		}
		return nil
	}
}
