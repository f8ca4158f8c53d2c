package e2e_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"spendgate/bench/fleet"
	"spendgate/bench/must"
)

// withoutSync returns the length of a commit's call without the last message,
// which ends the transaction: PostgreSQL holds its locks and waits for that.
func withoutSync(chunk []byte) int {
	end := []byte{'S', 0, 0, 0, 4}
	if !bytes.Contains(chunk, []byte("commit_checks")) || !bytes.HasSuffix(chunk, end) {
		return -1
	}
	return len(chunk) - len(end)
}

// dieCommitting kills a node in the middle of an action's commit and leaves its
// PostgreSQL session open.
func (s *suite) dieCommitting(t *testing.T, amount string) (mine func() (sessions int), claimed func()) {
	t.Helper()
	action := s.action(amount)
	d := s.distant(t)
	d.network.HoldWithin(withoutSync)
	go func() { _, _ = d.Client(s.key).Check(t.Context(), action) }() // the check gets no answer
	mine = func() (sessions int) {
		t.Helper()
		must.Do(t, s.Postgres.Pool.QueryRow(t.Context(), `SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE application_name = $1 AND locktype = 'advisory' AND granted`, distantName).Scan(&sessions))
		return sessions
	}
	eventually(t, patience, "a commit waits for its end, with its locks", func() bool { return mine() == 1 })
	must.Do(t, d.Kill())
	return mine, func() {
		t.Helper()
		if first := check(t, s.client(0), action); first.Result().Decision != "allow" || first.Took() > staleClaim {
			t.Errorf("the dead node's claim: %s", first)
		}
	}
}

// F16, G7: a node dies in the middle of a commit, and its session still holds the
// locks of the fence. A node that needs them, to take its claim over or to begin
// an epoch, terminates the session.
func (s *suite) locksOfDeadNode(t *testing.T) {
	mine, claimed := s.dieCommitting(t, "83")
	claimed()
	// A session that was terminated releases its locks one after the other.
	released := func() bool { return mine() == 0 }
	eventually(t, patience, "no session of the dead node holds locks", released)

	mine, _ = s.dieCommitting(t, "84")
	must.Do(t, s.Redis.Client.FlushAll(t.Context()).Err())
	s.answeredWithin(t, resumeIn, s.client(1), s.action("85"))
	eventually(t, patience, "no session of the dead node holds locks in a new epoch", released)
}

// F126, G14: a node is killed between the commit of a redemption and its answer. The retry
// with the same Idempotency-Key is answered with it, and nobody else is.
func (s *suite) redemptionOfDeadNode(t *testing.T) {
	action := s.action("86")
	id := check(t, s.client(0), action).Result().CheckID
	_, raw, err := s.Nodes[0].Admin(s.AdminKey).CreateKeyOf(t.Context(), "psp", 1000, "executor")
	must.Do(t, err)
	s.issued = append(s.issued, raw)
	redeem := func(n *fleet.Node, idempotencyKey string) fleet.Answer {
		answer, _ := n.Client(raw).Do(t.Context(), http.MethodPost, "/v1/checks/"+id+"/redeem", map[string]any{
			"amount": action.Amount, "currency": action.Currency, "counterparty": action.Counterparty, "idempotency_key": idempotencyKey,
		})
		return answer
	}
	d := s.distant(t)
	d.network.Delay(20 * time.Millisecond) // so that the commit's answer is still on its way when answers are held
	d.network.HoldWithin(func(chunk []byte) int {
		if bytes.Contains(chunk, []byte("commit_checks")) {
			go d.network.HoldAnswers()
		}
		return -1
	})
	answered := make(chan fleet.Answer, 1)
	go func() { answered <- redeem(d.Node, "one") }()
	recorded := func() (n int) {
		const query = "SELECT count(*) FROM outcomes WHERE 'chk_' || replace(check_id::text, '-', '') = $1"
		must.Do(t, s.Postgres.Pool.QueryRow(t.Context(), query, id).Scan(&n))
		return n
	}
	eventually(t, patience, "the redemption is recorded, and its answer kept back", func() bool { return recorded() == 1 && d.network.Kept() })
	must.Do(t, d.Kill())
	if first := <-answered; first.Status == http.StatusOK {
		t.Errorf("answered before it died: %s", first)
	}
	if again := redeem(s.Nodes[0], "one"); again.Status != http.StatusOK || !again.Replayed() {
		t.Errorf("its retry: %s", again)
	}
	if other := redeem(s.Nodes[1], "two"); other.ErrorCode() != "check_already_redeemed" {
		t.Errorf("another: %s", other)
	}
	if n := recorded(); n != 1 {
		t.Errorf("%d redemptions are recorded", n)
	}
}
