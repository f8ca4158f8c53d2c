package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// TestTidyWithAClockAhead: a clock that is far ahead for a while removes neither a counter that
// checks may still take from (G12) nor an idempotency key that has not expired, even if checks are
// recorded by it.
func TestTidyWithAClockAhead(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "audit.db"))
	epoch := must.Get(s.Epoch(t.Context()))(t)
	check := func(key string, at, end time.Time) *spend.Check {
		c := minimal(spend.Fence{Node: spend.NewID(time.Now()), Epoch: epoch})
		c.ID, c.Action.IdempotencyKey = spend.NewID(at), key
		c.Charges = []spend.Charge{{
			Counter: spend.Counter{ID: spend.CounterID("refunds", "daily", 1, "[]"), StartMS: end.UnixMilli()}, RuleID: "daily", Since: 1,
			Subject: "[]", Counted: true, MaxCount: 1, EndMS: end.UnixMilli(),
		}}
		return c
	}
	record := func(key string, at, end time.Time) {
		t.Helper()
		must.Do(t, audittest.Record(t.Context(), s, check(key, at, end)))
	}
	tidy := func(at time.Time) {
		t.Helper()
		must.Do(t, s.Tidy(t.Context(), at))
	}
	now := time.Now()
	end, ahead := now.Add(time.Hour), now.AddDate(1, 0, 0)
	tidy(ahead) // of what has no check yet
	ended := now.Add(-audit.KeepCounters - time.Hour)
	record("", ended, ended)
	record("k", now, end)
	tidy(ahead)
	for hours := range 24 {
		at := ahead.Add(time.Duration(hours) * time.Hour)
		record("", at, at)
		tidy(at)
	}
	tidy(now)
	if _, exceeded := errors.AsType[*audit.ExceededError](audittest.Record(t.Context(), s, check("", now, end))); !exceeded {
		t.Error("a second check passed where the limit is one")
	}
	if found, err := s.CheckIDsByKey(t.Context(), []spend.Hash{spend.HashKey("k")}); err != nil || len(found) != 1 {
		t.Errorf("the key of the first: %v, %v", found, err)
	}
	if err := audittest.Record(t.Context(), s, check("", now, ended)); err != nil {
		t.Errorf("the counter of a window that ended long ago is still there: %v", err)
	}
}
