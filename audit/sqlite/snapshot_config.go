package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
	"spendgate/audit/verify"
)

// Changes implements verify.Evidence.
func (s *Snapshot) Changes(ctx context.Context, each func(verify.Change) error) error {
	return s.stream(ctx, "the changes", func(row scanner) error {
		c := verify.Change{}
		values := make([]any, len(chain.ChangeColumns()))
		into := make([]any, len(values), len(values)+1)
		for i := range values {
			into[i] = &values[i]
		}
		if err := row.Scan(append(into, blob(c.Head[:]))...); err != nil {
			return err
		}
		c.Seq, _ = values[0].(int64)
		kind, _ := values[1].(string)
		c.Kind = audit.ChangeKind(kind)
		c.Subject, _ = values[2].(string)
		version, _ := values[3].(int64)
		c.Version = int(version)
		values[3], values[10] = int32Of(values[3]), timeOf(values[10])
		c.At, _ = values[10].(time.Time)
		hash, _ := values[12].([]byte)
		copy(c.Hash[:], hash)
		c.Row = chain.EncodeRow(values...)
		return each(c)
	}, "SELECT "+strings.Join(chain.ChangeColumns(), ", ")+", head FROM changes ORDER BY seq")
}

// Policies implements verify.Evidence.
func (s *Snapshot) Policies(ctx context.Context, each func(verify.PolicyVersion, []byte) error) error {
	return s.encoded(ctx, policyRows, func(row []byte) error {
		fields, err := chain.ParseFields(nil, row)
		if err != nil {
			return err
		}
		return each(verify.PolicyVersion{PolicyID: string(fields[0]), Version: int(number(fields[1]))}, row)
	}, "ORDER BY generation")
}

// number is a field's big-endian value; 0 for null.
func number(field []byte) (n int64) {
	for _, b := range field {
		n = n<<8 | int64(b)
	}
	return n
}

// Drafts implements verify.Evidence.
func (s *Snapshot) Drafts(ctx context.Context, each func(int64, string, []byte) error) error {
	return s.encoded(ctx, draftRows, func(row []byte) error {
		fields, err := chain.ParseFields(nil, row)
		if err != nil {
			return err
		}
		return each(number(fields[1]), string(fields[0]), row)
	}, "ORDER BY generation")
}

// grantsOf encodes grants as they are hashed: json_patch may have changed their text.
func grantsOf(value any) any {
	text, _ := value.(string)
	grants, err := spend.ParseGrants(text)
	if err != nil || text == "" {
		return value
	}
	return grants.Text()
}

// Keys implements verify.Evidence.
func (s *Snapshot) Keys(ctx context.Context, each func(spend.ID, []byte) error) error {
	return s.byID(ctx, keyRows, each)
}

// Webhooks implements verify.Evidence.
func (s *Snapshot) Webhooks(ctx context.Context, each func(spend.ID, []byte) error) error {
	return s.byID(ctx, webhookRows, each)
}

func (s *Snapshot) byID(ctx context.Context, of encoding, each func(spend.ID, []byte) error) error {
	return s.encoded(ctx, of, func(row []byte) error {
		fields, err := chain.ParseRow(nil, row)
		if err != nil {
			return err
		}
		return each(spend.ID(fields[0]), row)
	}, "ORDER BY id")
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

// Exhaustions implements verify.Evidence.
func (s *Snapshot) Exhaustions(ctx context.Context, each func(verify.Exhaustion) error) error {
	return s.stream(ctx, "the exhaustions of budgets", func(row scanner) error {
		var e verify.Exhaustion
		err := row.Scan(blob(e.Counter.ID[:]), &e.StartMS, blob(e.ID[:]), (*millis)(&e.At), &e.PolicyID, &e.RuleID, &e.Since, &e.Subject,
			&e.BucketMS, &e.Limit, &e.MaxCount, &e.Used, &e.Count, &e.AgentID)
		if err != nil {
			return err
		}
		return each(e)
	}, `SELECT counter_id, start_ms, id, at, policy_id, rule_id, since, subject, bucket_ms,
		coalesce(max_used, ''), coalesce(max_count, ''), used, count, coalesce(agent_id, '')
		FROM budget_exhaustions ORDER BY counter_id, start_ms`)
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
