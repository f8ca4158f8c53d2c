package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/bench/must"
)

// G13, G14, G16.
func TestRestored(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "restored.db"))
	audittest.RunRestored(t, audittest.Subject{
		Store: s, Exec: execOn(s), Count: countOn(s),
		DelayExpiries: delayExpiries,
	}, func(t *testing.T) audit.Restored {
		r := must.Get(s.BeginRestored(t.Context()))(t)
		return r
	})
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.BeginRestored(stopped); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "damaged") {
		t.Errorf("stopped while it looks at the file: %v", err)
	}
}
