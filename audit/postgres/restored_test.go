package postgres

import (
	"testing"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// TestRestored has a database of its own, since every other session of the database counts as a
// node (G13, G14, G16).
func TestRestored(t *testing.T) {
	url := fleet.OwnTestDatabase(t)
	s := open(t, url+"&application_name=test", true)
	audittest.RunRestored(t, audittest.Subject{
		Store: s, Exec: execOn(s), Count: countOn(s),
		DelayExpiries: delayExpiries,
	}, func(t *testing.T) audit.Restored {
		r := must.Get(BeginRestored(t.Context(), url))(t)
		return r
	})
}
