package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
)

// TestTidyWithAClockAhead: a clock that was far ahead once removes neither a counter that checks
// may still take from (G12) nor an idempotency key that has not expired.
func TestTidyWithAClockAhead(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "audit.db"))
	epoch, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check := func(key string) *spend.Check {
		c := minimal(spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch})
		c.Action.IdempotencyKey = key
		c.Charges = []spend.Charge{{
			Counter: spend.Counter{ID: spend.CounterID("refunds", "daily", 1, "[]"), StartMS: 1}, RuleID: "daily", Since: 1, Subject: "[]",
			Counted: true, MaxCount: 1, EndMS: time.Now().Add(time.Hour).UnixMilli(),
		}}
		return c
	}
	if err := s.Tidy(t.Context(), time.Now().AddDate(1, 0, 0)); err != nil { // of what has no check yet
		t.Fatal(err)
	}
	if err := audittest.Record(t.Context(), s, check("k")); err != nil {
		t.Fatal(err)
	}
	if err := s.Tidy(t.Context(), time.Now().AddDate(1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if _, exceeded := errors.AsType[*audit.ExceededError](audittest.Record(t.Context(), s, check(""))); !exceeded {
		t.Error("a second check passed where the limit is one")
	}
	if found, err := s.CheckIDsByKey(t.Context(), []spend.Hash{spend.HashKey("k")}); err != nil || len(found) != 1 {
		t.Errorf("the key of the first: %v, %v", found, err)
	}
}
