package postgres

import (
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// A key that is recorded as expiring while its use is noted takes one number of the configuration: without a change of
// each number, verifiers report one as removed.
func TestExpiringBesideUse(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	k := &audit.Key{ID: spend.NewID(time.Now()), Hash: spend.HashKey("k"), Name: "k", RateLimitRPM: 1, Active: true, CreatedAt: time.Now()}
	k.Grants.ExpiresAt = time.Now().Add(time.Hour).Truncate(time.Millisecond)
	must.Do(t, s.CreateKey(t.Context(), audit.Actor{}, k))
	noting := connect(t, url)
	must.Get(noting.Exec(t.Context(), "BEGIN; UPDATE keys SET last_used = now()"))(t)
	done := make(chan error, 1)
	go func() { done <- s.RecordExpiring(t.Context(), k) }()
	waitFor(t, url, "the key's row to be waited for",
		"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%record_expiring%')")
	must.Get(noting.Exec(t.Context(), "COMMIT"))(t)
	must.Do(t, <-done)
	if n := count(t, s, "config, changes WHERE kind = 'key.expiring' AND generation = 2 AND seq = 2"); n != 1 {
		t.Errorf("the change has not the next number: %d", n)
	}
}
