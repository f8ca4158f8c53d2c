package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"spendgate/hotpath/client"
)

// keysNeed is what each command of this group needs.
const keysNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_ADMIN_KEY."

func keysCommand() command {
	return command{
		name:    "keys",
		summary: "create, list and change API keys of a running node",
		details: keysNeed,
		sub: []command{
			{
				name: "create", summary: "make an API key; it is shown this once", setup: keysCreate,
				details: keysNeed + "\nOnly a hash of the key is stored: keep what is printed.",
			},
			{
				name: "list", summary: "list all API keys", setup: keysList,
				details: keysNeed + "\nLAST USED may be a minute behind.",
			},
			{
				name: "update", args: "KEY_ID", summary: "rename, limit, deactivate or reactivate an API key", setup: keysUpdate,
				details: keysNeed + "\nWhen the command returns, the change is in force on every node.",
			},
		},
	}
}

func keysCreate(flags *flag.FlagSet) action {
	name := flags.String("name", "", "what the key is for, as `TEXT` (required)")
	limit := flags.Int("rate-limit", 0, "requests per minute, as `N` from 1 to 10000 (default 100)")
	asJSON := flags.Bool("json", false, "print the answer as JSON")
	return func(ctx context.Context, p process, args []string) error {
		if *name == "" || len(args) > 0 {
			return usageError{text: "needs --name TEXT and no other arguments"}
		}
		api, err := adminAPI(p)
		if err != nil {
			return err
		}
		var rpm *int
		if isSet(flags, "rate-limit") {
			rpm = limit
		}
		k, err := api.CreateKey(ctx, *name, rpm)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(p.stdout, k)
		}
		_, err = fmt.Fprintf(p.stdout, "key id:      %s\nname:        %s\nrate limit:  %d a minute\nAPI key:     %s\n",
			printable(k.KeyID), printable(k.Name), k.RateLimitRPM, printable(k.APIKey))
		return err
	}
}

func keysUpdate(flags *flag.FlagSet) action {
	name := flags.String("name", "", "the new name, as `TEXT`")
	limit := flags.Int("rate-limit", 0, "requests per minute, as `N` from 1 to 10000")
	active := flags.Bool("active", true, "whether the key is accepted: --active, or --active=false")
	asJSON := flags.Bool("json", false, "print the answer as JSON")
	return func(ctx context.Context, p process, args []string) error {
		var change client.KeyChange
		if isSet(flags, "name") {
			change.Name = name
		}
		if isSet(flags, "rate-limit") {
			change.RateLimitRPM = limit
		}
		if isSet(flags, "active") {
			change.Active = active
		}
		if change.Active != nil && len(args) == 2 && isBool(args[1]) {
			return usageError{text: "--active takes its value after a sign: --active=" + args[1]}
		}
		if len(args) != 1 || args[0] == "" || change == (client.KeyChange{}) {
			return usageError{text: "needs one KEY_ID and at least one of --name, --rate-limit, --active"}
		}
		api, err := adminAPI(p)
		if err != nil {
			return err
		}
		k, err := api.UpdateKey(ctx, args[0], change)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(p.stdout, k)
		}
		return writeKeys(p.stdout, []client.Key{*k})
	}
}

func isBool(s string) bool {
	_, err := strconv.ParseBool(s)
	return err == nil
}

func keysList(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print an array of the keys as JSON")
	return func(ctx context.Context, p process, args []string) error {
		if len(args) > 0 {
			return usageError{text: fmt.Sprintf("takes no arguments, not %q", args)}
		}
		api, err := adminAPI(p)
		if err != nil {
			return err
		}
		keys := []client.Key{} // JSON's [] when there are none
		for k, err := range api.AllKeys(ctx, client.KeyQuery{Limit: 100}) {
			if err != nil {
				return err
			}
			keys = append(keys, k)
		}
		if *asJSON {
			return printJSON(p.stdout, keys)
		}
		return writeKeys(p.stdout, keys)
	}
}

func writeKeys(w io.Writer, keys []client.Key) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "KEY ID\tNAME\tPER MINUTE\tSTATE\tCREATED\tLAST USED")
	for _, k := range keys {
		state := "active"
		if !k.Active {
			state = "inactive"
		}
		used := "never"
		if k.LastUsedAt != nil {
			used = k.LastUsedAt.String()
		}
		fmt.Fprintf(out, "%s\t%s\t%d\t%s\t%s\t%s\n",
			printable(k.KeyID), printable(k.Name), k.RateLimitRPM, state, k.CreatedAt, used)
	}
	return out.Flush()
}

// isSet reports whether the flag was given, so that absent is not zero.
func isSet(flags *flag.FlagSet, name string) bool {
	found := false
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}
