package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
)

func keysCommand() command {
	return command{
		name:    "keys",
		summary: "create, list and change API keys of a running node",
		details: "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_ADMIN_KEY.",
		sub: []command{
			{
				name: "create", summary: "make an API key; it is shown this once", setup: keysCreate,
				details: "Only a hash of the key is stored: keep what is printed.",
			},
			{name: "list", summary: "list all API keys", setup: keysList},
			{
				name: "update", args: "KEY_ID", summary: "rename, limit, deactivate or reactivate an API key", setup: keysUpdate,
				details: "When the command returns, the change is in force on every node.",
			},
		},
	}
}

// key is an API key as the admin API shows it.
type key struct {
	KeyID        string `json:"key_id"`
	Name         string `json:"name"`
	APIKey       string `json:"api_key"` // at creation only
	RateLimitRPM int    `json:"rate_limit_rpm"`
	Active       bool   `json:"active"`
	CreatedAt    string `json:"created_at"`
}

func keysCreate(flags *flag.FlagSet) action {
	name := flags.String("name", "", "what the key is for, as `TEXT` (required)")
	limit := flags.Int("rate-limit", 0, "requests per minute, as `N` from 1 to 10000 (default 100)")
	asJSON := flags.Bool("json", false, "print the answer as JSON")
	return func(ctx context.Context, p process, args []string) error {
		if *name == "" || len(args) > 0 {
			return usageError{text: "needs --name TEXT and no other arguments"}
		}
		request := map[string]any{"name": *name}
		if isSet(flags, "rate-limit") {
			request["rate_limit_rpm"] = *limit
		}
		answer, err := sendKey(ctx, p, http.MethodPost, "/v1/keys", request)
		if err != nil || *asJSON {
			return writeAnswer(p.stdout, answer, err)
		}
		var k key
		if err := decode(answer, &k); err != nil {
			return err
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
		request := make(map[string]any)
		if isSet(flags, "name") {
			request["name"] = *name
		}
		if isSet(flags, "rate-limit") {
			request["rate_limit_rpm"] = *limit
		}
		if isSet(flags, "active") {
			request["active"] = *active
		}
		if len(args) != 1 || args[0] == "" || len(request) == 0 {
			return usageError{text: "needs one KEY_ID and at least one of --name, --rate-limit, --active"}
		}
		answer, err := sendKey(ctx, p, http.MethodPatch, "/v1/keys/"+url.PathEscape(args[0]), request)
		if err != nil || *asJSON {
			return writeAnswer(p.stdout, answer, err)
		}
		var k key
		if err := decode(answer, &k); err != nil {
			return err
		}
		return writeKeys(p.stdout, []key{k})
	}
}

func keysList(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "print an array of the keys as JSON")
	return func(ctx context.Context, p process, args []string) error {
		if len(args) > 0 {
			return usageError{text: fmt.Sprintf("takes no arguments, not %q", args)}
		}
		raw, err := fetchKeys(ctx, p)
		if err != nil {
			return err
		}
		all, err := json.Marshal(raw)
		if err != nil || *asJSON {
			return writeAnswer(p.stdout, all, err)
		}
		var keys []key
		if err := decode(all, &keys); err != nil {
			return err
		}
		return writeKeys(p.stdout, keys)
	}
}

// fetchKeys collects all pages.
func fetchKeys(ctx context.Context, p process) ([]json.RawMessage, error) {
	api, err := adminAPI(p)
	if err != nil {
		return nil, err
	}
	all := []json.RawMessage{}
	for query := "?limit=100"; ; {
		answer, err := api.do(ctx, http.MethodGet, "/v1/keys"+query, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Data       []json.RawMessage `json:"data"`
			Pagination struct {
				NextCursor *string `json:"next_cursor"`
			} `json:"pagination"`
		}
		if err := decode(answer, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if page.Pagination.NextCursor == nil || len(page.Data) == 0 {
			return all, nil
		}
		query = "?limit=100&cursor=" + url.QueryEscape(*page.Pagination.NextCursor)
	}
}

func sendKey(ctx context.Context, p process, method, path string, request map[string]any) ([]byte, error) {
	api, err := adminAPI(p)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	return api.do(ctx, method, path, body)
}

func writeKeys(w io.Writer, keys []key) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "KEY ID\tNAME\tPER MINUTE\tSTATE\tCREATED")
	for _, k := range keys {
		state := "active"
		if !k.Active {
			state = "inactive"
		}
		fmt.Fprintf(out, "%s\t%s\t%d\t%s\t%s\n",
			printable(k.KeyID), printable(k.Name), k.RateLimitRPM, state, printable(k.CreatedAt))
	}
	return out.Flush()
}

func writeAnswer(w io.Writer, answer []byte, err error) error {
	if err != nil {
		return err
	}
	return writeJSON(w, answer)
}

func decode(answer []byte, into any) error {
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the node's answer cannot be understood: %w", err)
	}
	return nil
}

// isSet reports whether the flag was given, so that absent is not zero.
func isSet(flags *flag.FlagSet, name string) bool {
	found := false
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}
