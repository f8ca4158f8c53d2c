package apicmd

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/hotpath/client"
)

func keysCommand() cli.Command {
	return cli.Command{
		Name:    "keys",
		Summary: "create, list and change API keys of a running node",
		Details: cli.AdminNeed,
		Sub: []cli.Command{
			{
				Name: "create", Summary: "make an API key; it is shown this once", Setup: keysCreate,
				Details: cli.AdminNeed + `
Only a hash of the key is stored: keep what is printed.

A key without --role or --scope may do what role full may, writing policies
included. Give an agent --role agent: it asks, and reads what it caused itself. Give
who maintains policies --role author, and who only reads --role auditor. S30 in
docs/reference/contract.md has the scopes of every role.

A key of role agent has a principal: --principal, else --owner, else its name. What
the agent asked for, approvals too, is the principal's and stays its own when the key
is rotated. Agents of one owner that must not use each other's approvals or
idempotency keys need a --principal each. A key of role approver needs one: the
person who decides.`,
			},
			{
				Name: "list", Summary: "list all API keys", Setup: keysList,
				Details: cli.AdminNeed + "\nLAST USED may be a minute behind. What keys may do is shown when one of them is not just full.",
			},
			{
				Name: "update", Args: "KEY_ID", Summary: "rename, limit, narrow, deactivate or reactivate an API key", Setup: keysUpdate,
				Details: cli.AdminNeed + `
When the command returns, the change is in force on every node. --role and --scope
replace what the key had of both; so do --policy-id and --agent-id, each its own.`,
			},
		},
	}
}

func keysCreate(flags *flag.FlagSet) cli.Action {
	name := flags.String("name", "", "what the key is for, as `TEXT` (required)")
	limit := flags.Int("rate-limit-rpm", 0, "requests per minute, as `N` from 1 to 10000 (default 100)")
	var grants client.Grants
	grantFlags(flags, &grants)
	asJSON := flags.Bool("json", false, "print the answer as JSON")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		if *name == "" {
			return cli.UsageError{Text: "needs --name TEXT"}
		}
		if decides(&grants) && grants.Principal == "" {
			return cli.UsageError{Text: "a key that decides needs --principal NAME: the person who decides with it, the same in all of their keys"}
		}
		api, err := cli.AdminAPI(p)
		if err != nil {
			return err
		}
		var rpm *int
		if cli.IsSet(flags, "rate-limit-rpm") {
			rpm = limit
		}
		if grants.Role == string(spend.Agent) {
			grants.Principal = cmp.Or(grants.Principal, grants.Owner, *name)
		}
		k, err := api.CreateKey(ctx, client.KeyRequest{Name: *name, RateLimitRPM: rpm, Grants: grants})
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(p.Stdout, k)
		}
		return writeNewKey(p.Stdout, k)
	}
}

func writeNewKey(w io.Writer, k *client.NewKey) error {
	out := cli.NewTable(w)
	fmt.Fprintf(out, "key id:\t%s\nname:\t%s\nrate limit:\t%d a minute\n", spend.Printable(k.KeyID), spend.Printable(k.Name), k.RateLimitRPM)
	for i, text := range grantTexts(k.Grants) {
		if text != "" {
			fmt.Fprintf(out, "%s:\t%s\n", grantNames[i], text)
		}
	}
	fmt.Fprintf(out, "API key:\t%s\n", spend.Printable(k.APIKey))
	return out.Flush()
}

func keysUpdate(flags *flag.FlagSet) cli.Action {
	name := flags.String("name", "", "the new name, as `TEXT`")
	limit := flags.Int("rate-limit-rpm", 0, "requests per minute, as `N` from 1 to 10000")
	active := flags.Bool("active", true, "whether the key is accepted: --active, or --active=false, which stops what it was allowed")
	keepOpen := flags.Bool("keep-open", false, "beside --active=false: what the key was allowed may still be redeemed")
	var change client.KeyChange
	grantFlags(flags, &change.Grants)
	clearFlag(flags, &change.Clear)
	asJSON := flags.Bool("json", false, "print the answer as JSON")
	return func(ctx context.Context, p cli.Process, args []string) error {
		if cli.IsSet(flags, "name") {
			change.Name = name
		}
		if cli.IsSet(flags, "rate-limit-rpm") {
			change.RateLimitRPM = limit
		}
		if cli.IsSet(flags, "active") {
			change.Active = active
		}
		change.KeepOpen = *keepOpen
		if change.Active != nil && len(args) == 2 && isBool(args[1]) {
			return cli.UsageError{Text: "--active takes its value after a sign: --active=" + args[1]}
		}
		if len(args) != 1 || args[0] == "" || reflect.ValueOf(change).IsZero() {
			return cli.UsageError{Text: "needs one KEY_ID and at least one flag that says what to change"}
		}
		api, err := cli.AdminAPI(p)
		if err != nil {
			return err
		}
		k, err := api.UpdateKey(ctx, args[0], change)
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(p.Stdout, k)
		}
		if err := writeKeys(p.Stdout, []client.Key{*k}); err != nil {
			return err
		}
		return writeStopped(p.Stdout, k.Stopped)
	}
}

// writeStopped says what a deactivation stopped.
func writeStopped(w io.Writer, stopped *client.Stopped) (err error) {
	switch {
	case stopped == nil:
	case stopped.Checks == nil || stopped.Voided == nil:
		_, err = fmt.Fprintln(w, "\nstopped what it was allowed and nobody redeemed; there is too much to count")
	default:
		_, err = fmt.Fprintf(w, "\nstopped %d checks that nobody redeemed; "+
			"%d of them are carried out by redemption only, and given back within a minute\n", *stopped.Checks, *stopped.Voided)
	}
	return err
}

func isBool(s string) bool {
	_, err := strconv.ParseBool(s)
	return err == nil
}

func keysList(flags *flag.FlagSet) cli.Action {
	return cli.List(flags, cli.AdminAPI, (*client.Client).AllKeys, writeKeys)
}

// writeKeys writes a table. It has columns for the rights of keys if one of the keys has any set.
func writeKeys(w io.Writer, keys []client.Key) error {
	granted := slices.ContainsFunc(keys, func(k client.Key) bool { return !reflect.ValueOf(k.Grants).IsZero() })
	headings := []string{"KEY ID", "NAME", "PER MINUTE", "STATE", "CREATED", "LAST USED"}
	if granted {
		headings = append(headings, grantNames[:]...)
		for i := range headings {
			headings[i] = strings.ToUpper(headings[i])
		}
	}
	now := time.Now()
	return cli.WriteTable(w, headings, keys, func(k *client.Key) []string {
		used := "never"
		if k.LastUsedAt != nil {
			used = k.LastUsedAt.String()
		}
		cells := []string{k.KeyID, k.Name, strconv.Itoa(k.RateLimitRPM), stateText(*k, now), k.CreatedAt.String(), used}
		if granted {
			unsaid := [len(grantNames)]string{"full", "any", "any", "-", "-", "-", "never"}
			for i, text := range grantTexts(k.Grants) {
				cells = append(cells, cmp.Or(text, unsaid[i]))
			}
		}
		return cells
	})
}
