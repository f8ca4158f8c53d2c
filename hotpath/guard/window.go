package guard

import (
	"context"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/pipeline"
)

// awaitFingerprint waits for the claim of another attempt on the fingerprint. If that attempt is
// recorded, this one is its duplicate, its replay or its successor; if not, this one waits, and takes
// the claim over once it is stale.
func (g *Guard) awaitFingerprint(ctx context.Context, at *Attempt, value string) (step, error) {
	w, cancel, err := g.newWait(ctx, at, at.fingerprint.name, value)
	if err != nil {
		return step{}, err
	}
	defer cancel()
	h := w.holder
	for {
		own := g.inFlight.find(h.check)
		found, err := g.passOf(w.ctx, at, h.check)
		if err != nil {
			return step{}, err
		}
		switch {
		case found != absent && (own != nil || w.pause > 0):
			return step{next: retry}, nil // the window may have changed during the wait
		case found == audit.PassReleased:
			return g.takeUnrecorded(ctx, at, h)
		case found != absent:
			h.asks = found == audit.PassAsking
			return g.meetRecorded(w.ctx, at, h)
		}
		state, err := w.look()
		switch {
		case err != nil:
			return step{}, err
		case state == changed:
			return step{next: retry}, nil
		case state == stale:
			return g.takeStaleFingerprint(ctx, w)
		}
	}
}

// takeStaleFingerprint takes the fingerprint over once it is certain that its
// holder will never be recorded.
func (g *Guard) takeStaleFingerprint(ctx context.Context, w *wait) (step, error) {
	if err := g.makeFinal(w.ctx, w.holder.node); err != nil {
		return step{}, err
	}
	found, err := g.records.settled(w.ctx, w.holder.check)
	switch {
	case err != nil:
		return step{}, err
	case found == absent:
		g.metrics.takeovers.Inc()
	case found != audit.PassReleased:
		w.holder.asks = found == audit.PassAsking
		return g.meetRecorded(w.ctx, w.at, w.holder)
	}
	return g.takeUnrecorded(ctx, w.at, w.holder)
}

// takeUnrecorded takes the fingerprint over from a holder that is not a pass: it will never be
// recorded, or was released. The holder may have succeeded a pass that longer windows still see, so
// the store is asked before anything passes (F68).
func (g *Guard) takeUnrecorded(ctx context.Context, at *Attempt, h holder) (step, error) {
	s, err := g.takeFingerprint(ctx, at, h, nil)
	taken := s.next == done
	at.verify, at.fingerprint.unverified = taken, taken
	return s, err
}

// makeFinal makes sure that the node will not record any more of its present claims: by a fence, or
// because the node is this process, all of whose claims in flight are known.
func (g *Guard) makeFinal(ctx context.Context, node spend.ID) error {
	if g.fencing.isOwn(node) {
		return nil
	}
	return g.Fence(ctx, node)
}

// passOf returns the state of the check in the store. For a claim of this node in flight it waits, and
// the claim then counts only if it was recorded; in all other cases it asks the store.
func (g *Guard) passOf(ctx context.Context, at *Attempt, id spend.ID) (audit.PassState, error) {
	c := g.inFlight.find(id)
	if c == nil || c.attempt == at {
		return g.records.settled(ctx, id)
	}
	check, err := g.await(ctx, at, c)
	if err != nil || check == nil || check.ID != id {
		return absent, err
	}
	return audit.PassFacts{
		Allowed: check.Decision.Effect == spend.Allow, Asks: check.Approval != nil, Released: !check.Pass.Passed(),
	}.State(), nil
}

// inFlightPatience is how long a claim in flight is waited for before the store
// is asked whether it answers at all: with a store that does not, nobody waits
// on (G7).
const inFlightPatience = 300 * time.Millisecond

// errOthersFailed refuses a check that waited for others which failed: their
// store is away, and taking turns at it could go on for ever (G7).
var errOthersFailed = fmt.Errorf("%w: another check's commit failed", ErrUnavailable)

// late reports whether the attempt may no longer claim what others released.
func (at *Attempt) late() bool { return !at.Deadline.IsZero() && time.Now().After(at.Deadline) }

// inFlightAtLeast is how long a claim in flight is waited for by a check that is
// late already, because it waited for a dead node's claim first.
const inFlightAtLeast = time.Second

