package guard

import (
	"context"
	"fmt"
	"sync"
)

// Gathering makes one call for all waiting requests: while a call is in flight, the requests for the
// next one gather. A request is only ever answered by a call that began after it.
type Gathering[T any] struct {
	call func(*T) error

	mu      sync.Mutex
	next    *gathered[T]
	running bool
}

type gathered[T any] struct {
	value T
	err   error
	done  chan struct{}
}

// NewGathering returns a Gathering whose calls get what was added for them.
func NewGathering[T any](call func(*T) error) *Gathering[T] {
	return &Gathering[T]{call: call}
}

// Do adds to the next call and waits for it: until the context ends, which is
// ErrUnavailable. The value is shared and must not be changed.
func (g *Gathering[T]) Do(ctx context.Context, add func(*T)) (*T, error) {
	g.mu.Lock()
	if g.next == nil {
		g.next = &gathered[T]{done: make(chan struct{})}
	}
	next := g.next
	add(&next.value)
	if !g.running {
		g.running = true
		go g.run()
	}
	g.mu.Unlock()
	select {
	case <-next.done:
		return &next.value, next.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// run calls until nobody waits.
func (g *Gathering[T]) run() {
	for {
		g.mu.Lock()
		next := g.next
		if g.next = nil; next == nil {
			g.running = false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		next.err = g.call(&next.value)
		close(next.done)
	}
}
