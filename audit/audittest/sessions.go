package audittest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

func newSession(token, principal string) *audit.Session {
	time.Sleep(time.Microsecond) // as newKey
	return &audit.Session{
		ID: spend.NewID(now()), TokenHash: spend.HashKey(token),
		Subject: audit.Subject{Issuer: "https://id.example", Subject: principal, Session: "at " + token},
		Name:    "Ana", Email: "ana@example.com", Grants: spend.Grants{
			Role: spend.Approver, Principal: principal, PolicyIDs: []string{"p"}, Groups: []string{"finance"},
		},
		Begun: now(), For: time.Hour, Idle: time.Minute,
	}
}

// inForce returns the tokens of the sessions in force.
func inForce(t *testing.T, s Subject, tokens ...string) (in string) {
	t.Helper()
	for _, token := range tokens {
		_, err := s.UseSession(t.Context(), spend.HashKey(token))
		if err == nil {
			in += token
		} else if !errors.Is(err, audit.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return in
}

// sessions are in force until they are ended, too old or idle.
func sessions(t *testing.T, s Subject) {
	ctx := t.Context()
	a, b := newSession("a", "id:1"), newSession("b", "id:1")
	old, idle := newSession("o", "id:1"), newSession("i", "id:1")
	old.For, idle.Idle = 0, 0
	for _, n := range []*audit.Session{a, b, old, idle} {
		must(t, s.CreateSession(ctx, n))
	}
	got, err := s.UseSession(ctx, a.TokenHash)
	if err != nil || got.CreatedAt.IsZero() || got.ExpiresAt.Sub(got.CreatedAt) != time.Hour || got.Grants.Text() != a.Grants.Text() {
		t.Fatalf("came back %+v, %v", got, err)
	}
	if got.ID != a.ID || got.Subject != a.Subject || got.Name != "Ana" || got.Email != a.Email || got.Idle != time.Minute {
		t.Errorf("came back %+v", got)
	}
	if in := inForce(t, s, "a", "b", "o", "i", "none"); in != "ab" {
		t.Errorf("in force are %q, want ab", in)
	}
	page, more, err := s.ListSessions(ctx, spend.ID{}, 1)
	if err != nil || !more || len(page) != 1 || page[0].ID != b.ID {
		t.Errorf("listed %+v, %t, %v", page, more, err)
	}
	must(t, s.EndSession(ctx, a.ID))
	if err := s.EndSession(ctx, a.ID); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("ended again: %v", err)
	}
	if in := inForce(t, s, "a", "b"); in != "b" {
		t.Errorf("in force are %q, want b", in)
	}
	// The new token works, once, and the previous one no longer does.
	must(t, s.RenewSession(ctx, b.TokenHash, spend.HashKey("c")))
	if err := s.RenewSession(ctx, b.TokenHash, spend.HashKey("d")); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("renewed twice: %v", err)
	}
	if err := s.RenewSession(ctx, a.TokenHash, spend.HashKey("d")); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("renewed though it was ended: %v", err)
	}
	if in := inForce(t, s, "a", "b", "c", "d"); in != "c" {
		t.Errorf("in force are %q, want c", in)
	}
	must(t, s.RenewSession(ctx, spend.HashKey("c"), b.TokenHash))
	// A use extends the session, and is noted if the last noted use is a minute old.
	must(t, s.Exec(t, "UPDATE sessions SET last_used_at = created_at - 60000, idle_ms = 3600000"))
	if before, err := s.UseSession(ctx, b.TokenHash); err != nil || !before.LastUsedAt.Before(before.CreatedAt) {
		t.Fatalf("aged: %+v, %v", before, err)
	}
	if after, err := s.UseSession(ctx, b.TokenHash); err != nil || after.LastUsedAt.Before(after.CreatedAt) {
		t.Errorf("the use is not noted: %+v, %v", after, err)
	}
	must(t, s.Tidy(ctx, now().Add(audit.KeepSessions+time.Hour)))
	if in := inForce(t, s, "b"); in != "" {
		t.Error("a session was kept for longer than it is good for")
	}
}

