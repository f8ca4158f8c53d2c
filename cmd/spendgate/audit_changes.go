package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"spendgate/audit"
	"spendgate/audit/postgres"
	"spendgate/config"
)

func auditChangesCommand() command {
	return command{
		name: "changes", summary: "list the changes of policies and API keys, and who made them", setup: auditChanges,
		details: "Reads the database of SPENDGATE_DATABASE_URL, or with --data-dir that of a single node, which may be running.\n" +
			"The newest change comes last. BY is the admin key (the first 8 digits of its SHA-256), the API key, or for what\n" +
			"spendgate does by itself its name. That nobody altered the record is what audit verify shows.",
	}
}

func auditChanges(flags *flag.FlagSet) action {
	var q audit.ChangeQuery
	var since timeFlag
	flags.Func("policy", "only versions of the policy `POLICY_ID`", notEmpty(&q.PolicyID))
	flags.Func("key", "only changes of the key `KEY_ID`, and those made with it", notEmpty(&q.KeyID))
	flags.Var(&since, "since", "only those since `TIME`: 2026-03-01 or 2026-03-01T12:00:00Z")
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	dataDir := flags.String("data-dir", "", "read the single node whose SPENDGATE_DATA_DIR is `DIR`")
	return func(ctx context.Context, p process, _ []string) error {
		q.Since = since.at
		changes, done, err := openChanges(ctx, p, *dataDir)
		if err != nil {
			return err
		}
		defer done()
		if *asJSON {
			lines := json.NewEncoder(p.stdout)
			return eachChange(ctx, changes, q, func(c *audit.Change) error { return lines.Encode(changeLine(c)) })
		}
		table := newTable(p.stdout)
		_, _ = fmt.Fprintln(table, "NO\tAT\tCHANGE\tOF\tACTOR\tBY\tADDRESS\tREQUEST\tDETAILS") // Flush reports the error
		err = eachChange(ctx, changes, q, func(c *audit.Change) error { return writeChange(table, c) })
		return errors.Join(err, table.Flush())
	}
}

// openChanges opens the store that the settings or the folder name.
func openChanges(ctx context.Context, p process, dataDir string) (_ audit.Changes, done func(), err error) {
	if dataDir != "" {
		store, err := openDev(ctx, dataDir)
		if err != nil {
			return nil, nil, err
		}
		return store, store.Close, nil
	}
	c, err := p.load(config.Audit)
	if err != nil {
		return nil, nil, err
	}
	store, err := postgres.Open(ctx, postgres.Options{URL: string(c.DatabaseURL), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	return store, store.Close, nil
}

// eachChange reads page by page.
func eachChange(ctx context.Context, from audit.Changes, q audit.ChangeQuery, each func(*audit.Change) error) error {
	for q.Limit = 500; ; {
		page, err := from.Changes(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if err := each(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.After = page[len(page)-1].Seq
	}
}

func writeChange(w io.Writer, c *audit.Change) error {
	subject := c.Subject
	if c.Version > 0 {
		subject += " version " + strconv.Itoa(c.Version)
	}
	_, err := fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Seq, c.At.Format(time.RFC3339), c.Kind, printable(subject),
		c.By.Kind(), printable(c.By.Name()), c.By.Address, c.By.RequestID, printable(c.Details))
	return err
}

// changeLine returns the change in the names of the record (AUDIT-FORMAT.md).
func changeLine(c *audit.Change) any {
	return struct {
		Seq        int64            `json:"seq"`
		At         time.Time        `json:"at"`
		Kind       audit.ChangeKind `json:"kind"`
		Subject    string           `json:"subject"`
		Version    int              `json:"version,omitempty"`
		Actor      string           `json:"actor"`
		KeyID      string           `json:"key_id,omitempty"`
		Principal  string           `json:"principal,omitempty"`
		Credential string           `json:"credential,omitempty"`
		RequestID  string           `json:"request_id,omitempty"`
		Address    string           `json:"address,omitempty"`
		Details    json.RawMessage  `json:"details"`
	}{
		c.Seq, c.At, c.Kind, c.Subject, c.Version, c.By.Kind(), c.By.KeyID, c.By.Principal, c.By.Credential, c.By.RequestID,
		c.By.Address, json.RawMessage(c.Details),
	}
}
