package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// losses records connections that gave no answer. Rarely only one is affected: connections that
// have not answered since such a question was asked are made anew, instead of each being waited for
// (G7).
type losses struct {
	count atomic.Int64
	last  atomic.Pointer[time.Time]
}

// add notes that a connection gave no answer to what it was asked at a time.
func (l *losses) add(asked time.Time) {
	for last := l.last.Load(); last == nil || last.Before(asked); last = l.last.Load() {
		if l.last.CompareAndSwap(last, &asked) {
			break
		}
	}
	l.count.Add(1)
}

// asked returns the time of the latest question that got no answer.
func (l *losses) asked() time.Time {
	if last := l.last.Load(); last != nil {
		return *last
	}
	return time.Time{}
}

// cancelPatience is how long the server has to confirm that it cancelled a query. A connection
// without confirmation is lost. A caller waits longer by this much (G7).
const cancelPatience = 40 * time.Millisecond

// cancelling cancels queries whose time is over. Without that the server would go on with them, and
// it would stay unknown whether the server is there. The connection is then given up, since the
// server may cancel the next query on it.
type cancelling struct{ conn *pgconn.PgConn }

func newCancelling(conn *pgconn.PgConn) ctxwatch.Handler { return cancelling{conn} }

// HandleCancel implements ctxwatch.Handler.
func (c cancelling) HandleCancel(context.Context) {
	_ = c.conn.Conn().SetDeadline(time.Now().Add(cancelPatience)) // fails on a closed connection only
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.conn.CancelRequest(ctx) // a server that cannot be told runs its query to the end
	}()
}

// HandleUnwatchAfterCancel implements ctxwatch.Handler.
func (c cancelling) HandleUnwatchAfterCancel() { _ = c.conn.Conn().SetDeadline(time.Time{}) } // as above
