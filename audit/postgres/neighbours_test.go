package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// inventory lists the tables and indexes of a deployment.
func inventory(t *testing.T, url string) []string {
	t.Helper()
	return texts(t, connect(t, url), `SELECT concat_ws(' ', relname, relkind, indisvalid)
		FROM pg_class AS c LEFT JOIN pg_index ON indexrelid = c.oid
		WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind IN ('r', 'p', 'i', 'I') ORDER BY relname`)
}

// TestTwoDeployments migrates and tidies one whose search_path goes on with
// another's schema: it gets what it has alone, and the other one keeps what it
// has.
func TestTwoDeployments(t *testing.T) {
	later := time.Now().AddDate(0, 0, 30)
	deploy := func(t *testing.T, url string) {
		t.Helper()
		migrateBefore(t, url, "0004")
		insert(t, connect(t, url), "busy", 10, time.Hour) // indexes are made in turn
		s := open(t, url, true)
		if err := s.Tidy(t.Context(), later); err != nil {
			t.Fatal(err)
		}
	}
	alone := database(t)
	deploy(t, alone)
	for state, prepare := range map[string]func(t *testing.T, url string){
		"from before": func(t *testing.T, url string) { migrateBefore(t, url, "0004") },
		"the same":    deploy,
		"half indexed": func(t *testing.T, url string) {
			deploy(t, url)
			statement(t, url, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'violations_kind'::regclass")
		},
	} {
		t.Run(state, func(t *testing.T) {
			other, own := database(t), database(t)
			prepare(t, other)
			before := inventory(t, other)
			deploy(t, behind(t, own, other))
			if due, err := indexesDue(t.Context(), connect(t, behind(t, own, other))); err != nil || due {
				t.Errorf("its indexes are not done: %v", err)
			}
			if want, got := inventory(t, alone), inventory(t, own); !slices.Equal(got, want) {
				t.Errorf("it has %q, want %q", got, want)
			}
			empty := behind(t, database(t), other)
			migrateBefore(t, empty, "0005") // its indexes are made in the migration's transaction, twice
			open(t, empty, true)
			if after := inventory(t, other); !slices.Equal(after, before) {
				t.Errorf("the other one has %q, had %q", after, before)
			}
		})
	}
}

// TestTrailOfAnother: a deployment that is not there yet is not verified, or
// archived, by the trail of the next on its search_path.
func TestTrailOfAnother(t *testing.T) {
	other := database(t)
	open(t, other, true)
	url := behind(t, database(t), other)
	s, err := OpenSnapshot(t.Context(), url, 1)
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "not in the first schema") {
		t.Errorf("verify: %v", err)
	}
	if err := Detach(t.Context(), DetachOptions{URL: url}); err == nil || !strings.Contains(err.Error(), "in the first schema") {
		t.Errorf("detach: %v", err)
	}
}
