package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// losses are the connections that gave no answer. Such a one is seldom alone: those that did not
// answer either since it was asked are made anew, and not waited for in turn (G7).
type losses struct {
	count atomic.Int64
	last  atomic.Pointer[time.Time]
}

// add notes a connection that gave no answer to what it was asked at that time.
func (l *losses) add(asked time.Time) {
	for last := l.last.Load(); last == nil || last.Before(asked); last = l.last.Load() {
		if l.last.CompareAndSwap(last, &asked) {
			break
		}
	}
	l.count.Add(1)
}

// asked returns when the last of the questions that got no answer was asked.
func (l *losses) asked() time.Time {
	if last := l.last.Load(); last != nil {
		return *last
	}
	return time.Time{}
}

// cancelPatience is how long the server has to say that it cancelled a query: one that does
// not is lost. Who asked waits for so much longer (G7).
const cancelPatience = 40 * time.Millisecond

// cancelling has queries cancelled whose time is over: they would go on in the server, and
// nobody would know whether it is there. The connection is given up then, since the server may
// cancel what comes next on it.
type cancelling struct{ conn *pgconn.PgConn }

func newCancelling(conn *pgconn.PgConn) ctxwatch.Handler { return cancelling{conn} }

// HandleCancel implements ctxwatch.Handler.
func (c cancelling) HandleCancel(context.Context) {
	_ = c.conn.Conn().SetDeadline(time.Now().Add(cancelPatience)) // fails on a closed connection only
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.conn.CancelRequest(ctx) // who cannot be told goes on to the end of its query
	}()
}

// HandleUnwatchAfterCancel implements ctxwatch.Handler.
func (c cancelling) HandleUnwatchAfterCancel() { _ = c.conn.Conn().SetDeadline(time.Time{}) } // as above
