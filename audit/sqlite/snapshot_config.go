package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"

	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// grantsOf encodes grants as they are hashed: json_patch may have changed their text.
func grantsOf(value any) any {
	text, _ := value.(string)
	grants, err := spend.ParseGrants(text)
	if err != nil || text == "" {
		return value
	}
	return grants.Text()
}

// Counters implements verify.Evidence.
func (s *Snapshot) Counters(ctx context.Context, each func(verify.Counter) error) error {
	return s.stream(ctx, "the counters of budgets", func(row scanner) error {
		var c verify.Counter
		err := row.Scan(blob(c.ID[:]), &c.StartMS, &c.BucketMS, (*integer)(&c.EndMS), &c.Count, &c.Since, &c.Used, &c.PolicyID, &c.RuleID,
			&c.Subject)
		if err != nil {
			return err
		}
		return each(c)
	}, `SELECT counter_id, start_ms, bucket_ms, end_ms, count, since, used, policy_id, rule_id, subject FROM budget_counters
		ORDER BY counter_id, start_ms`)
}

// Principals implements verify.Evidence. They are sorted here: SQLite has no SHA-256.
func (s *Snapshot) Principals(ctx context.Context, each func(verify.CounterPrincipal) error) error {
	all, err := collect(ctx, s.tx, "cannot read the principals of counters", func(row scanner) (p verify.CounterPrincipal, err error) {
		return p, row.Scan(blob(p.Counter[:]), &p.Principal)
	}, "SELECT counter_id, principal FROM budget_principals")
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b verify.CounterPrincipal) int { return a.ID().Compare(b.ID()) })
	for _, p := range all {
		if err := each(p); err != nil {
			return err
		}
	}
	return nil
}

// Schema implements verify.Evidence.
func (s *Snapshot) Schema(ctx context.Context) (found, made []verify.SchemaObject, err error) {
	if found, err = schemaOf(ctx, s.tx); err != nil {
		return nil, nil, err
	}
	memory, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = memory.Close() }() // nothing is in it
	memory.SetMaxOpenConns(1)             // another connection would be another database
	tx, err := memory.BeginTx(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = tx.Rollback() }() // as above
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return nil, nil, err
	}
	if err := makeImmutable(tx); err != nil {
		return nil, nil, err
	}
	made, err = schemaOf(ctx, tx)
	return found, made, err
}

// remarks matches the parts of a definition that mean nothing.
var remarks = regexp.MustCompile(`--[^\n]*|\s+`)

// schemaOf reads the objects of a schema, sorted by name.
func schemaOf(ctx context.Context, from querier) ([]verify.SchemaObject, error) {
	all, err := collect(ctx, from, "cannot read the schema", func(row scanner) (o verify.SchemaObject, err error) {
		err = row.Scan(&o.Name, &o.Definition)
		o.Definition = strings.TrimSpace(remarks.ReplaceAllString(o.Definition, " "))
		o.Definition = strings.ReplaceAll(strings.Join(strings.Fields(o.Definition), " "), " )", ")") // as behind a column that was added
		return o, err
	}, "SELECT type || ' ' || name || ' on ' || tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL "+
		"AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
	slices.SortFunc(all, func(a, b verify.SchemaObject) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}
