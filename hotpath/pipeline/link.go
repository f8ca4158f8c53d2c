package pipeline

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"spendgate/hotpath/pipeline/resp"
)

// link is the connection of the batches. It belongs to the goroutine that sends
// them.
type link struct {
	connect func(context.Context) (*resp.Conn, error)
	check   func(context.Context, *resp.Conn) error // fails if the server is not fit any more
	conn    *resp.Conn                              // nil when not connected
	used    time.Time                               // when it last answered
	checked time.Time                               // when it was connected or last checked
	keep    time.Duration                           // for an idle connection, and between checks; 0 is for ever
	suspect atomic.Bool                             // set by others: another server is master now
}

// run sends a pipeline, on a new connection if need be. After an error the
// next one gets another connection.
func (l *link) run(ctx context.Context, p *resp.Pipeline) error {
	if suspect := l.suspect.Swap(false); l.conn != nil && (suspect || l.over(l.used) || l.conn.Stale()) {
		l.drop() // before anything is sent
	}
	if l.conn != nil && l.over(l.checked) {
		l.recheck(ctx)
	}
	if l.conn == nil {
		conn, err := l.connect(ctx)
		if err != nil {
			return fmt.Errorf("cannot connect to redis: %w", err)
		}
		l.conn, l.checked = conn, time.Now()
	}
	err := l.conn.Run(p, time.Now().Add(ioTimeout))
	if err != nil {
		l.drop()
	}
	l.used = time.Now()
	return err
}

// recheck drops the connection if its server is not fit any more: its settings may have changed.
func (l *link) recheck(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := l.check(ctx, l.conn); err != nil {
		l.drop() // connecting tells why
		return
	}
	l.checked = time.Now()
}

// over reports whether a time is so long ago that the server may have been a replica since, or have
// other settings.
func (l *link) over(since time.Time) bool { return l.keep > 0 && time.Since(since) > l.keep }

// drop closes the connection; the next run makes another.
func (l *link) drop() {
	if l.conn == nil {
		return
	}
	l.conn.Close()
	l.conn = nil
}
