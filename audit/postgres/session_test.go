package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/bench/must"
)

// TestOutcome plays the answers that a server may give to a commit before the connection ends. A
// commit counts as recorded only if the server confirmed it completely, and as certain only if it
// is (F46).
func TestOutcome(t *testing.T) {
	parsed, bound := &pgproto3.ParseComplete{}, &pgproto3.BindComplete{}
	called := &pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}
	begun := &pgproto3.CommandComplete{CommandTag: []byte("BEGIN")}
	undone := &pgproto3.CommandComplete{CommandTag: []byte("ROLLBACK")}
	ready, failed := &pgproto3.ReadyForQuery{TxStatus: 'I'}, &pgproto3.ReadyForQuery{TxStatus: 'E'}
	refused := &pgproto3.ErrorResponse{Severity: "ERROR", Code: codeFencedNode, Routine: "exec_stmt_raise"}
	ended := &pgproto3.ErrorResponse{Severity: "FATAL", Code: codeAdminShutdown, Routine: "ProcessInterrupts"}
	pooler := &pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "server conn crashed?"} // knows no routine
	warned := &pgproto3.NoticeResponse{Severity: "WARNING", SeverityUnlocalized: "WARNING", Message: "standby not waited for"}
	for _, test := range []struct {
		name  string
		says  []pgproto3.BackendMessage
		want  error // nil: recorded
		steps int   // 1 unless given
	}{
		{name: "confirmed", says: []pgproto3.BackendMessage{parsed, bound, called, ready}},
		{name: "confirmed with a warning", says: []pgproto3.BackendMessage{bound, called, warned, ready}, want: audit.ErrUnknown},
		{name: "refused", says: []pgproto3.BackendMessage{bound, refused, ready}, want: audit.ErrFencedNode},
		{name: "refused in the end", says: []pgproto3.BackendMessage{bound, called, refused, ready}, want: audit.ErrFencedNode},
		{name: "rolled back", says: []pgproto3.BackendMessage{begun, called, undone, ready}, want: audit.ErrUnavailable, steps: 2},
		{name: "nothing said", want: audit.ErrUnknown},
		{name: "not yet called", says: []pgproto3.BackendMessage{parsed, bound}, want: audit.ErrUnknown},
		{name: "called, not ready", says: []pgproto3.BackendMessage{bound, called}, want: audit.ErrUnknown},
		{name: "ended before the call", says: []pgproto3.BackendMessage{bound, ended}, want: audit.ErrUnavailable},
		{name: "ended after the call", says: []pgproto3.BackendMessage{bound, called, ended}, want: audit.ErrUnknown},
		{name: "a pooler lost the server", says: []pgproto3.BackendMessage{pooler}, want: audit.ErrUnknown},
		{name: "a pooler lost the server, and goes on", says: []pgproto3.BackendMessage{bound, pooler, ready}, want: audit.ErrUnknown},
		{name: "ended between two steps", says: []pgproto3.BackendMessage{begun, ended}, want: audit.ErrUnavailable, steps: 2},
		{name: "called, and in a transaction", says: []pgproto3.BackendMessage{called, failed}, want: audit.ErrUnavailable},
		{name: "left in a transaction", says: []pgproto3.BackendMessage{begun, refused, failed}, want: audit.ErrFencedNode, steps: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			client, server := net.Pipe()
			s := &session{conn: client, frontend: pgproto3.NewFrontend(client, client), buf: []byte("commit")}
			go play(server, len(s.buf), test.says)
			_, err := s.exchange(context.Background(), max(test.steps, 1))
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if certain := !errors.Is(test.want, audit.ErrUnknown); certain && errors.Is(err, audit.ErrUnknown) {
				t.Errorf("got %v, which is certain", err)
			}
		})
	}
}

// play reads a message of so many bytes, answers, and closes the connection.
func play(conn net.Conn, length int, says []pgproto3.BackendMessage) {
	defer func() { _ = conn.Close() }()
	_, err := io.ReadFull(conn, make([]byte, length))
	var answer []byte
	for _, message := range says {
		if err == nil {
			answer, err = message.Encode(answer)
		}
	}
	if err == nil {
		_, _ = conn.Write(answer) // a client that has gone shows in the outcome
	}
}

// TestConnectedSessionServes: while the server takes no more connections, commits use the one that
// exists instead of trying each in turn.
func TestConnectedSessionServes(t *testing.T) {
	s := open(t, migrated(t), true)
	f := newFence(t, s)
	must.Do(t, audittest.Record(t.Context(), s, minimal(f)))
	full := s.writers.config.Copy()
	full.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("too many connections")
	}
	s.writers.config = full
	for range 2 * cap(s.writers.idle) {
		must.Check(t, audittest.Record(t.Context(), s, minimal(f)))
	}
}