// sessionsEndTogether ends the sessions of a principal, and the sessions that a provider's logout
// means.
func sessionsEndTogether(t *testing.T, s Subject) {
	ctx := t.Context()
	create := func(tokens ...string) {
		t.Helper()
		for _, token := range tokens {
			n := newSession(token, "id:"+token[:1])
			if len(token) > 2 {
				n.Subject.Session = ""
			}
			must(t, s.CreateSession(ctx, n))
		}
	}
	logout := func(jti, subject, session string) (int, error) {
		return s.EndLoggedOut(ctx, audit.Logout{
			Subject: audit.Subject{Issuer: "https://id.example", Subject: subject, Session: session}, Token: spend.HashKey(jti),
			Request: spend.NewID(now()),
		})
	}
	create("a1", "a2", "b1", "c1", "c2", "c3x")
	if n, err := s.EndSessions(ctx, audit.Subject{}, "id:a"); err != nil || n != 2 {
		t.Errorf("ended %d, %v", n, err)
	}
	if n, err := logout("j1", "", "at c1"); err != nil || n != 1 {
		t.Errorf("logged out by the session: %d, %v", n, err)
	}
	if in := inForce(t, s, "a1", "a2", "b1", "c1", "c2", "c3x"); in != "b1c2c3x" {
		t.Errorf("in force are %q", in)
	}
	if _, err := logout("j1", "id:b", ""); !errors.Is(err, audit.ErrReplayed) {
		t.Errorf("a logout token was taken twice: %v", err)
	}
	// A session without a known provider session may be the one meant.
	if n, err := logout("j2", "id:c", "at none"); err != nil || n != 1 {
		t.Errorf("logged out by both: %d, %v", n, err)
	}
	if n, err := logout("j3", "id:c", ""); err != nil || n != 1 {
		t.Errorf("logged out by the subject: %d, %v", n, err)
	}
	if in := inForce(t, s, "b1", "c2", "c3x"); in != "b1" {
		t.Errorf("in force are %q", in)
	}
	// A sign-in with other rights ends the sessions with the old rights.
	other := newSession("b2", "id:b")
	other.Grants.Groups, other.Begun = nil, now().Add(time.Second)
	must(t, s.CreateSession(ctx, other))
	create("d1", "d2")
	if in := inForce(t, s, "b1", "b2", "d1", "d2"); in != "b2d1d2" {
		t.Errorf("in force are %q", in)
	}
}

// sessionsLoggedOut: a session that a logout means is not in force, whether the logout or the
// session is stored first.
func sessionsLoggedOut(t *testing.T, s Subject) {
	ctx := t.Context()
	logout := func(subject, session string) {
		t.Helper()
		_, err := s.EndLoggedOut(ctx, audit.Logout{
			Subject: audit.Subject{Issuer: "https://id.example", Subject: subject, Session: session},
			Token:   spend.HashKey(subject + "\n" + session), Request: spend.NewID(now()),
		})
		must(t, err)
	}
	logout("id:1", "")
	logout("", "at b")
	logout("id:3", "at c")
	before, later := now().Add(-time.Minute), now().Add(time.Minute)
	for _, c := range []struct {
		token, subject, sid string
		begun               time.Time
		over                bool
	}{
		{"1", "id:1", "at 1", before, true},
		{"2", "id:1", "at 1", later, false}, // who signs in again
		{"3", "id:2", "at 1", before, false},
		{"4", "id:2", "at b", later, true}, // a provider's session does not resume
		{"5", "id:3", "at c", later, true},
		{"6", "id:4", "at c", before, false},
		{"7", "id:3", "at d", before, false}, // another session of the person
		{"8", "id:3", "", before, true},      // may be the one meant
		{"9", "id:3", "", later, false},
	} {
		n := newSession(c.token, c.subject)
		n.Subject.Session, n.Begun = c.sid, c.begun
		err := s.CreateSession(ctx, n)
		if in := inForce(t, s, c.token); errors.Is(err, audit.ErrSignedOut) != c.over || (in == "") != c.over || err != nil && !c.over {
			t.Errorf("%+v: in force %q, %v", c, in, err)
		}
	}
	var racing sync.WaitGroup
	for round := range 24 {
		name := fmt.Sprint("id:race-", round)
		n := newSession(name, name)
		racing.Go(func() {
			if err := s.CreateSession(ctx, n); err != nil && !errors.Is(err, audit.ErrSignedOut) {
				t.Error(err)
			}
		})
		racing.Go(func() { logout(name, "at "+name) })
	}
	racing.Wait()
	for round := range 24 {
		if in := inForce(t, s, fmt.Sprint("id:race-", round)); in != "" {
			t.Errorf("%s outlived its logout", in)
		}
	}
}

