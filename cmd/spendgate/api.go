package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"slices"
	"text/tabwriter"
	"time"

	"spendgate/audit/spend"
	"spendgate/config"
	"spendgate/hotpath/client"
)

const (
	// apiTimeout is far above the 2 s within which the service answers even
	// when it is in trouble (G7).
	apiTimeout = 30 * time.Second
	// apiMaxWait is how long a command waits for a rate limit before it reports the limit.
	apiMaxWait = 2 * time.Second
)

// adminNeed describes the settings of commands that need the admin key.
const adminNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_ADMIN_KEY."

// keyAPI returns a client with the API key or, if there is none, with the session of spendgate login.
func keyAPI(p process) (*client.Client, error) {
	c, err := config.LoadClient(p.environ)
	if err != nil {
		return nil, err
	}
	if c.APIKey == "" {
		s, err := p.readSession(c.APIURL)
		if err != nil {
			return nil, err
		}
		if s == nil {
			return nil, errors.New("SPENDGATE_API_KEY is not set, nor is SPENDGATE_API_KEY_FILE, and nobody is signed in: spendgate login")
		}
		return s.client()
	}
	return newClient(client.Options{BaseURL: c.APIURL, APIKey: string(c.APIKey)})
}

// adminAPI returns a client with the admin key.
func adminAPI(p process) (*client.Client, error) {
	c, err := config.LoadClient(p.environ)
	if err != nil {
		return nil, err
	}
	if c.AdminKey == "" {
		return nil, errors.New("SPENDGATE_ADMIN_KEY is not set, nor is SPENDGATE_ADMIN_KEY_FILE")
	}
	return newClient(client.Options{BaseURL: c.APIURL, AdminKey: string(c.AdminKey)})
}

func newClient(o client.Options) (*client.Client, error) {
	o.AttemptTimeout, o.MaxWait, o.UserAgent = apiTimeout, apiMaxWait, "spendgate/"+version
	return client.New(o)
}

// writeJSON prints JSON indented, its numbers as they came, and its strings as a terminal may show them.
func writeJSON(w io.Writer, text []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err := w.Write(spend.AppendPrintableJSON(nil, out.Bytes()))
	return err
}

// printJSON prints a value as JSON.
func printJSON(w io.Writer, v any) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	return writeJSON(w, out.Bytes())
}

// list returns the action of a command that prints a listing.
func list[T interface{ JSON() []byte }](
	flags *flag.FlagSet, connect func(process) (*client.Client, error),
	read func(context.Context, *client.Client) iter.Seq2[T, error], table func(io.Writer, []T) error,
) action {
	asJSON := outputFlag(flags)
	return func(ctx context.Context, p process, _ []string) error {
		api, err := connect(p)
		if err != nil {
			return err
		}
		return printAll(p, read(ctx, api), *asJSON, table)
	}
}

// printAll prints all items of a listing, as a JSON array of the received items or as a table.
func printAll[T interface{ JSON() []byte }](
	p process, items iter.Seq2[T, error], asJSON bool, table func(io.Writer, []T) error,
) error {
	var all []T
	for item, err := range items {
		if err != nil {
			return err
		}
		all = append(all, item)
	}
	if !asJSON {
		return table(p.stdout, all)
	}
	texts := make([][]byte, len(all))
	for i := range all {
		texts[i] = all[i].JSON()
	}
	return writeJSON(p.stdout, slices.Concat([]byte("["), bytes.Join(texts, []byte(",")), []byte("]")))
}

// namedLines returns a function that writes a named value in a line of a table.
func namedLines(out *tabwriter.Writer) func(name, value string) {
	return func(name, value string) { fmt.Fprintf(out, "%s:\t%s\n", name, spend.Printable(cmp.Or(value, "-"))) }
}

// oneID returns the identifier that is the only argument, and a client with the API key.
func oneID(p process, what string, args []string) (id string, api *client.Client, err error) {
	if len(args) != 1 || args[0] == "" {
		return "", nil, usageError{text: "needs one " + what}
	}
	api, err = keyAPI(p)
	return args[0], api, err
}
