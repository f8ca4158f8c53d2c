package guard

import (
	"context"
	"fmt"
	"time"

	"spendgate/hotpath/spend"
)

// awaitFingerprint: f is another attempt's. Recorded, it makes this one a
// duplicate, a replay or its successor; not recorded, it is waited for, and
// taken over once it is stale.
func (g *Guard) awaitFingerprint(ctx context.Context, at *Attempt, value string) (out Outcome, again bool, err error) {
	h, err := parseHolder(value)
	if err != nil {
		g.mend(err, at.asked.windows)
		return out, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	w, cancel := g.newWait(ctx, at, at.f.name, value)
	defer cancel()
	for {
		own := g.flights.find(h.check)
		recorded, err := g.recorded(w.ctx, at, h.check)
		if err != nil {
			return out, false, err
		}
		if recorded && (own != nil || w.pause > 0) {
			return out, true, nil // it was waited for: its state may be another now
		}
		if recorded {
			return g.meetRecorded(w.ctx, at, h)
		}
		changed, stale, err := w.look(h)
		if err != nil || changed {
			return out, true, err
		}
		if !stale {
			continue
		}
		if err := g.makeFinal(w.ctx, h.node); err != nil {
			return out, false, err
		}
		if recorded, err = g.records.recorded(w.ctx, h.check); err != nil || recorded {
			if err == nil {
				return g.meetRecorded(w.ctx, at, h)
			}
			return out, false, err
		}
		g.metrics.takeovers.Inc()
		taken, err := g.takeFingerprint(ctx, at, h, nil)
		at.verify, at.f.unverified = taken, taken
		return Outcome{Kind: Pass}, !taken, err
	}
}

// makeFinal sees to it that what the node has not recorded by now it never
// will: by a fence, or because it is this process, all of whose flights are
// known.
func (g *Guard) makeFinal(ctx context.Context, node spend.ID) error {
	if g.fencing.isOwn(node) {
		return nil
	}
	return g.Fence(ctx, node)
}

// recorded waits for another flight of this node and asks the store about
// everything else.
func (g *Guard) recorded(ctx context.Context, at *Attempt, id spend.ID) (bool, error) {
	f := g.flights.find(id)
	if f == nil || f.of == at {
		return g.records.recorded(ctx, id)
	}
	check, err := g.await(ctx, at, f)
	if err != nil {
		return false, err
	}
	if check != nil && check.ID == id {
		g.records.seen.add(id)
		return true, nil
	}
	return false, nil
}

// flightPatience is how long a flight is waited for before the store is asked
// whether it answers at all: with a store that does not, nobody waits on (G7).
const flightPatience = 300 * time.Millisecond

// errOthersFailed refuses a check that waited for others which failed: their
// store is away, and taking turns at it could go on for ever (G7).
var errOthersFailed = fmt.Errorf("%w: another check's commit failed", ErrUnavailable)

// late reports whether the attempt may no longer claim what others let go.
func (at *Attempt) late() bool { return !at.Deadline.IsZero() && time.Now().After(at.Deadline) }

// flightAtLeast is how long a flight is waited for by a check that is late
// already, because it waited for a dead node's claim first.
const flightAtLeast = time.Second

// await waits for a flight of this node, until the check is late: a commit that
// hangs while the store answers what it is asked ends no earlier (G7).
func (g *Guard) await(ctx context.Context, at *Attempt, f *flight) (*spend.Check, error) {
	until := maxTime(at.Deadline, time.Now().Add(flightAtLeast))
	for {
		slice, cancel := context.WithTimeout(ctx, min(flightPatience, time.Until(until)))
		check, err := g.flights.wait(slice, f)
		cancel()
		if err == nil && check == nil && at.late() {
			return nil, errOthersFailed
		}
		if err == nil {
			return check, nil
		}
		if ctx.Err() != nil || !time.Now().Before(until) {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if _, _, err := g.records.checks.get(ctx, f.id); err != nil {
			return nil, err
		}
	}
}

// meetRecorded: f's holder is in the trail.
func (g *Guard) meetRecorded(ctx context.Context, at *Attempt, h holder) (out Outcome, again bool, err error) {
	if h.age(g.batch.reached()) >= at.Window {
		old := h.as(committed)
		taken, err := g.takeFingerprint(ctx, at, h, &old)
		return Outcome{Kind: Pass}, !taken, err
	}
	if at.keyed() {
		// My own key's check, recorded by a node that died before k knew it,
		// is no duplicate.
		if check, err := g.records.underKey(ctx, at.KeyHash); err != nil || check != nil {
			return at.replay(check), false, err
		}
	}
	if h.state == orphan && !at.keyed() {
		if out, again, err := g.adoptOrphan(ctx, at, h); err != nil || again || out.Kind != 0 {
			return out, again, err
		}
	}
	return Outcome{Kind: Duplicate, Of: h.check}, false, nil
}

// adoptOrphan answers a check that was recorded but whose client got a 500 to
// the next equal request, once (F10).
func (g *Guard) adoptOrphan(ctx context.Context, at *Attempt, h holder) (out Outcome, again bool, err error) {
	check, ok, err := g.records.checks.get(ctx, h.check)
	if err != nil || !ok || check.RequestSHA != at.RequestSHA {
		return out, false, err
	}
	a, err := g.swap(ctx, at, func() swap {
		return swap{name: at.f.name, old: h.String(), new: h.as(committed).String(), keepLonger: true}
	})
	if err != nil || a == nil {
		return out, err == nil, err
	}
	return Outcome{Kind: Replay, Check: check}, false, nil
}

// takeFingerprint swaps f to this attempt. replaced is the recorded claim that
// it succeeds, if any.
func (g *Guard) takeFingerprint(ctx context.Context, at *Attempt, h holder, replaced *holder) (taken bool, err error) {
	mine, a, err := g.take(ctx, at, at.f.name, h.String(), at.Window, true)
	if err != nil || a == nil {
		return false, err
	}
	mine.until = mine.since.Add(a.swap.life)
	mine.replaced, mine.replacedUntil = replaced, time.Now().Add(a.swap.lifeLeft)
	at.f = mine
	at.verify = !a.reading.windows.full
	return true, nil
}

// verifyFresh: f is mine as far as Redis knows; the store may know better. A
// pass found there gets f back, and this attempt meets it like any other.
func (g *Guard) verifyFresh(ctx context.Context, at *Attempt) (out Outcome, again bool, err error) {
	pass, ok, err := g.records.passes.get(ctx, at.Fingerprint)
	if err != nil {
		return out, false, err
	}
	at.verify, at.f.unverified = false, false
	h, now := passHolder(pass), g.batch.reached()
	left := time.UnixMilli(pass.UntilMS).Sub(now)
	if !ok || left <= 0 {
		return Outcome{Kind: Pass}, false, nil
	}
	// Whatever becomes of this attempt, the name must not be free: others'
	// windows may still see the pass (F32).
	at.f.replaced, at.f.replacedUntil = &h, time.Now().Add(left)
	if h.age(now) >= at.Window { // out of this policy's window
		at.f.until = maxTime(at.f.until, now.Add(left))
		if left <= at.Window {
			return Outcome{Kind: Pass}, false, nil
		}
		a, err := g.swap(ctx, at, func() swap {
			return swap{name: at.f.name, old: at.f.value, new: at.f.value, px: left, keepLonger: true}
		})
		if err != nil {
			return out, false, err
		}
		if a == nil {
			g.letGo(&at.f)
			return out, true, nil
		}
		return Outcome{Kind: Pass}, false, nil
	}
	a, err := g.swap(ctx, at, func() swap {
		return swap{name: at.f.name, old: at.f.value, new: h.String(), px: left}
	})
	if err != nil {
		return out, false, err
	}
	at.f.mine = false
	if a == nil {
		return out, true, nil
	}
	return g.meetRecorded(ctx, at, h)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wait looks again and again at a claim of another node.
type wait struct {
	g           *Guard
	at          *Attempt
	ctx         context.Context
	name, value string
	pause       time.Duration
}

func (g *Guard) newWait(ctx context.Context, at *Attempt, name, value string) (*wait, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	return &wait{g: g, at: at, ctx: ctx, name: name, value: value}, cancel
}

// look reports whether the claim changed, or is stale: without a record too
// long, or of this very process, whose flights are all known. It pauses when
// the claim is neither.
func (w *wait) look(h holder) (changed, stale bool, err error) {
	var a ask
	if err := w.g.trip(w.ctx, &a, func(a *ask, _ marker) { a.gets = []string{w.name} }); err != nil {
		return false, false, err
	}
	switch value := a.reading.values[0]; {
	case a.reading.windows.epoch != w.at.fence.Epoch:
		return true, false, nil // the name is another now
	case value == "" && w.at.late():
		return false, false, errOthersFailed
	case value != w.value:
		return true, false, nil
	}
	if h.age(a.reading.now) > staleAfter || w.grounded(h) {
		return false, true, nil
	}
	if w.pause == 0 {
		w.g.metrics.waits.Inc()
	}
	w.pause = min(max(2*w.pause, pollFirst), pollMost)
	select {
	case <-time.After(w.pause):
		return false, false, nil
	case <-w.ctx.Done():
		return false, false, fmt.Errorf("%w: waited too long for another check's claim", ErrUnavailable)
	}
}

// grounded reports whether the claim is this process's own and nothing is in
// the air for it: left behind by a flight that ended, or by this very attempt.
func (w *wait) grounded(h holder) bool {
	f := w.g.flights.find(h.check)
	return w.g.fencing.isOwn(h.node) && (f == nil || f.of == w.at)
}
