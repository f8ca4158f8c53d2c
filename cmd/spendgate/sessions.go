package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"strings"

	"spendgate/audit/spend"
	"spendgate/hotpath/client"
)

func sessionsCommand() command {
	return command{
		name: "sessions", summary: "list who is signed in, and end sessions", details: adminNeed,
		sub: []command{
			{name: "list", summary: "list the sessions in force, newest first", details: adminNeed, setup: sessionsList},
			{
				name: "end", args: "SESSION_ID... | --principal NAME", summary: "end sessions", setup: sessionsEnd,
				details: adminNeed + `
When the command returns, they are over on every node. Who may still sign in can do so
again: take their group away at the provider first.`,
			},
		},
	}
}

func sessionsList(flags *flag.FlagSet) action {
	return list(flags, adminAPI, func(ctx context.Context, api *client.Client) iter.Seq2[client.Session, error] {
		return api.AllSessions(ctx)
	}, writeSessions)
}

func writeSessions(w io.Writer, all []client.Session) error {
	headings := []string{"SESSION ID", "PRINCIPAL", "NAME", "E-MAIL", "MAY", "GROUPS", "SINCE", "LAST USED", "ENDS"}
	return writeTable(w, headings, all, func(s *client.Session) []string {
		return []string{
			s.SessionID, s.Principal, s.Name, cmp.Or(s.Email, "-"), cmp.Or(s.Role, strings.Join(s.Scopes, ",")), listText(s.Groups),
			s.CreatedAt.String(), s.LastUsedAt.String(), s.EndsAt.String(),
		}
	})
}

func sessionsEnd(flags *flag.FlagSet) action {
	principal := flags.String("principal", "", "end all sessions of the principal `NAME`")
	return func(ctx context.Context, p process, args []string) error {
		if (len(args) == 0) == (*principal == "") {
			return usageError{text: "needs SESSION_IDs, or --principal NAME"}
		}
		api, err := adminAPI(p)
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
			if _, err := fmt.Fprintln(p.stdout, "ended", spend.Printable(id)); err != nil {
				return err
			}
		}
		return nil
	}
}