// sessionsOverlap: a sign-in that began before a change of the person's rights creates no session
// after it, whichever message of the provider is newer.
func sessionsOverlap(t *testing.T, s Subject) {
	ctx := t.Context()
	before, later := now().Add(-time.Minute), now().Add(time.Minute)
	create := func(token, subject string, begun time.Time, groups ...string) bool {
		t.Helper()
		n := newSession(token, subject)
		n.Begun, n.Grants.Groups = begun, groups
		err := s.CreateSession(ctx, n)
		if err != nil && !errors.Is(err, audit.ErrSignedOut) {
			t.Fatal(err)
		}
		return err == nil
	}
	// Concurrent sign-ins with the same rights are two sessions; a sign-in with other rights
	// creates no session and ends these.
	if !create("a", "id:1", before, "finance") || !create("b", "id:1", before, "finance") {
		t.Error("two sign-ins at once are not two sessions")
	}
	if create("c", "id:1", before) || inForce(t, s, "a", "b", "c") != "" {
		t.Error("two sign-ins at once gave different rights, and one of them is a session")
	}
	if create("d", "id:1", before, "support") || !create("e", "id:1", later, "support") {
		t.Error("signing in again does not help, or is not needed")
	}
	// Another label is another principal, but the same person.
	moved := newSession("f", "id:1")
	moved.Grants.Principal, moved.Begun = "other:1", later
	must(t, s.CreateSession(ctx, moved))
	if in := inForce(t, s, "e", "f"); in != "f" {
		t.Errorf("in force are %q, want f", in)
	}
	// The provider no longer names a group with a role, also for a person who signed in under
	// another label.
	if n, err := s.EndSessions(ctx, moved.Subject, "id:1"); err != nil || n != 1 || inForce(t, s, "f") != "" {
		t.Errorf("ended %d under another label, %v", n, err)
	}
	// The same for a person without a session.
	_, err := s.EndSessions(ctx, audit.Subject{Issuer: "https://id.example", Subject: "id:2"}, "id:2")
	must(t, err)
	if create("g", "id:2", before) || !create("h", "id:2", later) || !create("i", "id:3", before) {
		t.Error("a sign-in began before the person had no role")
	}
	// When an admin ends a session, sign-ins in progress end with it; signing out does not do that.
	own, other := newSession("j", "id:4"), newSession("k", "id:5")
	must(t, s.CreateSession(ctx, own))
	must(t, s.CreateSession(ctx, other))
	must(t, s.EndSession(ctx, own.ID))
	must(t, s.Expel(ctx, other.ID))
	if err := s.Expel(ctx, own.ID); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("ended again: %v", err)
	}
	if in := inForce(t, s, "j", "k"); in != "" {
		t.Errorf("in force are %q", in)
	}
	if !create("l", "id:4", before, "finance") || create("m", "id:5", before, "finance") || !create("n", "id:5", later, "finance") {
		t.Error("what an admin ends goes on, or what a person ends goes no further")
	}
	// A process that hangs holds what a provider said long ago.
	if create("o", "id:6", now().Add(-audit.SignInWithin-time.Second)) || !create("p", "id:6", now().Add(-audit.SignInWithin+time.Minute)) {
		t.Error("a sign-in of long ago is a session, or one of just now is none")
	}
}
