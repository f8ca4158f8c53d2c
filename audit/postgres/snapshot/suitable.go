package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// unverified returns the columns of a table that are not part of the record: the numbers by which
// checks and violations are counted and events are numbered, the time of a key's last use, and what budgets have noticed.
func unverified(table string) []string {
	switch table {
	case "violations", "outcomes", "approvals":
		return []string{"xid"}
	case "batches":
		return []string{"counts", "xid"}
	case "changes", "approval_uses":
		return []string{"xid", "position"}
	case "budget_counters":
		return []string{"noticed"}
	case "keys":
		return []string{"last_used"}
	case "payments":
		return []string{"seen", "changed_at"}
	}
	return nil
}

// verified describes what a table must be before its rows are read.
type verified struct {
	table   string
	columns []string // each with its type
	keys    []string // columns by which rows are found; a row without them would not be
}

func verifiedTables() []verified {
	encoded := func(t chain.Table, keys ...string) verified {
		columns := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			columns[i] = f.Name + " " + f.Kind.SQL()
		}
		return verified{t.Name, columns, keys}
	}
	written := func(table, columns string, keys ...string) verified {
		return verified{table, strings.Split(columns, ", "), keys}
	}
	return []verified{
		encoded(chain.Checks(), "check_id"),
		encoded(chain.KeptChecks(), "check_id"),
		encoded(chain.Violations(), "id"),
		encoded(chain.Outcomes(), "outcome_id", "check_id", "step", "number"),
		encoded(chain.Policies(), "policy_id", "version", "generation"),
		encoded(chain.Drafts(), "policy_id", "generation"),
		encoded(chain.Keys(), "id"),
		encoded(chain.Webhooks(), "id"),
		encoded(chain.Changes(), "seq", "kind", "subject"),
		encoded(chain.OpenRedemptions(), "check_id", "redeemed_at"),
		encoded(chain.Payments(), "payment_hash", "version", "first_check", "state"),
		written("batches", "chain_id uuid, seq bigint, first_id uuid, last_id uuid, version smallint, head bytea, entries bytea",
			"chain_id", "seq", "first_id", "last_id", "version", "head", "entries"),
		written("folded_chains", "chain_id uuid, from_seq bigint, to_seq bigint, previous bytea, head bytea, entries bigint, day date, "+
			"manifest_sha256 bytea, signature bytea, folded_at timestamp with time zone",
			"chain_id", "from_seq", "to_seq", "previous", "head", "entries", "day", "manifest_sha256", "signature", "folded_at"),
		written("budget_counters", "counter_id uuid, start_ms bigint, bucket_ms bigint, end_ms bigint, count bigint, since integer, "+
			"used numeric, policy_id text, rule_id text, subject text, agent_id text", "counter_id", "start_ms"),
		written("approvals", "id uuid, created_at timestamp with time zone, expires_at timestamp with time zone, use_within_ms bigint, "+
			"required integer, action_hash bytea, policy_id text, agent_id text, principal text, owner text, payment bytea",
			"id", "created_at", "expires_at", "use_within_ms", "required", "action_hash"),
		written("approval_uses", "approval_id uuid, check_id uuid", "approval_id", "check_id"),
		written("archived_days", "day date, rows bigint, manifest_sha256 bytea, archived_at timestamp with time zone",
			"day", "rows", "manifest_sha256", "archived_at"),
		written("archived_violations", "month date, rows bigint, manifest_sha256 bytea, archived_at timestamp with time zone, "+
			"refund_blocks bigint, refund_escalations bigint, credit_blocks bigint, credit_escalations bigint, discount_blocks bigint, "+
			"discount_escalations bigint, spend_blocks bigint, spend_escalations bigint",
			"month", "rows", "manifest_sha256", "archived_at", "refund_blocks", "refund_escalations", "credit_blocks", "credit_escalations",
			"discount_blocks", "discount_escalations", "spend_blocks", "spend_escalations"),
	}
}

// describe selects the properties of a table with which a modified catalogue could hide rows from
// the verifier, or show different rows to others.
const describe = `SELECT array_agg(a.attname::text || ' ' || format_type(a.atttypid, NULL)),
		coalesce(array_agg(a.attname::text) FILTER (WHERE NOT a.attnotnull), '{}'),
		CASE WHEN c.relkind NOT IN ('r', 'p') THEN 'is no table'
			WHEN c.relrowsecurity OR c.relforcerowsecurity THEN 'has row-level security'
			WHEN EXISTS (SELECT FROM pg_rewrite WHERE ev_class = c.oid) THEN 'has rules'
			WHEN EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND NOT convalidated) THEN 'has a constraint that was not validated'
			WHEN bool_or(a.attgenerated <> '') THEN 'has a generated column'
			WHEN EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid) THEN 'belongs to another table'
			WHEN c.relkind <> 'p' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid) THEN 'has rows in other tables that inherit from it'
			ELSE '' END
	FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	WHERE c.relname = $1 AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $2) GROUP BY c.oid`

