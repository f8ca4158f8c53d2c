package guard

import (
	"context"
	"time"

	"spendgate/audit/spend"
	"spendgate/hotpath/pipeline"
)

// Stamp sets the identity of the attempt's check: the ID that the fingerprint's claim names, so that a
// later duplicate finds the row, the window that it leaves and the fence that its commit must pass. A
// duplicate gets an ID of its own and leaves no window.
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

// Committed ends an attempt whose check is recorded. Its claims stay. A check that leaves no
// fingerprint releases the claim after waiting checks were told, because the claim alone would make
// others wait for a check that is recorded (F87).
func (g *Guard) Committed(at *Attempt, check *spend.Check) {
	g.inFlight.resolveAll(at, check)
	if !check.Pass.Passed() {
		g.releaseClaim(&at.fingerprint)
	}
	at.fingerprint, at.key = claim{}, claim{}
}

// Abandon marks an attempt whose commit is in progress and whose client is answered 500 now: if the
// check is recorded in the end, the next identical request may have it (F10, G7). With a key the row
// alone makes sure of that. The mark precedes the answer, so that the retry finds it. Without a record
// the mark means nothing.
func (g *Guard) Abandon(at *Attempt) {
	f := &at.fingerprint
	h, err := parseHolder(f.value)
	if !f.mine || at.named() || err != nil {
		return
	}
	f.unmarked, f.value = f.value, h.as(orphan).String()
	g.mark(f.name, h)
}

// Unanswered ends an attempt with Replay that was refused instead: if it had adopted an orphan, the next equal request
// may have it.
func (g *Guard) Unanswered(at *Attempt) {
	if at.adopted != "" {
		g.mark(at.adopted, at.orphan.as(committed))
		at.adopted = ""
	}
}

// mark marks a claim as an orphan. It returns before that is done if Redis does not answer at once.
func (g *Guard) mark(name string, h holder) {
	marked := make(chan struct{})
	go func() { // which the attempt may not outlast
		defer close(marked)
		mark := markOrphan(name, h)
		if g.redis.Do(&pipeline.Request{Swap: &mark}) != nil {
			g.redis.SwapLater(markOrphan(name, h))
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

// Release ends an attempt that is not and will not be recorded, and removes all claims that would
// block its retry (G7). An attempt that has ended already stays as it is.
func (g *Guard) Release(at *Attempt) {
	g.releaseClaims(at)
	g.inFlight.resolveAll(at, nil)
}

// Reclaim prepares an attempt whose commit was refused by the fence for another Claim: in the epoch
// now in force, or as a new incarnation.
func (g *Guard) Reclaim(ctx context.Context, at *Attempt, staleEpoch bool) error {
	refused := at.fence
	g.releaseClaims(at)
	return g.RenewFence(ctx, refused, staleEpoch)
}

// CurrentFence returns the fence for commits that claim nothing.
func (g *Guard) CurrentFence(ctx context.Context) (spend.Fence, error) {
	if known := *g.windows.Load(); known.epoch.IsZero() {
		if err := g.renew(ctx, known); err != nil {
			return spend.Fence{}, err
		}
	}
	return spend.Fence{Node: g.Node(), Epoch: g.windows.Load().epoch}, nil
}

// RenewFence replaces a fence for which a commit was refused: by one of the epoch now in force, or of
// a new incarnation.
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

// KeyTaken resolves an attempt whose idempotency key another check has in the store: a replay, a
// refusal, or Gone if that check's row no longer exists. The claim of the key stays: a check that
// meets it asks the store first, so that no further retry costs a commit its time.
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

// PaymentMoved ends an attempt whose payment was changed meanwhile. The claim of the payment stays: a request that meets it
// looks the payment up, so that no further one costs a commit its time.
func (g *Guard) PaymentMoved(at *Attempt) {
	at.key, at.Known = claim{}, true
	g.Release(at)
}

// releaseClaims releases the attempt's claims: the fingerprint first, so that nobody who finds the key
// free meets the fingerprint.
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
