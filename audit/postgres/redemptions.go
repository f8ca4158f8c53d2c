package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
)

// Untouched implements audit.Redemptions.
func (s *Store) Untouched(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	known, ids := s.remembered.take(ids)
	if len(ids) == 0 {
		return known, nil
	}
	read, err := s.readUntouched(ctx, ids)
	return append(known, read...), err
}

func (s *Store) readUntouched(ctx context.Context, ids []spend.ID) ([]*spend.Check, error) {
	if day, one := dayOf(ids, time.Now()); one {
		var p parameters
		array(&p, pgtype.UUIDOID, ids, nil, func(b []byte, id spend.ID) []byte { return append(b, id[:]...) })
		if checks, done, err := lookUp(ctx, s, lookingUp, s.queryOf(day), &p, checkOf); done {
			return checks, err
		}
	}
	return collect(ctx, s, lookingUp, scanCheck, untouchedQuery(), pgx.QueryResultFormats{pgx.BinaryFormatCode}, pg.UUIDs(ids))
}

const (
	// lookupPatience leaves most of a request's time to the other connections.
	lookupPatience = 250 * time.Millisecond
	// lookupPause is how long only the other connections are used after that.
	lookupPause = 5 * time.Second
)

const lookingUp = "cannot look up checks"

// lookUp asks over the connection whose plans are kept. It sends and reads the same messages as pgx, with less work for
// each row. With done false the other connections are to be asked.
func lookUp[T any](
	ctx context.Context, s *Store, doing, query string, p *parameters, scan func(values [][]byte) (T, error),
) (all []T, done bool, err error) {
	if s.lookups == nil || time.Now().UnixNano() < s.lookupsFrom.Load() {
		return nil, false, nil
	}
	const length = 4 // which pgconn adds
	values, binary := [][]byte{p.buf[length:]}, []int16{pgx.BinaryFormatCode}
	attempt, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	err = s.readFrom(attempt, s.lookups, &s.lookupsReset, doing, func(ctx context.Context, db *pgx.Conn) error {
		statement, err := db.Prepare(ctx, query, query)
		if err != nil {
			return err
		}
		all = nil // this may be a second attempt
		rows := db.PgConn().ExecStatement(ctx, statement, values, binary, binary)
		for rows.NextRow() && err == nil {
			var row T
			row, err = scan(rows.Values())
			all = append(all, row)
		}
		_, ended := rows.Close()
		if _, refused := errors.AsType[*pgconn.PgError](ended); refused {
			_ = db.Deallocate(ctx, query) // nobody may rely on it: the next look-up prepares it anew
		}
		return cmp.Or(ended, err)
	})
	if err == nil || ctx.Err() != nil {
		return all, true, err
	}
	// The server may have no further connection for the node, or none soon.
	s.lookupsFrom.Store(time.Now().Add(lookupPause).UnixNano())
	return nil, false, nil
}

// newLookups returns a pool of one connection, for one look-up at a time, whose plans are
// kept: what is looked up most is of the current day, and making a plan costs more than the
// rows. What is planned while a day has few rows must not read all of them later.
func newLookups(ctx context.Context, reads *pgxpool.Config) (*pgxpool.Pool, error) {
	config := reads.Copy()
	config.MinConns, config.MinIdleConns, config.MaxConns = 0, 0, 1
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		return conn.PgConn().Exec(ctx, "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off").Close()
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a connection pool: %w", err)
	}
	return pool, nil
}

// dayOf returns the day of checks, and reports whether all are of one day and may still be
// redeemed: plans are kept for no other days.
func dayOf(ids []spend.ID, now time.Time) (day time.Time, one bool) {
	const clocks = time.Hour // by which clocks may differ
	day = ids[0].Time().UTC().Truncate(24 * time.Hour)
	for _, id := range ids {
		age := now.Sub(id.Time())
		if age < -clocks || age > spend.MaxRedeemMinutes*time.Minute+clocks || !id.Time().UTC().Truncate(24*time.Hour).Equal(day) {
			return day, false
		}
	}
	return day, true
}

// dayQuery is the text of a query on one day.
type dayQuery struct {
	day  time.Time
	text string
}

// queryOf returns untouchedOn for a day, which is mostly the day of the last look-up.
func (s *Store) queryOf(day time.Time) string {
	q := s.lookupsQuery.Load()
	if q == nil || !q.day.Equal(day) {
		q = &dayQuery{day, untouchedOn(day)}
		s.lookupsQuery.Store(q)
	}
	return q.text
}

// untouchedOn is untouchedQuery for checks of one day. The text names that day's partition, so that
// a generic plan has, locks and reads no other.
func untouchedOn(day time.Time) string {
	first, next := audit.FirstID(day.UnixMilli()), audit.FirstID(day.Add(24*time.Hour).UnixMilli())
	return untouchedQuery() + " AND c.check_id >= '" + first.Text("") + "' AND c.check_id < '" + next.Text("") + "'"
}

// untouchedQuery is planned for its own values, as prepareRead says: a plan for all would
// take locks on each day that there is, and half a second of planning with 400 of them,
// anew after each ANALYZE. In an expression, the planner looks each check up, whatever it
// thinks how many outcomes there are.
func untouchedQuery() string {
	return "SELECT " + pg.ColumnList(chain.Checks()) + ` FROM checks AS c WHERE c.check_id = ANY ($1::uuid[])
		AND CASE WHEN EXISTS (SELECT FROM outcomes AS o WHERE o.check_id = c.check_id) THEN false ELSE true END`
}