// suitable refuses tables that have columns that nobody verifies, that lack verified columns, or
// whose rows are not the same for everybody.
func suitable(ctx context.Context, tx pgx.Tx, schema string) error {
	if err := unchangedCatalogue(ctx, tx); err != nil {
		return err
	}
	for _, wanted := range verifiedTables() {
		table := wanted.table
		var columns, nullable []string
		var unlike string
		err := tx.QueryRow(ctx, describe, table, schema).Scan(&columns, &nullable, &unlike)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("there is no table %s in schema %s: is this the database of spendgate, "+
				"and did `spendgate migrate` bring it up to date?", table, schema)
		}
		if err != nil {
			return err
		}
		if unlike != "" {
			return fmt.Errorf("%s %s: who verifies might not see what others see", table, unlike)
		}
		columns = slices.DeleteFunc(columns, func(c string) bool {
			name, _, _ := strings.Cut(c, " ")
			return slices.Contains(unverified(table), name)
		})
		slices.Sort(columns)
		if expected := slices.Sorted(slices.Values(wanted.columns)); !slices.Equal(columns, expected) {
			return fmt.Errorf("table %s has the columns %s; this program verifies %s",
				table, strings.Join(columns, ", "), strings.Join(expected, ", "))
		}
		for _, key := range wanted.keys {
			if slices.Contains(nullable, key) {
				return fmt.Errorf("column %s of table %s may be null, which it was not made to be: such rows would not be found", key, table)
			}
		}
	}
	return suitablePartitions(ctx, tx, schema)
}

// unchangedCatalogue refuses a database whose pg_catalog has additions that statements would use in
// place of PostgreSQL's own objects; only a superuser can add them. Numbers from 16384 on are not
// PostgreSQL's own.
func unchangedCatalogue(ctx context.Context, tx pgx.Tx) error {
	var added *string
	err := tx.QueryRow(ctx, `SELECT min(what) FROM (
		SELECT 'operator ' || oid::regoperator::text AS what FROM pg_operator WHERE oid >= 16384::oid AND oprnamespace = 11::oid
		UNION ALL SELECT 'function ' || p.oid::regprocedure::text FROM pg_proc AS p WHERE p.oid >= 16384::oid AND p.pronamespace = 11::oid
			AND EXISTS (SELECT FROM pg_proc AS b WHERE b.oid < 16384::oid AND b.proname = p.proname)
		UNION ALL SELECT 'cast from ' || format_type(castsource, NULL) || ' to ' || format_type(casttarget, NULL)
			FROM pg_cast WHERE oid >= 16384::oid AND castsource < 16384::oid AND casttarget < 16384::oid
		UNION ALL SELECT 'operator family ' || f.opfname::text FROM pg_amop AS o JOIN pg_opfamily AS f ON f.oid = o.amopfamily
			WHERE o.oid >= 16384::oid AND f.oid < 16384::oid AND o.amoplefttype < 16384::oid AND o.amoprighttype < 16384::oid) AS changed`).
		Scan(&added)
	if err != nil {
		return err
	}
	if added != nil {
		return fmt.Errorf("%s was added to what PostgreSQL has built in: statements do not mean what they say", *added)
	}
	return nil
}

// suitablePartitions refuses partitions of checks that no node made: rows on another server, or not
// of the day by which they are found.
func suitablePartitions(ctx context.Context, tx pgx.Tx, schema string) error {
	var name, in, kind, bound string
	var leaving bool
	return stream(ctx, tx, []any{&name, &in, &kind, &bound, &leaving}, func() error {
		switch {
		case in != schema || kind != "r":
			return fmt.Errorf("partition %s of checks is no table of this schema: who verifies might not see what others see", name)
		case leaving:
			return fmt.Errorf("partition %s of checks is being taken out: begin again", name)
		case bound != partitionBound(name):
			return fmt.Errorf("partition %s of checks is not one that was made for a day: it has its rows %s", name, bound)
		}
		return nil
	}, `SELECT p.relname::text, n.nspname::text, p.relkind::text, pg_get_expr(p.relpartbound, p.oid), i.inhdetachpending
		FROM pg_inherits AS i JOIN pg_class AS p ON p.oid = i.inhrelid JOIN pg_namespace AS n ON n.oid = p.relnamespace
		WHERE i.inhparent = (SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS own ON own.oid = c.relnamespace
			WHERE c.relname = 'checks' AND own.nspname = $1)`, schema)
}

// partitionBound returns the bound of the partition with that name, in SQL; empty for any other
// name.
func partitionBound(name string) string {
	if name == "checks_default" {
		return "DEFAULT"
	}
	date, ours := strings.CutPrefix(name, "checks_")
	day, err := time.Parse("20060102", date)
	if !ours || err != nil {
		return ""
	}
	text := func(id spend.ID) string {
		h := id.Text("")
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	}
	return fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", text(audit.FirstID(day.UnixMilli())),
		text(audit.FirstID(day.AddDate(0, 0, 1).UnixMilli())))
}
