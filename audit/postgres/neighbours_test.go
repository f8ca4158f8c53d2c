package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/postgres/detach"
	"spendgate/audit/postgres/snapshot"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// inventory lists the tables and indexes of a deployment.
func inventory(t *testing.T, url string) []string {
	t.Helper()
	return texts(t, connect(t, url), `SELECT concat_ws(' ', relname, relkind, indisvalid)
		FROM pg_class AS c LEFT JOIN pg_index ON indexrelid = c.oid
		WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind IN ('r', 'p', 'i', 'I') ORDER BY relname`)
}

// TestTwoDeployments migrates and tidies a deployment whose search_path continues with another
// deployment's schema. It gets tables of its own, and the other deployment keeps its tables.
func TestTwoDeployments(t *testing.T) {
	later := time.Now().AddDate(0, 0, 30)
	deploy := func(t *testing.T, url string) {
		t.Helper()
		must.Do(t, open(t, url, true).Tidy(t.Context(), later))
	}
	other, own := fleet.TestSchema(t), fleet.TestSchema(t)
	deploy(t, other)
	before := inventory(t, other)
	deploy(t, behind(t, own, other))
	if got := inventory(t, own); !slices.Equal(got, before) {
		t.Errorf("it has %q, want %q", got, before)
	}
	if after := inventory(t, other); !slices.Equal(after, before) {
		t.Errorf("the other one has %q, had %q", after, before)
	}
}

// TestTrailOfAnother: a deployment that is not there yet is not verified, or
// archived, by the trail of the next on its search_path.
func TestTrailOfAnother(t *testing.T) {
	other := fleet.TestSchema(t)
	open(t, other, true)
	url := behind(t, fleet.TestSchema(t), other)
	s, err := snapshot.Open(t.Context(), url, 1)
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "there is no table") {
		t.Errorf("verify: %v", err)
	}
	if err := detach.Checks(t.Context(), detach.Options{URL: url}); err == nil || !strings.Contains(err.Error(), "in the first schema") {
		t.Errorf("detach: %v", err)
	}
}
