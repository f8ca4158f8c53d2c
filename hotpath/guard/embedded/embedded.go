// Package embedded runs a Redis inside this process, for the single node and
// for tests. This Redis and its windows end with the process; the guard then
// reads windows from the store, as after any loss of Redis. It has no address:
// nobody outside the process can send it a command.
package embedded

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// tick is how exactly lives end: the server's clock stands still in between.
const tick = 250 * time.Millisecond

// Redis is a running in-process server.
type Redis struct {
	server *miniredis.Miniredis
	wall   func() time.Time
	stop   chan struct{}
	done   sync.WaitGroup

	connecting sync.Mutex
	closed     bool // no connection is made any more

	mu    sync.Mutex
	now   time.Time
	ahead time.Duration // of the wall clock, by Advance
}

// Start runs a server that is reached by Options alone.
func Start() (*Redis, error) { return start(time.Now) }

func start(wall func() time.Time) (*Redis, error) {
	r := &Redis{server: miniredis.NewMiniRedis(), wall: wall, stop: make(chan struct{}), now: wall()}
	first, err := r.server.Dial() // starts it without a listener
	if err != nil {
		return nil, fmt.Errorf("cannot start the embedded redis: %w", err)
	}
	_ = first.Close() // Dial connects as well; see dial
	r.server.SetTime(r.now)
	// Commands after a read of the time must not use the time from before a sleep.
	r.server.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if command == "TIME" {
			r.follow(2 * tick)
		}
		return false
	})
	r.done.Go(r.run)
	return r, nil
}

// Options connect to the server, and have no client look its address up in the DNS.
func (r *Redis) Options() redis.UniversalOptions {
	return redis.UniversalOptions{
		Addrs: []string{"embedded"}, Dialer: r.dial,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// dial returns one end of a connection in memory and serves the other. A pool may
// still dial when its client is closed already.
func (r *Redis) dial(context.Context, string, string) (net.Conn, error) {
	r.connecting.Lock()
	defer r.connecting.Unlock()
	if r.closed {
		return nil, net.ErrClosed
	}
	ours, theirs := net.Pipe()
	r.server.Server().ServeConn(newReadAhead(theirs))
	return ours, nil
}

// Advance moves the server's clock and ends the lives that are over.
func (r *Redis) Advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead += d
	r.reachLocked(r.now.Add(d))
}

// follow moves the clock to the wall clock's time if that is ahead by this much, and never back:
// recorded times must be as old after a restart, which begins with the wall clock's time, whether the
// machine slept or its clock was set (F47).
func (r *Redis) follow(ahead time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wall := r.wall().Round(0) // without the monotonic reading, which sleeps with the machine
	if to := wall.Add(r.ahead); to.Sub(r.now) > ahead {
		r.reachLocked(to)
	}
}

// reachLocked moves the server's clock on.
func (r *Redis) reachLocked(to time.Time) {
	r.server.FastForward(to.Sub(r.now))
	r.now = to
	r.server.SetTime(to)
}

// Close stops the server.
func (r *Redis) Close() {
	close(r.stop)
	r.done.Wait()
	r.connecting.Lock()
	r.closed = true
	r.connecting.Unlock()
	r.server.Close()
}

func (r *Redis) run() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-ticker.C:
			r.follow(0)
		}
	}
}
