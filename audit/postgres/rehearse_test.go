package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// TestRehearse: a rehearsal records nothing, leaves its connection fit for commits, and
// fails for what commits fail for.
func TestRehearse(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	db := connect(t, url)
	for range 3 {
		must.Do(t, s.Rehearse(t.Context()))
	}
	if rows := texts(t, db, "SELECT 1::text FROM checks UNION ALL SELECT '2' FROM batches UNION ALL SELECT '3' FROM idempotency_keys "+
		"UNION ALL SELECT '4' FROM violations"); len(rows) > 0 {
		t.Errorf("it left %q", rows)
	}
	commit := func() {
		t.Helper()
		c := minimal(newFence(t, s))
		must.Do(t, s.Commit(t.Context(), []*spend.Check{c}, nil, audittest.Link(1, c)))
	}
	commit()
	must.Check(t, s.Rehearse(t.Context()))
	commit()

	exec := func(statement string) {
		t.Helper()
		must.Get(db.Exec(t.Context(), statement))(t)
	}
	exec("UPDATE epoch SET stops = 7") // something was stopped once
	must.Check(t, s.Rehearse(t.Context()))
	exec("UPDATE epoch SET stops = 0")
	exec("CREATE TRIGGER broken BEFORE INSERT ON batches EXECUTE FUNCTION refuse_change()")
	if err := s.Rehearse(t.Context()); err == nil || !strings.Contains(err.Error(), "immutable") {
		t.Errorf("what the database refuses: %v", err)
	}
	exec("DROP TRIGGER broken ON batches")
	exec("ALTER FUNCTION record_extra RENAME TO elsewhere")
	if err := s.Rehearse(t.Context()); err == nil || !strings.Contains(err.Error(), "record_extra") {
		t.Errorf("what only some commits call: %v", err)
	}
	exec("ALTER FUNCTION elsewhere RENAME TO record_extra")
	exec("BEGIN; LOCK TABLE checks")
	bounded, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Rehearse(bounded); err == nil {
		t.Error("it did not wait for a lock")
	}
	exec("ROLLBACK")
	if err := s.Rehearse(t.Context()); err != nil {
		t.Errorf("once that is gone: %v", err)
	}
	commit()
}
