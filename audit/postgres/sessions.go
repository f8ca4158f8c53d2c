package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const (
	sessionColumns = `s.id, s.token_hash, s.issuer, s.subject, s.provider_sid, s.name, s.email, s.grants::text, s.idle_ms,
		s.created_at, s.last_used_at, s.expires_at`
	// inForce selects sessions in force, by this server's clock.
	inForce = `s.ended_at IS NULL AND clock_timestamp() < s.expires_at
		AND clock_timestamp() < s.last_used_at + s.idle_ms * interval '1 millisecond'`
	endSessions = "UPDATE sessions AS s SET ended_at = clock_timestamp() WHERE s.ended_at IS NULL AND "
)

func scanSession(row pgx.CollectableRow) (s audit.Session, err error) {
	var idle int64
	err = row.Scan(uuid(&s.ID), bytea(&s.TokenHash), &s.Subject.Issuer, &s.Subject.Subject, &s.Subject.Session, &s.Name, &s.Email,
		parse(&s.Grants, spend.ParseGrants), &idle, utc(&s.CreatedAt), utc(&s.LastUsedAt), utc(&s.ExpiresAt))
	s.For, s.Idle = s.ExpiresAt.Sub(s.CreatedAt), time.Duration(idle)*time.Millisecond
	return s, err
}

// SignInBegins implements audit.Sessions.
func (s *Store) SignInBegins(ctx context.Context) (time.Time, error) {
	return one(ctx, s, "cannot read the time", func(row pgx.CollectableRow) (at time.Time, err error) {
		return at, row.Scan(&at)
	}, "SELECT clock_timestamp()")
}

// CreateSession implements audit.Sessions.
func (s *Store) CreateSession(ctx context.Context, n *audit.Session) error {
	over := false
	err := s.read(ctx, "cannot store a session", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
			if over, err = endOthers(ctx, tx, n); err != nil || over {
				return err
			}
			_, err = tx.Exec(ctx, `INSERT INTO sessions (id, token_hash, issuer, subject, provider_sid, principal, name, email, grants, idle_ms,
					created_at, last_used_at, expires_at)
				SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb, $10, now.at, now.at, now.at + $11 * interval '1 millisecond'
				FROM (SELECT date_trunc('milliseconds', clock_timestamp()) AS at) AS now ON CONFLICT (id) DO NOTHING`,
				[16]byte(n.ID), n.TokenHash[:], n.Subject.Issuer, n.Subject.Subject, n.Subject.Session, n.Grants.Principal, n.Name, n.Email,
				n.Grants.Text(),
				n.Idle.Milliseconds(), n.For.Milliseconds())
			return err
		})
	})
	if err == nil && over {
		return audit.ErrSignedOut
	}
	return err
}

// endOthers ends the person's sessions with other rights, and reports whether the new session is
// over before it begins.
func endOthers(ctx context.Context, tx pgx.Tx, n *audit.Session) (over bool, err error) {
	if err := takeTurn(ctx, tx); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, endSessions+"(s.principal = $1 OR s.issuer = $2 AND s.subject = $3) AND s.grants <> $4::jsonb",
		n.Grants.Principal, n.Subject.Issuer, n.Subject.Subject, n.Grants.Text())
	if err != nil {
		return false, err
	}
	err = tx.QueryRow(ctx, `SELECT clock_timestamp() > from_ms($4) + $7 * interval '1 millisecond'
		OR EXISTS (SELECT FROM session_logouts AS l WHERE l.issuer = $1 AND l.subject IN ('', $2)
			AND (l.provider_sid <> '' AND l.provider_sid = $3
				OR l.at >= from_ms($4) AND (l.provider_sid = '' OR $3 = '' AND l.subject <> '')))
		OR EXISTS (SELECT FROM sessions AS s WHERE (s.principal = $5 OR s.issuer = $1 AND s.subject = $2)
			AND s.grants <> $6::jsonb AND s.created_at >= from_ms($4))`,
		n.Subject.Issuer, n.Subject.Subject, n.Subject.Session, n.Begun.UnixMilli(), n.Grants.Principal, n.Grants.Text(),
		audit.SignInWithin.Milliseconds()).Scan(&over)
	return over, err
}

// takeTurn serializes beginning and ending sessions: any other such transaction was committed
// before this one reads, or has not begun.
func takeTurn(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock('sessions'::regclass::oid::integer, 0)")
	return err
}

// UseSession implements audit.Sessions.
func (s *Store) UseSession(ctx context.Context, token spend.Hash) (*audit.Session, error) {
	const doing = "cannot read a session"
	found, err := one(ctx, s, doing, func(row pgx.CollectableRow) (u used, err error) {
		u.Session, err = scanSession(&afterwards{row, []any{&u.due}})
		return u, err
	}, "SELECT "+sessionColumns+", s.last_used_at <= clock_timestamp() - $2 * interval '1 millisecond' FROM sessions AS s "+
		"WHERE s.token_hash = $1 AND "+inForce,
		token[:], audit.SessionNoted.Milliseconds())
	if err != nil || !found.due {
		return orNil(found.Session, err)
	}
	err = s.read(ctx, doing, func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		_, err := db.Exec(ctx, "UPDATE sessions AS s SET last_used_at = clock_timestamp() WHERE s.id = $1 AND "+inForce, [16]byte(found.ID))
		return err
	})
	return orNil(found.Session, err)
}

