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
	// inForce is of sessions that are, at the time ?1.
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

// CreateSession implements audit.Sessions.
func (s *Store) CreateSession(ctx context.Context, n *audit.Session) error {
	return s.write(ctx, "cannot store a session", func(tx *sql.Tx) error {
		now, grants := time.Now().UnixMilli(), n.Grants.Text()
		var over bool
		err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM session_logouts WHERE issuer = ?1 AND subject IN ('', ?2)
			AND (provider_sid <> '' AND provider_sid = ?3 OR at >= ?4 AND (provider_sid = '' OR ?3 = '' AND subject <> '')))`,
			n.Subject.Issuer, n.Subject.Subject, n.Subject.Session, n.Begun.UnixMilli()).Scan(&over)
		if err != nil {
			return err
		}
		if over {
			return audit.ErrSignedOut
		}
		if _, err := tx.Exec(endSessions+"principal = ?2 AND grants <> ?3", now, n.Grants.Principal, grants); err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO sessions (id, token_hash, issuer, subject, provider_sid, principal, name, email, grants, idle_ms,
			created_at, last_used_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, n.ID[:], n.TokenHash[:], n.Subject.Issuer, n.Subject.Subject, n.Subject.Session,
			n.Grants.Principal,
			n.Name, n.Email, grants, n.Idle.Milliseconds(), now, now, now+n.For.Milliseconds())
		return err
	})
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
	ended, err := s.endSessions(ctx, inForce+" AND id = ?2", id[:])
	if err == nil && ended == 0 {
		return audit.ErrNotFound
	}
	return err
}

// EndSessions implements audit.Sessions.
func (s *Store) EndSessions(ctx context.Context, principal string) (int, error) {
	return s.endSessions(ctx, inForce+" AND principal = ?2", principal)
}

func (s *Store) endSessions(ctx context.Context, which string, arg any) (ended int, err error) {
	err = s.write(ctx, "cannot end sessions", func(tx *sql.Tx) error {
		ended, err = rows(tx.Exec(endSessions+which, time.Now().UnixMilli(), arg))
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
