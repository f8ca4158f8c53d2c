package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const (
	sessionColumns = "id, token_hash, issuer, subject, provider_sid, name, email, grants, idle_ms, created_at, last_used_at, expires_at"
	// inForce selects sessions in force at the time ?1.
	inForce     = "ended_at IS NULL AND ?1 < expires_at AND ?1 < last_used_at + idle_ms"
	endSessions = "UPDATE sessions SET ended_at = ?1 WHERE ended_at IS NULL AND "
)

func scanSession(row scanner) (s audit.Session, err error) {
	var idle int64
	err = row.Scan(blob(s.ID[:]), blob(s.TokenHash[:]), &s.Subject.Issuer, &s.Subject.Subject, &s.Subject.Session, &s.Name, &s.Email,
		parse(&s.Grants, spend.ParseGrants), &idle, (*millis)(&s.CreatedAt), (*millis)(&s.LastUsedAt), (*millis)(&s.ExpiresAt))
	s.For, s.Idle = s.ExpiresAt.Sub(s.CreatedAt), time.Duration(idle)*time.Millisecond
	return s, err
}

// SignInBegins implements audit.Sessions.
func (s *Store) SignInBegins(context.Context) (time.Time, error) { return time.Now(), nil }

// CreateSession implements audit.Sessions.
func (s *Store) CreateSession(ctx context.Context, n *audit.Session) error {
	over := false
	err := s.write(ctx, "cannot store a session", func(tx *sql.Tx) (err error) {
		now, grants := time.Now().UnixMilli(), n.Grants.Text()
		if over, err = endOthers(tx, n, now, grants); err != nil || over {
			return err
		}
		_, err = tx.Exec(`INSERT INTO sessions (id, token_hash, issuer, subject, provider_sid, principal, name, email, grants, idle_ms,
			created_at, last_used_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, n.ID[:], n.TokenHash[:], n.Subject.Issuer, n.Subject.Subject, n.Subject.Session,
			n.Grants.Principal,
			n.Name, n.Email, grants, n.Idle.Milliseconds(), now, now, now+n.For.Milliseconds())
		return err
	})
	if err == nil && over {
		return audit.ErrSignedOut
	}
	return err
}

// endOthers ends the person's sessions with other rights, and reports whether the new session is
// over before it begins.
func endOthers(tx *sql.Tx, n *audit.Session, now int64, grants string) (over bool, err error) {
	of := n.Subject
	_, err = tx.Exec(endSessions+"(principal = ?2 OR issuer = ?3 AND subject = ?4) AND grants <> ?5", now, n.Grants.Principal, of.Issuer,
		of.Subject, grants)
	if err != nil {
		return false, err
	}
	err = tx.QueryRow(`SELECT ?7 OR EXISTS (SELECT 1 FROM session_logouts WHERE issuer = ?1 AND subject IN ('', ?2)
			AND (provider_sid <> '' AND provider_sid = ?3 OR at >= ?4 AND (provider_sid = '' OR ?3 = '' AND subject <> '')))
		OR EXISTS (SELECT 1 FROM sessions WHERE (principal = ?5 OR issuer = ?1 AND subject = ?2) AND grants <> ?6 AND created_at >= ?4)`,
		of.Issuer, of.Subject, of.Session, n.Begun.UnixMilli(), n.Grants.Principal, grants,
		now > n.Begun.Add(audit.SignInWithin).UnixMilli()).Scan(&over)
	return over, err
}

// UseSession implements audit.Sessions.
func (s *Store) UseSession(ctx context.Context, token spend.Hash) (*audit.Session, error) {
	now := time.Now().UnixMilli()
	found, err := one(ctx, s.reader, "cannot read a session", scanSession, "SELECT "+sessionColumns+
		" FROM sessions WHERE token_hash = ?2 AND "+inForce, now, token[:])
	if err != nil || found.LastUsedAt.UnixMilli() > now-audit.SessionNoted.Milliseconds() {
		return orNil(found, err)
	}
	err = s.write(ctx, "cannot note the use of a session", func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE sessions SET last_used_at = ?1 WHERE id = ?2 AND "+inForce, now, found.ID[:])
		return err
	})
	return orNil(found, err)
}

// RenewSession implements audit.Sessions.
func (s *Store) RenewSession(ctx context.Context, token, next spend.Hash) error {
	return s.write(ctx, "cannot renew a session", func(tx *sql.Tx) error {
		renewed, err := rows(tx.Exec("UPDATE sessions SET token_hash = ?3 WHERE token_hash = ?2 AND "+inForce,
			time.Now().UnixMilli(), token[:], next[:]))
		if err == nil && renewed == 0 {
			return sql.ErrNoRows
		}
		return err
	})
}

// ListSessions implements audit.Sessions.
func (s *Store) ListSessions(ctx context.Context, before spend.ID, limit int) (page []audit.Session, more bool, err error) {
	from := cmp.Or(before, audit.MaxID())
	page, err = collect(ctx, s.reader, "cannot list sessions", scanSession, "SELECT "+sessionColumns+" FROM sessions WHERE id < ?2 AND "+
		inForce+" ORDER BY id DESC LIMIT ?3",
		time.Now().UnixMilli(), from[:], limit+1)
	page, more = audit.Cut(page, limit)
	return page, more, err
}

// EndSession implements audit.Sessions.
func (s *Store) EndSession(ctx context.Context, id spend.ID) error {
	return s.write(ctx, "cannot end a session", func(tx *sql.Tx) error {
		ended, err := rows(tx.Exec(endSessions+inForce+" AND id = ?2", time.Now().UnixMilli(), id[:]))
		if err == nil && ended == 0 {
			return sql.ErrNoRows
		}
		return err
	})
}

// Expel implements audit.Sessions.
func (s *Store) Expel(ctx context.Context, id spend.ID) error {
	ended, err := s.expel(ctx, id[:], "", audit.Subject{})
	if err == nil && ended == 0 {
		return audit.ErrNotFound
	}
	return err
}

// EndSessions implements audit.Sessions.
func (s *Store) EndSessions(ctx context.Context, of audit.Subject, principal string) (int, error) {
	return s.expel(ctx, nil, principal, of)
}

// expel ends the session with an ID, or the sessions of a person. It notes a logout of their
// subjects, and of the person's if given, for sign-ins that have already begun.
func (s *Store) expel(ctx context.Context, id []byte, principal string, of audit.Subject) (ended int, err error) {
	const which = inForce + " AND (id = ?2 OR principal = ?3 OR issuer = ?4 AND subject = ?5)"
	err = s.write(ctx, "cannot end sessions", func(tx *sql.Tx) error {
		now, request := time.Now().UnixMilli(), spend.NewID(time.Now())
		_, err := tx.Exec(`INSERT INTO session_logouts (token, request, issuer, subject, provider_sid, at)
			SELECT randomblob(32), ?6, issuer, subject, '', ?1 FROM (SELECT issuer, subject FROM sessions WHERE `+which+`
			UNION SELECT ?4, ?5 WHERE ?5 <> '')`, now, id, principal, of.Issuer, of.Subject, request[:])
		if err != nil {
			return err
		}
		ended, err = rows(tx.Exec(endSessions+which, now, id, principal, of.Issuer, of.Subject))
		return err
	})
	return ended, err
}

// rows returns how many rows a statement changed.
func rows(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// EndLoggedOut implements audit.Sessions.
func (s *Store) EndLoggedOut(ctx context.Context, l audit.Logout) (ended int, err error) {
	replayed := false
	err = s.write(ctx, "cannot end sessions", func(tx *sql.Tx) error {
		first, err := rows(tx.Exec(`INSERT INTO session_logouts (token, request, issuer, subject, provider_sid, at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, l.Token[:], l.Request[:], l.Issuer, l.Subject.Subject, l.Session, time.Now().UnixMilli()))
		if replayed = err == nil && first == 0; err != nil || replayed {
			return err
		}
		ended, err = rows(tx.Exec(endSessions+
			`issuer = ?2 AND (?3 = '' OR subject = ?3) AND (?4 = '' OR provider_sid = ?4 OR ?3 <> '' AND provider_sid = '')`,
			time.Now().UnixMilli(), l.Issuer, l.Subject.Subject, l.Session))
		return err
	})
	if replayed {
		return 0, audit.ErrReplayed
	}
	return ended, err
}
