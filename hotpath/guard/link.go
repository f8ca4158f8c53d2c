package guard

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"spendgate/hotpath/idle"
	"spendgate/hotpath/resp"
)

// link is the one connection that claims travel on. go-redis makes it, with
// all that belongs to that (TLS, credentials, database), and looks at the
// server; from then on pipelines are spoken on it directly. It belongs to the
// batcher's goroutine.
type link struct {
	connect func(context.Context) (net.Conn, io.Closer, error)
	conn    *resp.Conn // nil when not connected
	socket  net.Conn
	maker   io.Closer
	used    time.Time     // when it last answered
	keep    time.Duration // an idle connection; 0 is for ever
	suspect atomic.Bool   // set by others: another server is master now
}

// run sends a pipeline, on a new connection if need be. After an error the
// next one gets another connection.
func (l *link) run(ctx context.Context, p *resp.Pipeline) error {
	if suspect := l.suspect.Swap(false); l.conn != nil && (suspect || l.old() || idle.Stale(l.socket)) {
		l.drop() // before anything is sent
	}
	if l.conn == nil {
		socket, maker, err := l.connect(ctx)
		if err != nil {
			return fmt.Errorf("cannot connect to redis: %w", err)
		}
		l.conn, l.socket, l.maker = resp.NewConn(socket), socket, maker
	}
	err := l.conn.Run(p, time.Now().Add(ioTimeout))
	if err != nil {
		l.drop()
	}
	l.used = time.Now()
	return err
}

// old reports whether the connection was idle for so long that its server may
// have been a replica meanwhile.
func (l *link) old() bool { return l.keep > 0 && time.Since(l.used) > l.keep }

// drop closes the connection; the next run makes another.
func (l *link) drop() {
	if l.conn == nil {
		return
	}
	_ = idle.Plain(l.socket).Close() // at once, with no farewell
	_ = l.maker.Close()              // nothing depends on it any more
	l.conn, l.socket, l.maker = nil, nil, nil
}

// taken gives the connection that a client has just made, looked at by its
// OnConnect.
func taken(ctx context.Context, o redis.Options) (net.Conn, io.Closer, error) {
	var made net.Conn
	dial := o.Dialer
	if dial == nil {
		dial = redis.NewDialer(&o)
	}
	o.Dialer = func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		if conn, err = dial(ctx, network, addr); err == nil {
			made = conn
		}
		return conn, err
	}
	client := redis.NewClient(&o)
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return made, client, nil
}
