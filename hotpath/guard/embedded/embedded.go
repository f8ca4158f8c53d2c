// Package embedded runs a Redis inside this process, for the single node and
// for tests. It dies with the process and its windows with it; the guard then
// serves them from the store, as after any loss of Redis.
package embedded

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// tick is how exactly lives end: the server's clock stands still in between.
const tick = 250 * time.Millisecond

// Redis is a running in-process server.
type Redis struct {
	server *miniredis.Miniredis
	stop   chan struct{}
	done   sync.WaitGroup

	mu  sync.Mutex
	now time.Time
}

// Start runs a server on a free loopback port.
func Start() (*Redis, error) {
	r := &Redis{server: miniredis.NewMiniRedis(), stop: make(chan struct{}), now: time.Now()}
	if err := r.server.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the embedded redis: %w", err)
	}
	r.server.SetTime(r.now)
	r.done.Go(r.run)
	return r, nil
}

// Options connect to the server.
func (r *Redis) Options() redis.UniversalOptions {
	return redis.UniversalOptions{Addrs: []string{r.server.Addr()}}
}

// Advance moves the server's clock and ends the lives that are over by then.
func (r *Redis) Advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
	r.server.FastForward(d)
	r.server.SetTime(r.now)
}

// Close stops the server.
func (r *Redis) Close() {
	close(r.stop)
	r.done.Wait()
	r.server.Close()
}

// run advances the clock by the time that passes.
func (r *Redis) run() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-r.stop:
			return
		case now := <-ticker.C:
			r.Advance(now.Sub(last))
			last = now
		}
	}
}
