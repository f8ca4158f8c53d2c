package audit

import (
	"context"
	"errors"
	"time"

	"spendgate/audit/spend"
)

const (
	// SessionFor is how long a session lasts (S78).
	SessionFor = 8 * time.Hour
	// SessionIdle is how long one lasts without a request.
	SessionIdle = 30 * time.Minute
	// SessionNoted is how late the time of the last use may be.
	SessionNoted = time.Minute
	// SignInWithin is the longest time from the begin of a sign-in until its session is stored: the
	// browser's ten minutes, and differences of clocks.
	SignInWithin = 15 * time.Minute
	// KeepSessions is how long a session is kept after it was made, and a logout token
	// remembered: longer than either is good for.
	KeepSessions = 48 * time.Hour
)

// ErrSignedOut refuses a session whose person was signed out, or got other rights, since the sign-in
// began: the provider's statements may be older than that.
var ErrSignedOut = errors.New("the person was signed out, or their rights changed, meanwhile")

// ErrReplayed refuses a logout token that came before.
var ErrReplayed = errors.New("the logout token came before")

// Session is a person who signed in (S78). Times are the store's.
type Session struct {
	ID        spend.ID
	TokenHash spend.Hash // the SHA-256 of the cookie's token, which is not kept
	Subject   Subject
	Name      string // as of the sign-in; empty if the provider named none
	Email     string
	Grants    spend.Grants // with the principal

	Begun      time.Time     // when the sign-in began, of SignInBegins; not stored
	For, Idle  time.Duration // how long the session lasts, and how long without a request
	CreatedAt  time.Time
	LastUsedAt time.Time // up to SessionNoted late
	ExpiresAt  time.Time
}

// Subject is whom an OpenID provider means.
type Subject struct {
	Issuer  string // the URL
	Subject string // sub; empty if the logout names none
	Session string // sid; empty if the provider names none
}

// Logout is a provider's statement that somebody has signed out.
type Logout struct {
	Subject
	Token   spend.Hash // the SHA-256 of the token's jti
	Request spend.ID   // that brought the token, so that a repeated write is not taken for a replay
}

// Sessions keeps the sessions of people who signed in. A session is read for each of its requests, so
// that an ended session is refused on every node.
type Sessions interface {
	// SignInBegins returns the store's time as the begin of a sign-in, so that later events are
	// compared by the same clock.
	SignInBegins(ctx context.Context) (time.Time, error)
	// CreateSession stores a new session, and ends sessions of the same principal or subject with
	// other grants, so that rights that a provider took away do not remain in older sessions. It is
	// serialized with the methods that end sessions. It fails with ErrSignedOut if an earlier logout
	// means the session by its sid, or, since the sign-in began, by its subject; if since then a
	// session with other grants was stored, or Expel or EndSessions meant the subject; and if the
	// sign-in began longer than SignInWithin ago.
	CreateSession(ctx context.Context, s *Session) error
	// UseSession returns the session in force with that hash, and notes its use; else
	// ErrNotFound.
	UseSession(ctx context.Context, token spend.Hash) (*Session, error)
	// RenewSession replaces the token of a session in force by another, once; else
	// ErrNotFound.
	RenewSession(ctx context.Context, token, next spend.Hash) error
	// ListSessions returns a page of those in force, newest first.
	ListSessions(ctx context.Context, before spend.ID, limit int) (page []Session, more bool, err error)
	// EndSession ends a session, or fails with ErrNotFound when none is in force.
	EndSession(ctx context.Context, id spend.ID) error
	// Expel is EndSession, and no sign-in of the same subject that has begun makes another.
	Expel(ctx context.Context, id spend.ID) error
	// EndSessions ends all of a principal and all of the subject, whose label may have been
	// another, and returns how many; no sign-in of the subject that has begun makes another.
	EndSessions(ctx context.Context, of Subject, principal string) (int, error)
	// EndLoggedOut ends the sessions that a logout means, and returns how many;
	// ErrReplayed when its token came before.
	EndLoggedOut(ctx context.Context, l Logout) (int, error)
}
