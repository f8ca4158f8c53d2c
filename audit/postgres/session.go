package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"spendgate/audit"
	"spendgate/audit/idle"
)

// sessions is a fixed number of connections, made when they are needed. They send a whole
// transaction at once, which pgx does not do.
type sessions struct {
	config *pgconn.Config
	hosts  *hosts
	idle   chan *session // sessions without a connection are kept, too, for their buffers
	losses *losses       // the store's
}

func newSessions(config *pgconn.Config, hosts *hosts, n int, losses *losses) *sessions {
	p := &sessions{config: config, hosts: hosts, idle: make(chan *session, n), losses: losses}
	for range n {
		p.idle <- new(session)
	}
	return p
}

// take waits for a session and connects it. If it fails, nothing has been sent.
func (p *sessions) take(ctx context.Context) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", audit.ErrUnavailable, err)
	}
	began := time.Now()
	select {
	case s := <-p.idle:
		if s = p.connected(s, p.losses.asked()); s.conn == nil {
			if err := s.connect(ctx, p.hosts.order(p.config.Copy())); err != nil {
				p.idle <- s
				return nil, fmt.Errorf("%w: %w", audit.ErrUnavailable, err)
			}
		}
		return s, nil
	case <-ctx.Done():
		p.losses.waitedInVain(began, ctx.Err())
		return nil, fmt.Errorf("all connections are in use: %w: %w", audit.ErrUnavailable, ctx.Err())
	}
}

// connected returns a connected idle session in the place of one that is not connected, if there is
// one: while the server accepts no more connections, the existing ones are used.
func (p *sessions) connected(s *session, lost time.Time) *session {
	for range cap(p.idle) {
		if s.fresh(lost) {
			break
		}
		select {
		case other := <-p.idle:
			p.idle <- s
			s = other
		default:
			return s
		}
	}
	return s
}

// fresh reports whether the session is connected, and drops a connection that was lost while idle:
// that avoids an ErrUnknown after each restart of the server. lost is when the latest unanswered
// question was asked: a connection that has not answered since then is dropped, too.
func (s *session) fresh(lost time.Time) bool {
	if s.conn != nil && (s.answered.Before(lost) || s.probe.Stale()) {
		s.drop()
	}
	return s.conn != nil
}

func (p *sessions) give(s *session) {
	if s.conn == nil {
		p.losses.add(s.asked, s.lost)
	}
	p.idle <- s
}

func (p *sessions) close() {
	for range cap(p.idle) {
		(<-p.idle).drop()
	}
}

// session is one connection, for one transaction at a time.
type session struct {
	conn     net.Conn // nil when not connected
	probe    *idle.Probe
	frontend *pgproto3.Frontend
	prepared [calls]bool // what the connection has prepared
	call     call        // of the current exchange
	parsing  []*bool     // of statements that the current exchange prepares: set once they are
	selects  bool        // the first statement of the exchange selects rows
	selected [][][]byte  // the selected rows

	unreadPrepared bool      // the statement for unread redemptions
	unreadFrom     time.Time // whose days begin here
	met            bool      // a commit was begun on this connection
	asked          time.Time // when the last question was sent
	answered       time.Time // when the server last answered
	lost           error     // of the last exchange, for which the connection may have been dropped

	buf        []byte     // the messages of the next exchange, reused
	parameters parameters // of the next commit, reused
}

// keepBuffer bounds the buffer that a session keeps after an exceptionally large batch.
const keepBuffer = 4 << 20

func (s *session) connect(ctx context.Context, config *pgconn.Config) error {
	c, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("cannot connect to the database: %w", err)
	}
	raw, err := c.Hijack()
	if err != nil {
		return fmt.Errorf("cannot take the connection over: %w", errors.Join(err, c.Close(ctx)))
	}
	s.conn, s.frontend, s.probe, s.answered, s.lost = raw.Conn, raw.Frontend, idle.NewProbe(raw.Conn), time.Now(), nil
	return nil
}

// drop closes the connection abruptly, without a cancel request, which could stop a COMMIT that
// waits for a standby, and without a farewell, which could block.
func (s *session) drop() {
	if s.conn == nil {
		return
	}
	_ = idle.Plain(s.conn).Close() // nothing depends on it any more
	s.conn, s.frontend, s.probe, s.prepared, s.unreadPrepared, s.met = nil, nil, nil, [calls]bool{}, false, false
}

