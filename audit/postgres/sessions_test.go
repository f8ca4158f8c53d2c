package postgres

import (
	"errors"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// TestSessionWaitsForALogout: a logout whose transaction is not over yet ends the session
// that is stored meanwhile: neither would see the other otherwise.
func TestSessionWaitsForALogout(t *testing.T) {
	t.Parallel()
	feed := &feeding{counting: newCounting(t)}
	logout := feed.begun(t)
	must.Do(t, takeTurn(t.Context(), logout, "sessions"))
	must.Get(logout.Exec(t.Context(), `INSERT INTO session_logouts (token, request, issuer, subject, provider_sid, at)
		VALUES ('\x01', gen_random_uuid(), 'https://id.example', 'ana', '', now_ms() + 60000)`))(t)
	done := make(chan error, 1)
	go func() {
		done <- feed.CreateSession(t.Context(), &audit.Session{
			ID: spend.NewID(time.Now()), TokenHash: spend.HashKey("t"), Subject: audit.Subject{Issuer: "https://id.example", Subject: "ana"},
			Grants: spend.Grants{Principal: "id:ana"}, Begun: time.Now(), For: time.Hour, Idle: time.Hour,
		})
	}()
	for !feed.waiting(t) {
		select {
		case err := <-done:
			t.Fatalf("stored while somebody is logged out: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	must.Do(t, logout.Commit(t.Context()))
	if err := <-done; !errors.Is(err, audit.ErrSignedOut) {
		t.Errorf("stored after the logout: %v", err)
	}
}
