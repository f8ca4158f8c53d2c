package guard

import (
	"context"
	"time"

	"spendgate/audit/spend"
	"spendgate/hotpath/pipeline"
)

// Stamp sets the identity of the attempt's check: the ID that the fingerprint's
// claim names, so that a later duplicate finds the row, the window it leaves and
// the fence that its commit must pass. A duplicate gets an ID of its own and
// leaves no window.
func (g *Guard) Stamp(at *Attempt, out ClaimResult, check *spend.Check) {
	check.Fence = at.fence
	if out.Kind == Pass {
		check.ID = at.fingerprint.id
		check.Pass = spend.Pass{ClaimedMS: at.fingerprint.since.UnixMilli(), UntilMS: at.fingerprint.until.UnixMilli()}
		return
	}
	check.ID = spend.NewID(time.Now())
	check.Pass = spend.Pass{}
	g.inFlight.add(at, check.ID)
}

// Committed ends an attempt whose check is recorded. Its claims stay, except that a
// check that leaves no fingerprint releases it, after those who wait were told: the
// claim alone would make them wait for what is recorded (F87).
func (g *Guard) Committed(at *Attempt, check *spend.Check) {
	g.inFlight.resolveAll(at, check)
	if !check.Pass.Passed() {
		g.releaseClaim(&at.fingerprint)
	}
	at.fingerprint, at.key = claim{}, claim{}
}

// Abandon marks an attempt whose commit is in progress and whose client is
// answered 500 now: if it is recorded in the end, the next identical request
// may have it (F10, G7). With a key the row alone sees to that. The mark
// precedes the answer, so that the retry finds it. Without a record the mark
// means nothing.
func (g *Guard) Abandon(at *Attempt) {
	f := &at.fingerprint
	h, err := parseHolder(f.value)
	if !f.mine || at.keyed() || err != nil {
		return
	}
	marked := make(chan struct{})
	mark := markOrphan(f.name, h)
	f.unmarked, f.value = f.value, mark.New
	go func() { // which the attempt may not outlast
		defer close(marked)
		if g.redis.Do(&pipeline.Request{Swap: &mark}) != nil {
			g.redis.SwapLater(markOrphan(mark.Name, h))
		}
	}()
	select {
	case <-marked:
	case <-time.After(abandonPatience):
	}
}

// markOrphan returns the swap that marks a claim, however long it lives.
func markOrphan(name string, h holder) pipeline.Swap {
	return pipeline.Swap{Name: name, Old: h.String(), New: h.as(orphan).String(), KeepLonger: true}
}

// abandonPatience is how long an answer that is late already waits for a mark
// that Redis would set within a millisecond.
const abandonPatience = 150 * time.Millisecond

// Release ends an attempt of which nothing is or will be recorded, and leaves
// nothing behind that would block its retry (G7). An attempt that ended
// already stays as it is.
func (g *Guard) Release(at *Attempt) {
	g.releaseClaims(at)
	g.inFlight.resolveAll(at, nil)
}

// Reclaim prepares an attempt whose commit was refused by the fence for another
// Claim: in the epoch now in force, or as a new incarnation.
func (g *Guard) Reclaim(ctx context.Context, at *Attempt, staleEpoch bool) error {
	refused := at.fence
	g.releaseClaims(at)
	return g.RenewFence(ctx, refused, staleEpoch)
}

// CurrentFence returns that under which what claims nothing is committed.
func (g *Guard) CurrentFence(ctx context.Context) (spend.Fence, error) {
	if known := *g.windows.Load(); known.epoch.IsZero() {
		if err := g.renew(ctx, known); err != nil {
			return spend.Fence{}, err
		}
	}
	return spend.Fence{Node: g.Node(), Epoch: g.windows.Load().epoch}, nil
}

// RenewFence sees to another one in the place of that which a commit was refused
// for: of the epoch now in force, or of a new incarnation.
func (g *Guard) RenewFence(ctx context.Context, refused spend.Fence, staleEpoch bool) error {
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
// store: a replay or a refusal, or Gone, since the row is.
// The claim of the key stays: whoever meets it asks the store first, so that no
// further retry costs a commit its time.
func (g *Guard) KeyTaken(ctx context.Context, at *Attempt) (ClaimResult, error) {
	g.releaseClaim(&at.fingerprint)
	check, err := g.records.underKey(ctx, at.KeyHash)
	if check == nil {
		g.releaseClaim(&at.key)
	}
	at.key = claim{}
	if err != nil || check != nil {
		g.inFlight.resolveAll(at, nil)
	}
	if err != nil {
		return ClaimResult{}, err
	}
	if s := at.replay(check); s.next == done {
		return s.result, nil
	}
	return ClaimResult{Kind: Gone}, nil
}

// releaseClaims releases what the attempt holds: the fingerprint first, so that
// nobody who finds the key free meets the fingerprint.
func (g *Guard) releaseClaims(at *Attempt) {
	g.releaseClaim(&at.fingerprint)
	g.releaseClaim(&at.key)
}

// releaseClaim releases one claim with the next batch. A recorded claim that it
// had replaced is put back; where that is not known, the claim is left to be
// taken over, which asks the store.
func (g *Guard) releaseClaim(c *claim) {
	// unmarked first: else a mark that arrives between the two releases would stay.
	for _, value := range []string{c.unmarked, c.value} {
		switch {
		case !c.mine || c.unverified || value == "":
		case c.replaced != nil:
			g.redis.Restore(c.name, value, c.replaced.String(), c.replacedUntil)
		default:
			g.redis.Release(c.name, value)
		}
	}
	if !c.id.IsZero() {
		g.inFlight.abandon(c.id)
	}
	*c = claim{}
}
