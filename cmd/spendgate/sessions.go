package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"spendgate/audit/spend"
	"spendgate/hotpath/client"
)

const sessionsNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_ADMIN_KEY."

func sessionsCommand() command {
	return command{
		name: "sessions", summary: "list who is signed in, and end sessions", details: sessionsNeed,
		sub: []command{
			{name: "list", summary: "list the sessions in force, newest first", details: sessionsNeed, setup: sessionsList},
			{
				name: "end", args: "SESSION_ID... | --principal NAME", summary: "end sessions", setup: sessionsEnd,
				details: sessionsNeed + `
When the command returns, they are over on every node. Who may still sign in can do so
again: take their group away at the provider first.`,
			},
		},
	}
}

func sessionsList(flags *flag.FlagSet) action {
	asJSON := outputFlag(flags)
	return func(ctx context.Context, p process, _ []string) error {
		api, err := adminAPI(p)
		if err != nil {
			return err
		}
		return printAll(p, api.AllSessions(ctx), *asJSON, writeSessions)
	}
}

func writeSessions(w io.Writer, all []client.Session) error {
	out := newTable(w)
	fmt.Fprintln(out, "SESSION ID\tPRINCIPAL\tNAME\tE-MAIL\tMAY\tGROUPS\tSINCE\tLAST USED\tENDS")
	for i := range all {
		s := &all[i]
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", spend.Printable(s.SessionID), spend.Printable(s.Principal),
			spend.Printable(s.Name),
			spend.Printable(cmp.Or(s.Email, "-")),
			spend.Printable(cmp.Or(s.Role, strings.Join(s.Scopes, ","))), listText(s.Groups), s.CreatedAt, s.LastUsedAt, s.EndsAt)
	}
	return out.Flush()
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
