package sqlstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// EndSessions ends all sessions, as after a restore: one may have been ended after the backup.
const EndSessions = "UPDATE sessions SET ended_at = now_ms() WHERE ended_at IS NULL"

const (
	sessionColumns = "id, token_hash, issuer, subject, provider_sid, name, email, grants, idle_ms, created_at, last_used_at, expires_at"
	// inForce selects sessions in force, by the store's clock.
	inForce     = "ended_at IS NULL AND now_ms() < expires_at AND now_ms() < last_used_at + idle_ms"
	endSessions = EndSessions + " AND "
	// sessionsTurn serializes beginning and ending sessions.
	sessionsTurn = "sessions"
	insertLogout = `INSERT INTO session_logouts (token, request, issuer, subject, provider_sid, at) VALUES ($1, $2, $3, $4, $5, now_ms())`
)

// scanSession reads sessionColumns and the columns after them.
func scanSession(row Row, rest ...any) (s audit.Session, err error) {
	var idle int64
	err = row.Scan(append([]any{
		&s.ID, &s.TokenHash, &s.Subject.Issuer, &s.Subject.Subject, &s.Subject.Session, &s.Name, &s.Email,
		Parse(&s.Grants, spend.ParseGrants), &idle, &s.CreatedAt, &s.LastUsedAt, &s.ExpiresAt,
	}, rest...)...)
	s.For, s.Idle = s.ExpiresAt.Sub(s.CreatedAt), time.Duration(idle)*time.Millisecond
	return s, err
}

// SignInBegins implements audit.Sessions.
func (s *Store) SignInBegins(ctx context.Context) (time.Time, error) {
	return value[time.Time](ctx, s, "cannot read the time", "SELECT now_ms()")
}

// CreateSession implements audit.Sessions.
func (s *Store) CreateSession(ctx context.Context, n *audit.Session) error {
	return s.write(ctx, "cannot store a session", sessionsTurn, func(ctx context.Context, tx Tx) (refused, err error) {
		of, grants := n.Subject, n.Grants.Text()
		_, err = tx.Exec(ctx, endSessions+"(principal = $1 OR issuer = $2 AND subject = $3) AND grants <> $4", n.Grants.Principal, of.Issuer,
			of.Subject, grants)
		if err != nil {
			return nil, err
		}
		var now int64
		var over bool // before it begins
		err = tx.Query(ctx, func(row Row) error { return row.Scan(&now, &over) }, `SELECT now_ms(),
			EXISTS (SELECT 1 FROM session_logouts WHERE issuer = $1 AND subject IN ('', $2)
				AND (provider_sid <> '' AND provider_sid = $3 OR at >= $4 AND (provider_sid = '' OR $3 = '' AND subject <> '')))
			OR EXISTS (SELECT 1 FROM sessions WHERE (principal = $5 OR issuer = $1 AND subject = $2) AND grants <> $6 AND created_at >= $4)`,
			of.Issuer, of.Subject, of.Session, n.Begun.UnixMilli(), n.Grants.Principal, grants)
		if err != nil || over || now > n.Begun.Add(audit.SignInWithin).UnixMilli() {
			return audit.ErrSignedOut, err
		}
		_, err = tx.Exec(ctx, `INSERT INTO sessions (id, token_hash, issuer, subject, provider_sid, principal, name, email, grants, idle_ms,
				created_at, last_used_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12) ON CONFLICT (id) DO NOTHING`,
			n.ID, n.TokenHash, of.Issuer, of.Subject, of.Session, n.Grants.Principal, n.Name, n.Email, grants, n.Idle.Milliseconds(),
			now, now+n.For.Milliseconds())
		if err == nil && n.Grants.Permitted().Has(spend.ChecksWrite) {
			_, err = tx.Exec(ctx, "INSERT INTO session_askers (principal, owner, since) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
				n.Grants.Principal, n.Grants.Owner, now)
		}
		return nil, err
	})
}

