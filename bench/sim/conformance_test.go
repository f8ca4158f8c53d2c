package sim

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/audittest"
	"spendgate/audit/spend"
)

// TestConformance tests the store of the simulations against the contract of all
// stores, as far as nodes that answer checks rely on it.
func TestConformance(t *testing.T) {
	const expire, delay = "expire all keys", "delay all expiries"
	audittest.RunChecks(t, func(*testing.T) audittest.Subject {
		m := newMemory()
		return audittest.Subject{
			Store: m, ExpireKeys: expire, DelayExpiries: delay,
			Exec: func(_ *testing.T, statement string) error {
				if statement != expire && statement != delay {
					return errors.New("what is recorded is immutable: there is no other way in")
				}
				m.mu.Lock()
				defer m.mu.Unlock()
				for _, a := range m.approvals {
					if statement == delay {
						a.ExpiresAt = a.ExpiresAt.Add(time.Hour)
					}
				}
				for h, row := range m.byKey {
					row.expires = time.Now().Add(-time.Second)
					m.byKey[h] = row
				}
				return nil
			},
			Count: func(_ *testing.T, query string) int {
				m.mu.Lock()
				defer m.mu.Unlock()
				switch {
				case strings.HasSuffix(query, "FROM violations"):
					return len(slices.DeleteFunc(slices.Clone(m.checks), func(c *spend.Check) bool { return !c.Violation() }))
				case strings.HasSuffix(query, "FROM checks"):
					return len(m.checks)
				case strings.HasSuffix(query, "FROM redemptions_open"):
					return m.redemptions(func(c spend.Course) bool { return c.Reports == nil })
				case strings.HasSuffix(query, "FROM redemption_keys"):
					return m.redemptions(func(c spend.Course) bool { return !c.Redeemed.Once.IsZero() })
				case strings.HasSuffix(query, "FROM batches"):
					return m.batches(strings.Contains(query, "max(seq)"))
				}
				return len(m.byKey)
			},
		}
	})
}
