package guard

import (
	"context"

	"spendgate/audit/spend"
)

// awaitKey waits for the claim of another attempt on the key. Its row in the
// store decides; without one the holder is waited for, and taken over once it is
// stale.
func (g *Guard) awaitKey(ctx context.Context, at *Attempt, value string) (step, error) {
	w, cancel, err := g.newWait(ctx, at, at.key.name, value)
	if err != nil {
		return step{}, err
	}
	defer cancel()
	for {
		if s, err := g.replayOf(w.ctx, at, w.holder.check); err != nil || s.next == done {
			return s, err
		}
		state, err := w.look()
		switch {
		case err != nil:
			return step{}, err
		case state == changed:
			return step{next: retry}, nil
		case state == stale:
			return g.takeStaleKey(ctx, w)
		}
	}
}

// replayOf answers with the check recorded under the attempt's key. The holder
// of its claim is waited for if it is this node's.
func (g *Guard) replayOf(ctx context.Context, at *Attempt, holder spend.ID) (step, error) {
	if c := g.inFlight.find(holder); c != nil && c.attempt != at {
		check, err := g.await(ctx, at, c)
		if err != nil {
			return step{}, err
		}
		if check != nil && check.Action.IdempotencyKey != "" {
			return at.replay(check), nil
		}
	}
	ctx, cancel := at.inTime(ctx)
	defer cancel()
	check, err := g.records.underKey(ctx, at.KeyHash)
	return at.replay(check), err
}

// takeStaleKey swaps the key to this attempt once its holder certainly will never be recorded. Whether
// or not the swap worked, the claims are sent again.
func (g *Guard) takeStaleKey(ctx context.Context, w *wait) (step, error) {
	check, err := g.absentUnderKey(w.ctx, w.holder.node, w.at.KeyHash)
	if err != nil || check != nil {
		return w.at.replay(check), err
	}
	g.metrics.takeovers.Inc()
	return step{next: retry}, g.takeKey(ctx, w.at, w.value)
}

// absentUnderKey fences the node, which makes its records final, and looks again: if there is no check
// now, there will never be one of that node.
func (g *Guard) absentUnderKey(ctx context.Context, node spend.ID, keyHash spend.Hash) (*spend.Check, error) {
	if err := g.makeFinal(ctx, node); err != nil {
		return nil, err
	}
	return g.records.underKey(ctx, keyHash)
}
