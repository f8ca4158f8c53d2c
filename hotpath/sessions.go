package hotpath

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// ErrSessionEnded refuses a session that was ended, is too old or was idle, or never was.
var ErrSessionEnded = errors.New("the session has ended")

// sessionRPM is how many requests a minute a session may make: the console's and a
// person's, and not a program's.
const sessionRPM = 600

// sessionReads bounds the concurrent look-ups of sessions: anybody can send a cookie, and look-ups of
// keys must not wait for these.
const sessionReads = 32

// SessionCaller returns the caller with that session (S78). The store is asked each time,
// so that a session that was ended is over on every node.
func (a *Authorizer) SessionCaller(ctx context.Context, token []byte) (Caller, error) {
	ctx, cancel := context.WithTimeout(ctx, keyWithin)
	defer cancel()
	if err := a.sessionReads.take(ctx); err != nil {
		return Caller{}, fmt.Errorf("%w: too many sessions are looked up: %w", ErrOverloaded, err)
	}
	defer a.sessionReads.free()
	s, err := a.store.UseSession(ctx, sha256.Sum256(token))
	switch {
	case errors.Is(err, audit.ErrNotFound):
		return Caller{}, ErrSessionEnded
	case err != nil:
		return Caller{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return Caller{keyed: true, session: sessionKey(s)}, nil
}

// sessionKey returns the key record that an API key of the same person would have.
func sessionKey(s *audit.Session) *key {
	k := newKey(&audit.Key{
		ID: s.ID, Name: s.Name, RateLimitRPM: sessionRPM, Active: true, CreatedAt: s.CreatedAt, Grants: s.Grants,
	}, spend.PrefixSession)
	k.session = s
	return k
}

// HasSession reports whether the caller has a session instead of an API key.
func (c Caller) HasSession() bool { return c.session != nil }

// Session returns the session of a caller who signed in, nil for others.
func (a Access) Session() *audit.Session {
	if a.key == nil {
		return nil
	}
	return a.key.session
}

// person returns the name and the e-mail of a person who has signed in; empty for a key.
func (a Access) person() (name, email string) {
	if s := a.Session(); s != nil {
		return s.Name, s.Email
	}
	return "", ""
}

// SignInBegins returns the store's time, with which later events are compared until the sign-in ends.
func (a *Authorizer) SignInBegins(ctx context.Context) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, keyWithin)
	defer cancel()
	if err := a.sessionReads.take(ctx); err != nil {
		return at, fmt.Errorf("%w: too many sessions are looked up: %w", ErrOverloaded, err)
	}
	defer a.sessionReads.free()
	if at, err = a.store.SignInBegins(ctx); err != nil {
		return at, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return at, nil
}

// SignIn begins the session of a person whom the provider has named, and returns its token,
// which is not kept; audit.ErrSignedOut when they were signed out, or had other rights, meanwhile.
func (a *Authorizer) SignIn(ctx context.Context, by audit.Actor, s *audit.Session) (token string, err error) {
	token = rand.Text() + rand.Text()
	s.ID, s.TokenHash, s.For, s.Idle = spend.NewID(a.now()), sha256.Sum256([]byte(token)), audit.SessionFor, audit.SessionIdle
	ctx, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	switch err := a.store.CreateSession(ctx, s); {
	case errors.Is(err, audit.ErrSignedOut):
		return "", err
	case err != nil:
		return "", fmt.Errorf("%w: cannot store a session: %w", ErrUnavailable, err)
	}
	by.Principal = s.Grants.Principal
	a.log.Info("signed in", "session_id", s.ID.Text(spend.PrefixSession), "role", string(s.Grants.Role), "", &by)
	return token, nil
}

// TakeOver gives a session another token, which it returns, for whom the one before was made
// for; once: ErrSessionEnded after that.
func (a *Authorizer) TakeOver(ctx context.Context, token string) (next string, err error) {
	next = rand.Text() + rand.Text()
	ctx, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	switch err := a.store.RenewSession(ctx, sha256.Sum256([]byte(token)), sha256.Sum256([]byte(next))); {
	case errors.Is(err, audit.ErrNotFound):
		return "", ErrSessionEnded
	case err != nil:
		return "", fmt.Errorf("%w: cannot renew a session: %w", ErrUnavailable, err)
	}
	return next, nil
}

// SignOut ends the caller's session, on every node when it returns.
func (a *Authorizer) SignOut(ctx context.Context, by audit.Actor, c Caller) error {
	by.Principal = c.session.Grants.Principal
	if err := a.endSession(ctx, by, c.session.ID, a.store.EndSession); !errors.Is(err, audit.ErrNotFound) {
		return err
	}
	return nil // the session had ended meanwhile
}

// EndSession ends a session, on every node when it returns, and sign-ins of the person that have
// begun; audit.ErrNotFound without one.
func (a *Authorizer) EndSession(ctx context.Context, by audit.Actor, id spend.ID) error {
	return a.endSession(ctx, by, id, a.store.Expel)
}

func (a *Authorizer) endSession(ctx context.Context, by audit.Actor, id spend.ID, end func(context.Context, spend.ID) error) error {
	ctx, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	switch err := end(ctx, id); {
	case errors.Is(err, audit.ErrNotFound):
		return err
	case err != nil:
		return fmt.Errorf("%w: cannot end a session: %w", ErrUnavailable, err)
	}
	a.log.Info("session ended", "session_id", id.Text(spend.PrefixSession), "", &by)
	return nil
}

// EndSessions ends all sessions of a person who may no longer sign in.
func (a *Authorizer) EndSessions(ctx context.Context, by audit.Actor, of *audit.Session) error {
	ctx, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	ended, err := a.store.EndSessions(ctx, of.Subject, of.Grants.Principal)
	if err != nil {
		return fmt.Errorf("%w: cannot end sessions: %w", ErrUnavailable, err)
	}
	by.Principal = of.Grants.Principal
	a.log.Info("sessions ended: the provider names no group with a role any more", "sessions", ended, "", &by)
	return nil
}

// EndLoggedOut ends the sessions that a provider's logout means, on every node when it
// returns; audit.ErrReplayed of a token that came before.
func (a *Authorizer) EndLoggedOut(ctx context.Context, by audit.Actor, l audit.Logout) error {
	ctx, cancel := context.WithTimeout(ctx, blindFor)
	defer cancel()
	l.Request = spend.NewID(a.now())
	ended, err := a.store.EndLoggedOut(ctx, l)
	switch {
	case errors.Is(err, audit.ErrReplayed):
		return err
	case err != nil:
		return fmt.Errorf("%w: cannot end sessions: %w", ErrUnavailable, err)
	}
	a.log.Info("sessions ended: the provider says that somebody signed out", "sessions", ended, "", &by)
	return nil
}