// used is a session, and whether its use must be noted.
type used struct {
	audit.Session
	due bool
}

// afterwards is a row with further columns at its end.
type afterwards struct {
	pgx.CollectableRow
	more []any
}

// Scan scans all columns.
func (a *afterwards) Scan(targets ...any) error {
	return a.CollectableRow.Scan(append(targets, a.more...)...)
}

// RenewSession implements audit.Sessions.
func (s *Store) RenewSession(ctx context.Context, token, next spend.Hash) error {
	renewed := int64(0)
	// A repetition finds the next token.
	err := s.read(ctx, "cannot renew a session", func(ctx context.Context, db *pgx.Conn) error {
		done, err := db.Exec(ctx, "UPDATE sessions AS s SET token_hash = $2 WHERE s.token_hash IN ($1, $2) AND "+inForce, token[:], next[:])
		renewed = done.RowsAffected()
		return err
	})
	if err == nil && renewed == 0 {
		return audit.ErrNotFound
	}
	return err
}

// ListSessions implements audit.Sessions.
func (s *Store) ListSessions(ctx context.Context, before spend.ID, limit int) (page []audit.Session, more bool, err error) {
	page, err = collect(ctx, s, "cannot list sessions", scanSession, "SELECT "+sessionColumns+" FROM sessions AS s WHERE s.id < $1 AND "+
		inForce+" ORDER BY s.id DESC LIMIT $2",
		[16]byte(cmp.Or(before, audit.MaxID())), limit+1)
	page, more = audit.Cut(page, limit)
	return page, more, err
}

// EndSession implements audit.Sessions.
func (s *Store) EndSession(ctx context.Context, id spend.ID) error {
	ended := int64(0)
	err := s.read(ctx, "cannot end a session", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		done, err := db.Exec(ctx, endSessions+inForce+" AND s.id = $1", [16]byte(id))
		ended = done.RowsAffected()
		return err
	})
	if err == nil && ended == 0 {
		return audit.ErrNotFound
	}
	return err
}

// Expel implements audit.Sessions.
func (s *Store) Expel(ctx context.Context, id spend.ID) error {
	ended, err := s.expel(ctx, "s.id = $1", [16]byte(id), audit.Subject{})
	if err == nil && ended == 0 {
		return audit.ErrNotFound
	}
	return err
}

// EndSessions implements audit.Sessions.
func (s *Store) EndSessions(ctx context.Context, of audit.Subject, principal string) (int, error) {
	return s.expel(ctx, "(s.principal = $1 OR s.issuer = $3 AND s.subject = $4)", principal, of)
}

// expel ends sessions. It notes a logout of their subjects, and of one more if given, for sign-ins
// that have already begun.
func (s *Store) expel(ctx context.Context, which string, arg any, of audit.Subject) (ended int, err error) {
	err = s.read(ctx, "cannot end sessions", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if err := takeTurn(ctx, tx); err != nil {
				return err
			}
			return tx.QueryRow(ctx, "WITH ended AS ("+endSessions+inForce+" AND "+which+` RETURNING s.issuer, s.subject), noted AS (
				INSERT INTO session_logouts (token, request, issuer, subject, provider_sid, at)
				SELECT sha256(gen_random_uuid()::text::bytea), $2, w.issuer, w.subject, '', clock_timestamp()
				FROM (SELECT * FROM ended UNION SELECT $3, $4 WHERE $4 <> '') AS w)
				SELECT count(*) FROM ended`, arg, [16]byte(spend.NewID(time.Now())), of.Issuer, of.Subject).Scan(&ended)
		})
	})
	return ended, err
}

// EndLoggedOut implements audit.Sessions.
func (s *Store) EndLoggedOut(ctx context.Context, l audit.Logout) (ended int, err error) {
	replayed := false
	err = s.read(ctx, "cannot end sessions", func(ctx context.Context, db *pgx.Conn) error { // may be repeated, like a read
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if err := takeTurn(ctx, tx); err != nil {
				return err
			}
			first, err := tx.Exec(ctx, `INSERT INTO session_logouts AS l (token, request, issuer, subject, provider_sid, at)
				VALUES ($1, $2, $3, $4, $5, clock_timestamp())
				ON CONFLICT (token) DO UPDATE SET request = l.request WHERE l.request = excluded.request`,
				l.Token[:], [16]byte(l.Request), l.Issuer, l.Subject.Subject, l.Session)
			if replayed = err == nil && first.RowsAffected() == 0; err != nil || replayed {
				return err
			}
			done, err := tx.Exec(ctx, endSessions+`s.issuer = $1 AND ($2 = '' OR s.subject = $2)
				AND ($3 = '' OR s.provider_sid = $3 OR $2 <> '' AND s.provider_sid = '')`, l.Issuer, l.Subject.Subject, l.Session)
			ended = int(done.RowsAffected())
			return err
		})
	})
	if replayed {
		return 0, audit.ErrReplayed
	}
	return ended, err
}
