package guard

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"

	"spendgate/audit/spend"
)

// fencing fences node incarnations, each once, and remembers this node's own.
type fencing struct {
	running singleflight.Group

	mu   sync.Mutex
	ours map[spend.ID]struct{}

	fenced seen // fencing one twice is harmless
}

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

// Fence returns once no claim of the node can be recorded any more. A check that is then absent from
// the record stays absent (F1, F3).
func (g *Guard) Fence(ctx context.Context, node spend.ID) error {
	if g.fencing.fenced.has(node) {
		return nil
	}
	select {
	case fenced := <-g.fencing.running.DoChan(string(node[:]), func() (any, error) { return nil, g.fence(node) }):
		return fenced.Err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

func (g *Guard) fence(node spend.ID) error {
	if g.fencing.fenced.has(node) {
		return nil // meanwhile
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	if err := g.store.Fence(ctx, node); err != nil {
		return fmt.Errorf("%w: cannot fence a node: %w", ErrUnavailable, err)
	}
	g.metrics.fences.Inc()
	g.log.Warn("fenced a node whose claim was stale or whose commit was in doubt", "node", node.Text(""))
	g.fencing.fenced.add(node)
	return nil
}

// Retire begins a new incarnation if the node still has the given one, which was fenced by this node
// or another.
func (g *Guard) Retire(node spend.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if *g.node.Load() == node {
		g.newIncarnation()
	}
}
