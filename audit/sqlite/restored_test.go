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
		Store: s, Exec: execOn(s), Count: countOn(s),
		DelayExpiries: delayExpiries,
	}, func(t *testing.T) audit.Restored {
		r, err := s.BeginRestored(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}
