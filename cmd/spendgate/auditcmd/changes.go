package auditcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/postgres"
	"spendgate/audit/spend"
	"spendgate/cmd/spendgate/cli"
	"spendgate/config"
)

func auditChangesCommand() cli.Command {
	return cli.Command{
		Name: "changes", Summary: "list the changes of policies and API keys, and who made them", Setup: auditChanges,
		Details: "Policies, drafts, API keys, webhooks and decisions about approvals.\n" +
			"Reads the database of SPENDGATE_DATABASE_URL, or with --data-dir that of a single node, which may be running.\n" +
			"The newest change comes last. BY is the admin key (the first 8 digits of its SHA-256), the API key, whose PRINCIPAL\n" +
			"stands before it, or for what spendgate does by itself its name. That nobody altered the record is what audit verify shows.",
	}
}

// changeFilter selects the changes to be listed. It is applied here and not in SQL: a record of
// changes is short, and SQL cannot compare names as S62 does.
type changeFilter struct {
	audit.ChangeQuery
	to         time.Time // inclusive; zero for no bound
	kinds      []string  // such as policy.created, or policy for all of them; nil for all
	principals []string
}

// addKind adds a kind, or the part of a kind before the dot. Impossible values are refused, since an
// empty list would look like an answer.
func (f *changeFilter) addKind(text string) error {
	var names []string
	for _, kind := range audit.ChangeKinds() {
		if matchesKind(kind, text) {
			f.kinds = append(f.kinds, text)
			return nil
		}
		names = append(names, string(kind))
	}
	return errors.New("must be one of " + strings.Join(names, ", ") + ", or what is before the dot")
}

func matchesKind(kind audit.ChangeKind, text string) bool {
	family, _, _ := strings.Cut(string(kind), ".")
	return string(kind) == text || family == text
}

func (f *changeFilter) takes(c *audit.Change) bool {
	byWhom := func(name string) bool {
		return spend.SameName(c.By.Principal, name) || c.By.KeyID == name || c.By.Credential == name
	}
	return (f.to.IsZero() || !c.At.After(f.to)) &&
		(f.kinds == nil || slices.ContainsFunc(f.kinds, func(kind string) bool { return matchesKind(c.Kind, kind) })) &&
		(f.principals == nil || slices.ContainsFunc(f.principals, byWhom))
}

func auditChanges(flags *flag.FlagSet) cli.Action {
	var f changeFilter
	from, to := cli.TimeFlag{}, cli.TimeFlag{Last: true}
	q := &f.ChangeQuery
	flags.Func("policy-id", "only versions of the policy `ID`", cli.NotEmpty(&q.PolicyID))
	flags.Func("key-id", "only changes of the key `ID`, and those made with it", cli.NotEmpty(&q.KeyID))
	flags.Var(&from, "from", "only those from `TIME` on: 2026-03-01 or 2026-03-01T12:00:00Z")
	flags.Var(&to, "to", "only those up to `TIME`; of a date all of the day")
	flags.Func("kind", "only of this `KIND`, such as policy.created, or policy for all of them; may be repeated", f.addKind)
	flags.Func("principal", "only those made by this `PRINCIPAL`, key_id or admin key, as BY shows it; may be repeated",
		cli.EachNotEmpty(&f.principals))
	asJSON := flags.Bool("json", false, "print a JSON object a line")
	dataDir := flags.String("data-dir", "", "read the single node whose SPENDGATE_DATA_DIR is `DIR`")
	return func(ctx context.Context, p cli.Process, _ []string) error {
		q.Since, f.to = from.At, to.At
		if !to.At.IsZero() && to.At.Before(from.At) {
			return cli.UsageError{Text: "--from must not be later than --to"}
		}
		changes, done, err := openChanges(ctx, p, *dataDir)
		if err != nil {
			return err
		}
		defer done()
		if *asJSON {
			lines := json.NewEncoder(p.Stdout)
			return eachChange(ctx, changes, f, func(c *audit.Change) error { return lines.Encode(changeLine(c)) })
		}
		var found []audit.Change
		err = eachChange(ctx, changes, f, func(c *audit.Change) error {
			found = append(found, *c)
			return nil
		})
		return errors.Join(err, writeChanges(p.Stdout, found))
	}
}

// openChanges opens the store that the settings or the folder name.
func openChanges(ctx context.Context, p cli.Process, dataDir string) (_ audit.Changes, done func(), err error) {
	if dataDir != "" {
		store, err := openDev(ctx, dataDir)
		if err != nil {
			return nil, nil, err
		}
		return store, store.Close, nil
	}
	c, err := p.Load(config.Audit)
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
func eachChange(ctx context.Context, from audit.Changes, f changeFilter, each func(*audit.Change) error) error {
	q := f.ChangeQuery
	for q.Limit = 500; ; {
		page, err := from.Changes(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if !f.takes(&page[i]) {
				continue
			}
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

func writeChanges(w io.Writer, all []audit.Change) error {
	headings := []string{"NO", "AT", "CHANGE", "OF", "ACTOR", "PRINCIPAL", "BY", "ADDRESS", "REQUEST", "DETAILS"}
	return cli.WriteTable(w, headings, all, func(c *audit.Change) []string {
		subject, principal := c.Subject, "-"
		if c.By.KeyID != "" {
			principal = cmp.Or(c.By.Principal, principal)
		}
		if c.Version > 0 {
			subject += " version " + strconv.Itoa(c.Version)
		}
		return []string{
			strconv.FormatInt(c.Seq, 10), c.At.Format(time.RFC3339), string(c.Kind), subject, c.By.Kind(), principal, c.By.Name(),
			c.By.Address, c.By.RequestID, c.Details,
		}
	})
}

// changeLine returns the change in the names of the record (docs/audit/format.md).
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
