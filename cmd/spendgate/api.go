package main

import (
	"bytes"
	"encoding/json"
	"errors"
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
	if asJSON {
		texts := make([][]byte, len(all))
		for i := range all {
			texts[i] = all[i].JSON()
		}
		return writeJSON(p.stdout, slices.Concat([]byte("["), bytes.Join(texts, []byte(",")), []byte("]")))
	}
	return table(p.stdout, all)
}

// newTable returns a writer that aligns columns when it is flushed.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }
