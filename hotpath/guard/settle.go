package guard

import (
	"context"
	"time"

	"spendgate/hotpath/spend"
)

// Stamp gives the attempt's check its identity: the ID that f names, so that a
// later duplicate finds the row, the window it leaves and the fence that its
// commit must pass. A duplicate gets an ID of its own and leaves no window.
func (g *Guard) Stamp(at *Attempt, out Outcome, check *spend.Check) {
	check.Fence = at.fence
	if out.Kind == Pass {
		check.ID = at.f.id
		check.Pass = spend.Pass{ClaimedMS: at.f.since.UnixMilli(), UntilMS: at.f.until.UnixMilli()}
		return
	}
	check.ID = spend.NewID(time.Now())
	check.Pass = spend.Pass{}
	g.flights.join(at, check.ID)
}

// Committed ends an attempt whose check is recorded. Its claims stay.
func (g *Guard) Committed(at *Attempt, check *spend.Check) {
	at.f, at.k = held{}, held{}
	g.flights.end(at, check)
}

// Abandon says of an attempt whose commit is under way that its client is
// answered 500 now: if it is recorded in the end, the next identical request
// may have it (F10, G7). With a key the row alone sees to that. The mark
// precedes the answer, so that the retry finds it. Without a record the mark
// means nothing.
func (g *Guard) Abandon(at *Attempt) {
	h, err := parseHolder(at.f.value)
	if !at.f.mine || at.keyed() || err != nil {
		return
	}
	marked := make(chan struct{})
	a := &ask{swap: orphaned(at.f.name, h)}
	at.f.plain, at.f.value = at.f.value, a.swap.new
	go func() { // which the attempt may not outlast
		defer close(marked)
		if g.batch.do(a) != nil {
			g.batch.later(markOrphan(a.swap.name, h))
		}
	}()
	select {
	case <-marked:
	case <-time.After(abandonPatience):
	}
}

// abandonPatience is how long an answer that is late already waits for a mark
// that Redis would set within a millisecond.
const abandonPatience = 150 * time.Millisecond

// Release ends an attempt of which nothing is or will be recorded, and leaves
// nothing behind that would block its retry (G7). An attempt that ended
// already stays as it is.
func (g *Guard) Release(at *Attempt) {
	g.drop(at)
	g.flights.end(at, nil)
}

// Reclaim prepares an attempt whose commit was refused by the fence for another
// Claim: in the epoch now in force, or as a new incarnation.
func (g *Guard) Reclaim(ctx context.Context, at *Attempt, staleEpoch bool) error {
	refused := at.fence
	g.drop(at)
	if !staleEpoch {
		g.Retire(refused.Node)
		return nil
	}
	if known := *g.windows.Load(); known.epoch == refused.Epoch {
		return g.renew(ctx, known)
	}
	return nil
}

// KeyTaken resolves an attempt whose idempotency key another check holds in the
// store: a replay or a refusal. An outcome without kind means that the row is
// gone again: claim once more. The claim of the key stays: whoever meets it
// asks the store first, so that no further retry costs a commit its time.
func (g *Guard) KeyTaken(ctx context.Context, at *Attempt) (Outcome, error) {
	g.letGo(&at.f)
	check, err := g.records.underKey(ctx, at.KeyHash)
	if check == nil {
		g.letGo(&at.k)
	}
	at.k = held{}
	if err != nil || check != nil {
		g.flights.end(at, nil)
	}
	return at.replay(check), err
}

// drop releases what the attempt holds: f before k, so that nobody who finds k
// free runs into f.
func (g *Guard) drop(at *Attempt) {
	g.letGo(&at.f)
	g.letGo(&at.k)
}

// letGo releases one claim in the next pipeline. A recorded claim that it had
// replaced gets its place back; where that is not known, the claim is left to
// be taken over, which asks the store.
func (g *Guard) letGo(h *held) {
	// plain first: else a mark that lands between the two releases would stay.
	for _, value := range []string{h.plain, h.value} {
		switch {
		case !h.mine || h.unverified || value == "":
		case h.replaced != nil:
			g.batch.later(restore(h.name, value, *h.replaced, h.replacedUntil))
		default:
			g.batch.later(release(h.name, value))
		}
	}
	if !h.id.IsZero() {
		g.flights.leave(h.id)
	}
	*h = held{}
}
