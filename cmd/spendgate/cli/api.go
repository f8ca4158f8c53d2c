package cli

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
	// APITimeout is far above the 2 s within which the service answers even
	// when it is in trouble (G7).
	APITimeout = 30 * time.Second
	// apiMaxWait is how long a command waits for a rate limit before it reports the limit.
	apiMaxWait = 2 * time.Second
)

// AdminNeed describes the settings of commands that need the admin key.
const AdminNeed = "Talks to SPENDGATE_API_URL (http://127.0.0.1:8080) with SPENDGATE_ADMIN_KEY."

// KeyAPI returns a client with the API key or, if there is none, with the session of spendgate login.
func KeyAPI(p Process) (*client.Client, error) {
	c, err := config.LoadClient(p.Environ)
	if err != nil {
		return nil, err
	}
	if c.APIKey == "" {
		s, err := p.ReadSession(c.APIURL)
		if err != nil {
			return nil, err
		}
		if s == nil {
			return nil, errors.New("SPENDGATE_API_KEY is not set, nor is SPENDGATE_API_KEY_FILE, and nobody is signed in: spendgate login")
		}
		return s.Client(p)
	}
	return NewClient(p, client.Options{BaseURL: c.APIURL, APIKey: string(c.APIKey)})
}

// AdminAPI returns a client with the admin key.
func AdminAPI(p Process) (*client.Client, error) {
	c, err := config.LoadClient(p.Environ)
	if err != nil {
		return nil, err
	}
	if c.AdminKey == "" {
		return nil, errors.New("SPENDGATE_ADMIN_KEY is not set, nor is SPENDGATE_ADMIN_KEY_FILE")
	}
	return NewClient(p, client.Options{BaseURL: c.APIURL, AdminKey: string(c.AdminKey)})
}

// NewClient returns a client with the timeouts of commands.
func NewClient(p Process, o client.Options) (*client.Client, error) {
	o.AttemptTimeout, o.MaxWait, o.UserAgent = APITimeout, apiMaxWait, "spendgate/"+p.Version
	return client.New(o)
}

// WriteJSON prints JSON indented, its numbers as they came, and its strings as a terminal may show them.
func WriteJSON(w io.Writer, text []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err := w.Write(spend.AppendPrintableJSON(nil, out.Bytes()))
	return err
}

// PrintJSON prints a value as JSON.
func PrintJSON(w io.Writer, v any) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	return WriteJSON(w, out.Bytes())
}

// List returns the action of a command that prints a listing.
func List[T interface{ JSON() []byte }](
	flags *flag.FlagSet, connect func(Process) (*client.Client, error),
	read func(*client.Client, context.Context) iter.Seq2[T, error], table func(io.Writer, []T) error,
) Action {
	asJSON := OutputFlag(flags)
	return func(ctx context.Context, p Process, _ []string) error {
		api, err := connect(p)
		if err != nil {
			return err
		}
		return PrintAll(p, read(api, ctx), *asJSON, table)
	}
}

// PrintAll prints all items of a listing, as a JSON array of the received items or as a table.
func PrintAll[T interface{ JSON() []byte }](
	p Process, items iter.Seq2[T, error], asJSON bool, table func(io.Writer, []T) error,
) error {
	var all []T
	for item, err := range items {
		if err != nil {
			return err
		}
		all = append(all, item)
	}
	if !asJSON {
		return table(p.Stdout, all)
	}
	texts := make([][]byte, len(all))
	for i := range all {
		texts[i] = all[i].JSON()
	}
	return WriteJSON(p.Stdout, slices.Concat([]byte("["), bytes.Join(texts, []byte(",")), []byte("]")))
}

// NamedLines returns a function that writes a named value in a line of a table.
func NamedLines(out *tabwriter.Writer) func(name, value string) {
	return func(name, value string) { fmt.Fprintf(out, "%s:\t%s\n", name, spend.Printable(cmp.Or(value, "-"))) }
}

// OneID returns the identifier that is the only argument, and a client with the API key.
func OneID(p Process, what string, args []string) (id string, api *client.Client, err error) {
	if len(args) != 1 || args[0] == "" {
		return "", nil, UsageError{Text: "needs one " + what}
	}
	api, err = KeyAPI(p)
	return args[0], api, err
}