// await waits for a claim of this node in flight, until the check is late. A commit that hangs while
// the store still answers does not end earlier (G7).
func (g *Guard) await(ctx context.Context, at *Attempt, c *inFlightClaim) (*spend.Check, error) {
	until := maxTime(at.Deadline, time.Now().Add(inFlightAtLeast))
	asking, cancel := context.WithDeadline(ctx, until) // a look-up that waits for another may take longer
	defer cancel()
	for {
		slice, cancel := context.WithTimeout(ctx, min(inFlightPatience, time.Until(until)))
		check, err := g.inFlight.wait(slice, c)
		cancel()
		if err == nil && check == nil && at.late() {
			return nil, errOthersFailed
		}
		if err == nil {
			at.InVain = at.InVain || check == nil && !at.Deadline.IsZero()
			return check, nil
		}
		if ctx.Err() != nil || !time.Now().Before(until) {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if _, _, err := g.records.checks.Get(asking, c.id); err != nil && asking.Err() == nil {
			return nil, err
		}
	}
}

// meetRecorded decides an attempt whose fingerprint is held by a recorded check.
func (g *Guard) meetRecorded(ctx context.Context, at *Attempt, h holder) (step, error) {
	old := h.as(committed)
	if !at.blocks(h, g.redis.Earliest()) {
		return g.takeFingerprint(ctx, at, h, &old)
	}
	if at.restored != nil {
		return g.keepFor(ctx, at, h)
	}
	if at.keyed() {
		// My own key's check, recorded by a node that died before the key's
		// claim named it, is no duplicate.
		if check, err := g.records.underKey(ctx, at.KeyHash); err != nil || check != nil {
			return at.replay(check), err
		}
	}
	holds, ok, err := g.holdingPass(ctx, at, h)
	switch {
	case err != nil:
		return step{}, err
	case !ok:
		return g.takeFingerprint(ctx, at, h, &old)
	case holds.check != h.check:
		return duplicateOf(holds), nil
	}
	if h.state == orphan && !at.named() {
		if s, err := g.adoptOrphan(ctx, at, h); err != nil || s.next != proceed {
			return s, err
		}
	}
	return duplicateOf(h), nil
}

// heldBy returns the last of the effects whose checks make the attempt a duplicate.
func (at *Attempt) heldBy() spend.Effect {
	switch {
	case at.Approved:
		return spend.Allow
	case at.JudgesAgain:
		return spend.Escalate
	}
	return spend.Block
}

// holdingPass returns the holder that makes an attempt a duplicate, if one does. Holders that the attempt
// may pass count for it as aged out, while longer windows still see them. Such a holder may hide a pass
// that the attempt may not pass and that the holder, with a shorter window, did not see (F79, F90). A check
// of the attempt's payment makes no duplicate: the payment's row decides what it means (S84). It may hide one, too.
func (g *Guard) holdingPass(ctx context.Context, at *Attempt, h holder) (holder, bool, error) {
	if at.heldBy() == spend.Block && at.Payment.IsZero() {
		return h, true, nil
	}
	var behind spend.ID // the last of the payment's own checks
	for {
		check, ok, err := g.records.checks.Get(ctx, h.check)
		switch {
		case err != nil || !ok:
			return h, true, err
		case check.Decision.Effect > at.heldBy():
		case at.Payment.IsZero() || check.PaymentHash() != at.Payment:
			return h, true, nil
		default:
			behind = h.check
		}
		found, ok, err := g.livePass(ctx, at.Fingerprint, behind, at.heldBy())
		if err != nil || !ok || found.age(g.redis.Earliest()) >= at.Window {
			return h, false, err
		}
		h = found.holder
	}
}

// livePass is a pass in the trail.
type livePass struct {
	holder
	effect spend.Effect
	until  time.Time
}

// livePass returns the latest live pass with an effect of at most upTo, behind a check unless that is zero. A pass whose
// approval has expired does not count, once the expiry is recorded.
func (g *Guard) livePass(ctx context.Context, fingerprint spend.Hash, behind spend.ID, upTo spend.Effect) (livePass, bool, error) {
	for {
		found, ok, err := g.records.pass(ctx, fingerprint, behind, upTo)
		pass := livePass{passHolder(found), found.Effect, time.UnixMilli(found.UntilMS)}
		if err != nil || !ok || found.Effect != spend.Escalate {
			return pass, ok, err
		}
		state, err := g.records.settled(ctx, found.CheckID)
		if err != nil || state != audit.PassReleased {
			pass.asks = state == audit.PassAsking
			return pass, err == nil, err
		}
	}
}

// keepFor lets a later pass hold the name for as long as the recorded check would: the later pass's
// own policy may have a shorter window, and an action that duplicates the check also duplicates the
// later pass (F97).
func (g *Guard) keepFor(ctx context.Context, at *Attempt, h holder) (step, error) {
	s, err := g.replace(ctx, at, pipeline.Swap{
		Name: at.fingerprint.name, Old: h.String(), New: h.String(), Life: at.Window, KeepLonger: true,
	})
	if err != nil || s.next != proceed {
		return s, err
	}
	return duplicateOf(h), nil
}

// adoptOrphan answers an equal request of the same namespace with a check that was recorded but whose
// client got a 500, once (F10, F110).
func (g *Guard) adoptOrphan(ctx context.Context, at *Attempt, h holder) (step, error) {
	check, ok, err := g.records.checks.Get(ctx, h.check)
	if err != nil || !ok || check.RequestSHA != at.RequestSHA || check.Namespace != at.Namespace {
		return step{}, err
	}
	s, err := g.replace(ctx, at, pipeline.Swap{
		Name: at.fingerprint.name, Old: h.String(), New: h.as(committed).String(), KeepLonger: true,
	})
	if err != nil || s.next != proceed {
		return s, err
	}
	at.adopted, at.orphan = at.fingerprint.name, h
	return step{done, ClaimResult{Kind: Replay, Check: check}}, nil
}

// takeFingerprint swaps the fingerprint to this attempt, which passes then.
// replaced is the recorded claim that it succeeds, if any.
func (g *Guard) takeFingerprint(ctx context.Context, at *Attempt, h holder, replaced *holder) (step, error) {
	mine, r, err := g.take(ctx, at, pipeline.Swap{Name: at.fingerprint.name, Old: h.String(), Life: at.Window, KeepLonger: true})
	if err != nil {
		return step{}, err
	}
	if r == nil {
		return step{next: retry}, nil
	}
	mine.until = mine.since.Add(r.Swap.NewLife)
	mine.replaced, mine.replacedUntil = replaced, time.Now().Add(r.Swap.LifeLeft)
	at.fingerprint = mine
	at.verify = !r.reading.windows.full
	return pass(), nil
}

// verifyFresh looks the fingerprint up that is this attempt's as far as Redis
// knows; the store may know better. A pass found there gets the name back, and
// this attempt meets it like any other.
func (g *Guard) verifyFresh(ctx context.Context, at *Attempt) (step, error) {
	found, ok, err := g.livePass(ctx, at.Fingerprint, spend.ID{}, spend.Block)
	if err != nil {
		return step{}, err
	}
	at.verify, at.fingerprint.unverified = false, false
	h, now := found.holder, g.redis.Earliest()
	left := found.until.Sub(now)
	if !ok || left <= 0 {
		return pass(), nil
	}
	// Whatever becomes of this attempt, the name must not be free: others'
	// windows may still see the pass (F32).
	at.fingerprint.replaced, at.fingerprint.replacedUntil = &h, time.Now().Add(left)
	if at.blocks(h, now) {
		_, holds, err := g.holdingPass(ctx, at, h)
		if err != nil {
			return step{}, err
		}
		if holds {
			return g.giveBack(ctx, at, h, left)
		}
	}
	at.fingerprint.until = maxTime(at.fingerprint.until, now.Add(left))
	if left <= at.Window {
		return pass(), nil
	}
	return g.lengthen(ctx, at, left)
}

// lengthen makes the attempt's claim live as long as a pass that it succeeds,
// which is out of this policy's window alone.
func (g *Guard) lengthen(ctx context.Context, at *Attempt, left time.Duration) (step, error) {
	f := &at.fingerprint
	s, err := g.replace(ctx, at, pipeline.Swap{Name: f.name, Old: f.value, New: f.value, Life: left, KeepLonger: true})
	if err != nil {
		return s, err
	}
	if s.next == retry {
		g.releaseClaim(f)
		return s, nil
	}
	return pass(), nil
}

// giveBack puts a pass of the store in the place of the attempt's claim.
func (g *Guard) giveBack(ctx context.Context, at *Attempt, h holder, left time.Duration) (step, error) {
	f := &at.fingerprint
	s, err := g.replace(ctx, at, pipeline.Swap{Name: f.name, Old: f.value, New: h.String(), Life: left})
	if err != nil {
		return s, err
	}
	f.mine = false
	if s.next == retry {
		return s, nil
	}
	return g.meetRecorded(ctx, at, h)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