// exchange sends the messages in s.buf, which are one transaction that ends with their last byte,
// waits for its end and returns the last row. steps is how many statements the server confirms
// before it commits.
//
// The outcome is certain when the server states it, when not all of the messages were sent, and
// when the server gave up before the last step had ended. Otherwise it is ErrUnknown.
func (s *session) exchange(ctx context.Context, steps int) (row textRow, err error) {
	conn := s.conn
	s.asked = time.Now()
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails on a closed connection only
	})
	defer func() {
		if !stop() {
			s.drop() // the deadline may still be about to be set
		}
		s.lost = err
		if cap(s.buf) > keepBuffer {
			s.buf = nil
		}
	}()
	if n, err := conn.Write(s.buf); err != nil {
		s.drop()
		if n < len(s.buf) {
			return row, fmt.Errorf("cannot send: %w: %w", audit.ErrUnavailable, err)
		}
		return row, fmt.Errorf("cannot send: %w: %w", audit.ErrUnknown, err)
	}
	a, err := s.receive()
	switch {
	case err == nil && a.inTransaction:
		s.rollback()
	case err != nil:
		s.drop()
	default:
		s.answered = time.Now()
	}
	switch {
	case a.committed && a.doubt == nil:
		return a.row, nil
	case a.committed:
		return row, fmt.Errorf("committed, but: %w: %w", audit.ErrUnknown, a.doubt)
	case a.refused != nil && (err == nil || a.steps < steps):
		return row, refusal(a.refused)
	case a.refused != nil:
		return row, fmt.Errorf("the server gave up: %w: %w", audit.ErrUnknown, a.refused)
	case err != nil:
		return row, fmt.Errorf("connection lost: %w: %w", audit.ErrUnknown, err)
	default:
		return row, fmt.Errorf("the server rolled back: %w", audit.ErrUnavailable)
	}
}

// answer is what the server sent in one exchange.
type answer struct {
	row           textRow         // the last
	steps         int             // statements that succeeded, including BEGIN and COMMIT
	committed     bool            // the whole transaction succeeded
	doubt         *pgconn.PgError // a warning, such as the one of a standby that was not waited for
	refused       *pgconn.PgError
	inTransaction bool // the failed transaction is still open
}

// receive reads until the server is ready again. With an error, it returns the answer received so
// far.
func (s *session) receive() (a answer, err error) {
	undone := false
	for {
		message, err := s.frontend.Receive()
		if err != nil {
			return a, err
		}
		switch m := message.(type) {
		case *pgproto3.ParseComplete:
			if len(s.parsing) > 0 {
				*s.parsing[0], s.parsing = true, s.parsing[1:]
			}
		case *pgproto3.DataRow:
			if a.row.values = cloneRow(m.Values); s.selects && a.steps == 0 {
				s.selected = append(s.selected, a.row.values)
			}
		case *pgproto3.RowDescription:
			a.row = textRow{fields: make([]pgconn.FieldDescription, len(m.Fields))}
			for i, f := range m.Fields {
				a.row.fields[i] = pgconn.FieldDescription{Name: string(f.Name), DataTypeOID: f.DataTypeOID}
			}
		case *pgproto3.CommandComplete:
			a.steps++
			undone = string(m.CommandTag) == "ROLLBACK"
		case *pgproto3.NoticeResponse:
			if m.SeverityUnlocalized == "WARNING" {
				a.doubt = pgconn.ErrorResponseToPgError((*pgproto3.ErrorResponse)(m))
			}
		case *pgproto3.ErrorResponse:
			refused := pgconn.ErrorResponseToPgError(m)
			if !byServer(refused) {
				return a, fmt.Errorf("what is between lost the server: %w", refused)
			}
			a.refused = refused
		case *pgproto3.ReadyForQuery:
			a.inTransaction = m.TxStatus != 'I'
			a.committed = !a.inTransaction && a.refused == nil && !undone
			return a, nil
		}
	}
}

// cloneRow copies a row, because the frontend reuses its buffer.
func cloneRow(values [][]byte) [][]byte {
	var length int
	for _, v := range values {
		length += len(v)
	}
	row, all := make([][]byte, len(values)), make([]byte, 0, length)
	for i, v := range values {
		if v != nil { // which is null
			all = append(all, v...)
			row[i] = all[len(all)-len(v) : len(all) : len(all)]
		}
	}
	return row
}

// rollback ends a failed transaction, whose locks are already released.
func (s *session) rollback() {
	var err error
	if s.buf, err = (&pgproto3.Query{String: "ROLLBACK"}).Encode(s.buf[:0]); err == nil {
		_, err = s.conn.Write(s.buf)
	}
	if err == nil {
		var a answer
		if a, err = s.receive(); err == nil && !a.inTransaction {
			return
		}
	}
	s.drop()
}
