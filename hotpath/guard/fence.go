package guard

import (
	"context"
	"fmt"
	"sync"

	"spendgate/audit/spend"
)

// fencing fences node incarnations, each once, and remembers this node's own.
type fencing struct {
	mu      sync.Mutex
	ours    map[spend.ID]struct{}
	fenced  map[spend.ID]struct{}
	running map[spend.ID]*fenceCall
}

type fenceCall struct {
	done chan struct{}
	err  error
}

// maxFenced bounds the memory of fenced nodes; fencing one twice is harmless.
const maxFenced = 4096

func (f *fencing) own(node spend.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ours == nil {
		f.ours = make(map[spend.ID]struct{})
	}
	f.ours[node] = struct{}{}
}

// isOwn reports whether the incarnation is or was this process.
func (f *fencing) isOwn(node spend.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.ours[node]
	return ok
}

// Fence returns once nothing that the node claimed can be recorded any more.
// What is absent from the trail then stays absent (F1, F3).
func (g *Guard) Fence(ctx context.Context, node spend.ID) error {
	f := &g.fencing
	f.mu.Lock()
	if _, ok := f.fenced[node]; ok {
		f.mu.Unlock()
		return nil
	}
	call, ok := f.running[node]
	if !ok {
		call = &fenceCall{done: make(chan struct{})}
		if f.running == nil {
			f.running = make(map[spend.ID]*fenceCall)
		}
		f.running[node] = call
		go g.fence(node, call)
	}
	f.mu.Unlock()
	select {
	case <-call.done:
		return call.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

func (g *Guard) fence(node spend.ID, call *fenceCall) {
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	err := g.store.Fence(ctx, node)
	if err != nil {
		call.err = fmt.Errorf("%w: cannot fence a node: %w", ErrUnavailable, err)
	} else {
		g.metrics.fences.Inc()
		g.log.Warn("fenced a node whose claim was stale or whose commit was in doubt", "node", node.Text(""))
	}
	f := &g.fencing
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.running, node)
	if err == nil {
		if len(f.fenced) >= maxFenced || f.fenced == nil {
			f.fenced = make(map[spend.ID]struct{})
		}
		f.fenced[node] = struct{}{}
	}
	close(call.done)
}

// Retire names the node anew if it still is the given one: that
// one was fenced, by this node or another.
func (g *Guard) Retire(node spend.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if *g.node.Load() == node {
		g.newIncarnation()
	}
}
