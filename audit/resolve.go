package audit

import (
	"context"
	"time"

	"spendgate/hotpath/spend"
)

// resolve finds out how a commit ended whose connection was lost: its node
// incarnation is fenced, so that the store has it now or never (F3), then the
// checks are looked up. It tries until the store answers.
func (w *Writer) resolve(batch []*Entry) {
	node := batch[0].check.Fence.Node
	w.o.Retire(node)
	w.o.Logger.Warn("a commit's outcome is unknown; fencing this incarnation to find out", "checks", len(batch))
	ids := make([]spend.ID, len(batch))
	for i, e := range batch {
		ids[i] = e.check.ID
	}
	for {
		recorded, err := w.look(node, ids)
		if err == nil {
			for _, e := range batch {
				if recorded[e.check.ID] {
					w.slots.recorded.Add(1)
					e.finish(nil)
				} else {
					e.finish(ErrFencedNode)
				}
			}
			return
		}
		if w.isClosed() {
			finishAll(batch, ErrPending) // whoever meets its claims will fence this node
			return
		}
		time.Sleep(resolveRetry)
	}
}

func (w *Writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *Writer) look(node spend.ID, ids []spend.ID) (map[spend.ID]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), w.o.CommitTimeout)
	defer cancel()
	if err := w.o.Fence(ctx, node); err != nil {
		return nil, err
	}
	checks, err := w.o.Trail.Checks(ctx, ids)
	if err != nil {
		return nil, err
	}
	recorded := make(map[spend.ID]bool, len(checks))
	for _, c := range checks {
		recorded[c.ID] = true
	}
	return recorded, nil
}
