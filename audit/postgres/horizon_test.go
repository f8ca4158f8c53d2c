package postgres

import (
	"testing"
	"time"

	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// TestHorizonAfterAWrongClock runs the statement of the runbook: it lowers the
// horizon once no open window needs it, and not before.
func TestHorizonAfterAWrongClock(t *testing.T) {
	ctx := t.Context()
	url := migrated(t)
	s := open(t, url, true)
	now := time.Now()
	f := newFence(t, s)
	// A node whose clock is that far behind takes a claim of Redis' time.
	record := func(behind, left time.Duration) {
		t.Helper()
		c := minimal(f)
		c.ID = spend.NewID(now.Add(-behind))
		c.Fingerprint = spend.HashKey(c.ID.Text(""))
		c.Pass = spend.Pass{ClaimedMS: now.UnixMilli(), UntilMS: now.Add(left).UnixMilli()}
		must.Do(t, audittest.Record(ctx, s, c))
	}
	const day = 24 * time.Hour
	update := runbookSQL(t, "UPDATE horizon")
	reaches := func(want time.Duration) {
		t.Helper()
		statement(t, url, update)
		var ms int64
		if err := s.Reads.QueryRow(ctx, "SELECT ms FROM horizon").Scan(&ms); err != nil || ms != want.Milliseconds() {
			t.Errorf("the horizon is %v, %v; want %v", time.Duration(ms)*time.Millisecond, err, want)
		}
	}
	record(0, 5*time.Minute)
	reaches(5 * time.Minute)
	record(20*day, 0) // its window is over
	reaches(8 * day)
	record(20*day, -time.Minute)
	reaches(8 * day)

	record(30*day, time.Hour) // is still open
	reaches(30*day + time.Hour)
}