// UseSession implements audit.Sessions.
func (s *Store) UseSession(ctx context.Context, token spend.Hash) (*audit.Session, error) {
	const doing = "cannot read a session"
	var due bool // its use must be noted
	found, err := find(ctx, s, doing, func(row Row) (audit.Session, error) { return scanSession(row, &due) },
		"SELECT "+sessionColumns+", last_used_at <= now_ms() - $2 FROM sessions WHERE token_hash = $1 AND "+inForce,
		token, audit.SessionNoted.Milliseconds())
	if err != nil || !due {
		return found, err
	}
	if _, err = s.db.Exec(ctx, doing, "UPDATE sessions SET last_used_at = now_ms() WHERE id = $1 AND "+inForce, found.ID); err != nil {
		return nil, err
	}
	return found, nil
}

// RenewSession implements audit.Sessions. A repetition finds the next token.
func (s *Store) RenewSession(ctx context.Context, token, next spend.Hash) error {
	return s.change(ctx, "cannot renew a session",
		"UPDATE sessions SET token_hash = $2 WHERE token_hash IN ($1, $2) AND "+inForce, token, next)
}

// ListSessions implements audit.Sessions.
func (s *Store) ListSessions(ctx context.Context, before spend.ID, limit int) (page []audit.Session, more bool, err error) {
	page, err = list(ctx, s, "cannot list sessions", func(row Row) (audit.Session, error) { return scanSession(row) },
		"SELECT "+sessionColumns+" FROM sessions WHERE id < $1 AND "+inForce+" ORDER BY id DESC LIMIT $2",
		cmp.Or(before, audit.MaxID()), limit+1)
	page, more = audit.Cut(page, limit)
	return page, more, err
}

// EndSession implements audit.Sessions.
func (s *Store) EndSession(ctx context.Context, id spend.ID) error {
	return s.change(ctx, "cannot end a session", endSessions+inForce+" AND id = $1", id)
}

// Expel implements audit.Sessions.
func (s *Store) Expel(ctx context.Context, id spend.ID) error {
	_, err := s.expel(ctx, audit.ErrNotFound, audit.Subject{}, "id = $1", id)
	return err
}

// EndSessions implements audit.Sessions.
func (s *Store) EndSessions(ctx context.Context, of audit.Subject, principal string) (int, error) {
	return s.expel(ctx, nil, of, "(principal = $1 OR issuer = $2 AND subject = $3)", principal, of.Issuer, of.Subject)
}

// expel ends sessions, and fails with none if there are none. It notes a logout of their subjects, and of one more if given,
// for sign-ins that have already begun.
func (s *Store) expel(ctx context.Context, none error, of audit.Subject, which string, args ...any) (ended int, err error) {
	err = s.write(ctx, "cannot end sessions", sessionsTurn, func(ctx context.Context, tx Tx) (refused, err error) {
		subjects, err := collect(ctx, tx, func(row Row) (w audit.Subject, err error) {
			return w, row.Scan(&w.Issuer, &w.Subject)
		}, endSessions+inForce+" AND "+which+" RETURNING issuer, subject", args...)
		if ended = len(subjects); err != nil || ended == 0 && none != nil {
			return none, err
		}
		request, out := spend.NewID(time.Now()), make(map[audit.Subject]bool)
		for _, w := range append(subjects, audit.Subject{Issuer: of.Issuer, Subject: of.Subject}) {
			if out[w] || w.Subject == "" {
				continue
			}
			out[w] = true
			var token spend.Hash       // of no logout token
			_, _ = rand.Read(token[:]) // never fails
			if _, err := tx.Exec(ctx, insertLogout, token, request, w.Issuer, w.Subject, ""); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	return ended, err
}

// EndLoggedOut implements audit.Sessions.
func (s *Store) EndLoggedOut(ctx context.Context, l audit.Logout) (ended int, err error) {
	err = s.write(ctx, "cannot end sessions", sessionsTurn, func(ctx context.Context, tx Tx) (refused, err error) {
		first, err := tx.Exec(ctx, insertLogout+` ON CONFLICT (token) DO UPDATE SET request = excluded.request
			WHERE session_logouts.request = excluded.request`, l.Token, l.Request, l.Issuer, l.Subject.Subject, l.Session)
		if err != nil || first == 0 {
			return audit.ErrReplayed, err
		}
		done, err := tx.Exec(ctx, endSessions+`issuer = $1 AND ($2 = '' OR subject = $2)
			AND ($3 = '' OR provider_sid = $3 OR $2 <> '' AND provider_sid = '')`, l.Issuer, l.Subject.Subject, l.Session)
		ended = int(done)
		return nil, err
	})
	return ended, err
}
