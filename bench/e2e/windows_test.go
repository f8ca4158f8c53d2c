package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/bench/must"
)

// insertPasses copies a recorded pass n times, each with a fingerprint of its
// own: that many windows are live.
func (s *suite) insertPasses(t *testing.T, n int) {
	t.Helper()
	template := check(t, s.client(0), s.action("44")).Result().CheckID
	tag := must.Get(s.Postgres.Pool.Exec(t.Context(), `INSERT INTO checks
		SELECT (lpad(to_hex(c.claimed_ms - n / 100), 12, '0') || lpad(to_hex(n), 20, '0'))::uuid, c.node, c.epoch, c.claimed_ms, c.until_ms,
			c.policy_version, c.latency_ms, c.format, c.requested_type, c.action_type, c.decision, c.confidence, c.amount,
			sha256(n::text::bytea), c.request_sha, c.currency, 'inserted', c.policy_id, c.counterparty, c.payment_method,
			c.merchant_or_vendor, c.reason_text, NULL, c.metadata, c.reason_code, c.rule_id, c.rule_description, c.message,
			c.next_step, c.key_id, c.request_id
		FROM checks AS c, generate_series(1, $2) AS n WHERE c.check_id = $1`, strings.TrimPrefix(template, "chk_"), n))(t)
	if tag.RowsAffected() != int64(n) {
		t.Fatalf("%d passes inserted", tag.RowsAffected())
	}
}

// G7: however many windows Redis loses, service resumes within 2 s, and live
// windows block duplicates throughout. It logs, without asserting, how fast the
// windows are loaded and what a check takes until then.
func (s *suite) manyWindowsLost(t *testing.T) {
	const windows = 100_000
	s.insertPasses(t, windows)
	after := s.before(t)
	must.Do(t, s.Redis.Client.FlushAll(t.Context()).Err())
	lost := time.Now()
	resumed := s.answeredWithin(t, resumeIn, s.client(0), s.action("45")).Done.Sub(lost)
	after()
	full := func() bool { return strings.HasSuffix(s.Redis.Client.Get(t.Context(), claimSlot).Val(), "|full") }
	var whileLazy, whenFull []time.Duration
	for due := time.Now().Add(patience); !full(); {
		if time.Now().After(due) {
			t.Fatalf("the windows are not loaded after %s", patience)
		}
		whileLazy = append(whileLazy, check(t, s.client(0), s.action("46")).Took())
	}
	loaded := time.Since(lost)
	for range max(len(whileLazy), 50) {
		whenFull = append(whenFull, check(t, s.client(0), s.action("47")).Took())
	}
	after()
	if n := s.claims(t); n < windows {
		t.Errorf("%d windows of %d are in Redis", n, windows)
	}
	t.Logf("service resumed after %s; %d windows were loaded in %s, 100,000 in %s; a check took %s while lazy (median of %d), %s after",
		resumed.Round(time.Millisecond), windows, loaded.Round(time.Millisecond),
		(loaded * 100_000 / windows).Round(time.Millisecond), median(whileLazy), len(whileLazy), median(whenFull))
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2].Round(10 * time.Microsecond)
}
