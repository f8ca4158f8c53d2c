package postgres

import (
	"testing"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/bench/fleet"
)

// TestRestored is of a database of its own: nodes are sessions of the same one, but for those of
// the test.
func TestRestored(t *testing.T) {
	url := fleet.OwnTestDatabase(t)
	s := open(t, url+"&application_name=test", true)
	audittest.RunRestored(t, audittest.Subject{
		Store: s,
		Exec: func(t *testing.T, sql string) error {
			_, err := s.reads.Exec(t.Context(), sql)
			return err
		},
		Count: func(t *testing.T, sql string) (n int) {
			if err := s.reads.QueryRow(t.Context(), sql).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
		DelayExpiries: "ALTER TABLE approvals DISABLE TRIGGER immutable; UPDATE approvals SET expires_at = expires_at + interval '1 hour'",
	}, func(t *testing.T) audit.Restored {
		r, err := BeginRestored(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}
