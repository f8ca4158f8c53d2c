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
		Store: s, Exec: execOn(s), Count: countOn(s),
		DelayExpiries: delayExpiries,
	}, func(t *testing.T) audit.Restored {
		r, err := BeginRestored(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}
