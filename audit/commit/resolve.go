package commit

import (
	"context"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// resolve determines the outcome of a commit whose connection was lost: it fences the node
// incarnation, so that the store has the checks now or never (F3), then looks the checks up. It tries
// until the store answers.
func (w *Writer) resolve(batch []*Entry) {
	node := batch[0].fence().Node
	w.o.Retire(node)
	w.o.Logger.Warn("a commit's outcome is unknown; fencing this incarnation to find out", "checks", len(batch))
	var checks, reported []spend.ID
	for _, e := range batch {
		if e.outcome != nil {
			reported = append(reported, e.outcome.CheckID)
		} else {
			checks = append(checks, e.check.ID)
		}
	}
	for {
		recorded, err := w.look(node, checks, reported)
		if err == nil {
			if len(recorded) > 0 {
				w.failing.end() // late, and nothing failed
			}
			for _, e := range batch {
				if recorded[e.id()] {
					w.limiter.recorded.Add(1)
					e.finish(nil)
				} else {
					e.finish(audit.ErrFencedNode)
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

// look returns which of the checks are recorded, and, by their own IDs, which outcomes of the checks
// that were reported on.
func (w *Writer) look(node spend.ID, checks, reported []spend.ID) (map[spend.ID]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), w.o.CommitTimeout)
	defer cancel()
	if err := w.o.Fence(ctx, node); err != nil {
		return nil, err
	}
	found, err := w.o.Trail.Checks(ctx, checks)
	if err != nil {
		return nil, err
	}
	recorded := make(map[spend.ID]bool, len(checks)+len(reported))
	for _, c := range found {
		recorded[c.ID] = true
	}
	if reported == nil {
		return recorded, nil
	}
	outcomes, err := w.o.Trail.Outcomes(ctx, reported)
	if err != nil {
		return nil, err
	}
	for _, o := range outcomes {
		recorded[o.ID] = true
	}
	return recorded, nil
}
