package snapshot

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"spendgate/audit/chain"
	"spendgate/audit/postgres"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// TestColumns compares the tables with the lists of columns by which rows are read, encoded and
// hashed. A column that only one of them has would be neither served nor proved.
func TestColumns(t *testing.T) {
	conn := must.Get(pgx.Connect(t.Context(), fleet.TestMigrated(t, postgres.Migrate)))(t)
	defer conn.Close(context.Background()) //nolint:errcheck // of the test
	columns := func(relation string) []string {
		rows := must.Get(conn.Query(t.Context(), `SELECT attname::text FROM pg_attribute
			WHERE attrelid = '`+relation+`'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`))(t)
		return must.Get(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	}
	for relation, want := range map[string][]string{
		"checks": chain.Checks().Columns(), "check_record": chain.Checks().Columns(),
		"violations": append(chain.Violations().Columns(), unverified("violations")...), "policies": chain.Policies().Columns(),
		"drafts": chain.Drafts().Columns(), "webhooks": chain.Webhooks().Columns(),
		"changes": append(chain.Changes().Columns(), unverified("changes")...),
	} {
		if got := columns(relation); !slices.Equal(got, want) {
			t.Errorf("%s has the columns\n%q, want\n%q", relation, got, want)
		}
	}
}
