package sqlite

import (
	"path/filepath"
	"testing"

	"spendgate/audit"
	"spendgate/audit/audittest"
)

func TestRestored(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "restored.db"))
	audittest.RunRestored(t, audittest.Subject{
		Store: s,
		Exec: func(t *testing.T, sql string) error {
			_, err := s.writer.ExecContext(t.Context(), sql)
			return err
		},
		Count: func(t *testing.T, sql string) (n int) {
			if err := s.reader.QueryRowContext(t.Context(), sql).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
		DelayExpiries: "DROP TRIGGER approvals_update; UPDATE approvals SET expires_at = expires_at + 3600 * 1000",
	}, func(t *testing.T) audit.Restored {
		r, err := s.BeginRestored(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}
