package postgres

import (
	"slices"
	"testing"

	"spendgate/audit/chain"
)

// TestColumns compares the tables with the lists of columns by which rows are read, encoded and
// hashed. A column that only one of them has would be neither served nor proved.
func TestColumns(t *testing.T) {
	url := migrated(t)
	open(t, url, true)
	columns := func(relation string) []string {
		return texts(t, connect(t, url), `SELECT attname::text FROM pg_attribute
			WHERE attrelid = '`+relation+`'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`)
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
