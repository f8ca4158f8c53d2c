package guard

import (
	"context"
	"fmt"
	"time"

	"spendgate/hotpath/spend"
	"spendgate/ratelimit"
)

const (
	// staleAfter is when a claim without a record is taken for abandoned: its
	// own request was answered, or refused, well before. Safety does not rest
	// on it; the fence does.
	staleAfter = 2500 * time.Millisecond
	// maxWait bounds a check's wait for others' claims.
	maxWait = staleAfter + 1500*time.Millisecond
	// How often a foreign claim is looked at: 5, 10, 20, 20 ... ms.
	pollFirst, pollMost = 5 * time.Millisecond, 20 * time.Millisecond
)

// keyLife is how long an idempotency key is claimed in Redis. The store's row
// decides, for 24 hours (S18); a claim only spares the commit a conflict, which
// is worth no memory once retries are unlikely.
const keyLife = time.Hour

// Attempt is one check on its way to being recorded. The exported fields are
// the caller's; they may change between calls of Claim, never during one.
type Attempt struct {
	Fingerprint spend.Hash
	Window      time.Duration // of the policy that judges
	KeyHash     spend.Hash    // zero without an idempotency key
	RequestSHA  spend.Hash
	Generation  string    // that the policy and the key were loaded under; empty when they are known to be fresh
	Charge      ratelimit.Charge    // counted once, however often Claim is called
	Deadline    time.Time // when it may no longer claim what another failed to record

	asked ask  // with the latest hot batch
	f     held // the fingerprint
	k     held // the idempotency key
	fence spend.Fence
	inAir []*flight
	few   [2]*flight // where inAir begins
	paid  bool       // Charge was counted, at place
	place ratelimit.Place
	// verify: f was free only as far as Redis knows.
	verify bool
}

// held is one claim of an attempt.
type held struct {
	mine  bool
	name  string
	value string
	plain string    // the value before Abandon marked it an orphan; Redis may hold either
	id    spend.ID  // fresh for each SET
	since time.Time // Redis' clock
	until time.Time // latest end of any window left on the name
	// replaced is the recorded claim that this one took over because it had
	// aged out of this policy's window; others' may still see it.
	replaced      *holder
	replacedUntil time.Time // by the local clock
	// unverified: taken over from a dead claim, which may have replaced a
	// recorded one; the store was not asked yet.
	unverified bool
}

// Kind is how an attempt ends before it is judged.
type Kind int

// The kinds of an Outcome.
const (
	Pass      Kind = iota + 1 // judge it and record it
	Duplicate                 // record it as a duplicate of Of
	Replay                    // answer Check again
	KeyReused                 // refuse: the key is another request's
	Stale                     // the configuration is newer: load it and claim again
	Limited                   // refuse: over the rate limit
)

// Outcome is what Claim found.
type Outcome struct {
	Kind    Kind
	Of      spend.ID     // Duplicate: the recorded check
	Check   *spend.Check // Replay: the recorded check
	Reading Reading      // of the round trip that decided
}

func (at *Attempt) keyed() bool { return !at.KeyHash.IsZero() }

// Claim asks for the right to record the attempt. With Pass and Duplicate the
// caller must end it by Committed, Release or Reclaim; after any other outcome
// and after an error nothing is held.
func (g *Guard) Claim(ctx context.Context, at *Attempt) (Outcome, error) {
	out, err := g.claim(ctx, at)
	if err != nil || out.Kind != Pass && out.Kind != Duplicate {
		g.drop(at)
	}
	if err != nil || out.Kind != Pass && out.Kind != Duplicate && out.Kind != Stale {
		g.flights.end(at, nil)
	}
	return out, err
}

// claim is the claim state machine; the package comment shows it whole.
func (g *Guard) claim(ctx context.Context, at *Attempt) (Outcome, error) {
	for {
		a, err := g.hotBatch(ctx, at)
		if err != nil {
			return Outcome{}, err
		}
		reading := at.read(a)
		if at.Generation != "" && reading.Generation != at.Generation {
			return Outcome{Kind: Stale, Reading: reading}, nil
		}
		// Without a charge, the request was counted and judged before.
		if _, admitted := reading.Place.Judge(at.Charge.Limit); at.Charge.Key != "" && !admitted {
			if !reading.Counted && reading.Place.Ended(reading.Now) {
				g.drop(at) // refused from memory, in a window that is over
				continue
			}
			g.Refuse(at.Charge, reading)
			return Outcome{Kind: Limited, Reading: reading}, nil
		}
		var out Outcome
		var again bool
		switch {
		case at.keyed() && !at.k.mine:
			g.letGo(&at.f) // nobody waits on k while holding f
			out, again, err = g.awaitKey(ctx, at, a.claims[0].held)
		case !at.f.mine:
			out, again, err = g.awaitFingerprint(ctx, at, a.claims[1].held)
		default:
			out = Outcome{Kind: Pass}
		}
		if err == nil && !again && out.Kind == Pass && at.verify {
			out, again, err = g.verifyFresh(ctx, at)
		}
		if err != nil {
			return Outcome{}, err
		}
		if !again {
			out.Reading = reading
			return out, nil
		}
	}
}

// read takes what a hot batch says of the attempt as a request.
func (at *Attempt) read(a *ask) Reading {
	if a.counted {
		at.paid = true
	}
	if a.charge.Key != "" || a.counted {
		at.place = a.place
	}
	return Reading{a.reading.generation, at.place, at.paid, a.reading.now}
}

// hotBatch claims what the attempt does not hold yet.
func (g *Guard) hotBatch(ctx context.Context, at *Attempt) (*ask, error) {
	for range maxDrifts {
		a, err := g.claimOnce(ctx, at)
		if err != nil || !at.drifted(a) {
			return a, err
		}
		at.read(a)
		g.drop(at) // stamped with a wrong time; Redis' is known now
	}
	return nil, fmt.Errorf("%w: redis' clock keeps jumping", ErrUnavailable)
}

// maxDrift is more than a claim waits to be sent; maxDrifts is how often one
// may be made again with a better time.
const (
	maxDrift  = 2 * time.Second
	maxDrifts = 4
)

// drifted reports whether a claim just made was stamped by a clock that is not
// Redis': the node was suspended, or has never heard this server. Its age
// would be wrong.
func (at *Attempt) drifted(a *ask) bool {
	return at.k.mine && a.claims[0].name != "" && at.k.drifted(a) || at.f.mine && a.claims[1].name != "" && at.f.drifted(a)
}

func (h held) drifted(a *ask) bool { return a.reading.now.Sub(h.since).Abs() > maxDrift }

// claimOnce sends one hot batch.
func (g *Guard) claimOnce(ctx context.Context, at *Attempt) (*ask, error) {
	a := &at.asked
	err := g.trip(ctx, a, func(ask *ask, w marker) {
		node := *g.node.Load()
		if at.fence.Epoch != w.epoch || at.fence.Node != node {
			// Claims of an older epoch are void; those of an older incarnation
			// could not be committed.
			g.drop(at)
			at.fence = spend.Fence{Node: node, Epoch: w.epoch}
		}
		if !at.paid {
			ask.charge = at.Charge
		}
		now := g.batch.now()
		if at.keyed() && !at.k.mine {
			at.k = g.fresh(at, keyName(w.epoch, at.KeyHash), now, keyLife)
			at.k.value = holder{pending, node, at.k.id, now.UnixMilli()}.String()
			ask.claims[0] = claim{name: at.k.name, value: at.k.value, px: keyLife}
		}
		if !at.f.mine {
			at.f = g.fresh(at, fingerprintName(w.epoch, at.Fingerprint), now, at.Window)
			at.f.value = holder{pending, node, at.f.id, now.UnixMilli()}.String()
			ask.claims[1] = claim{name: at.f.name, value: at.f.value, px: at.Window}
		}
	})
	if err != nil {
		return nil, err
	}
	if c := &a.claims[0]; c.name != "" {
		at.k.mine = c.held == ""
	}
	if c := &a.claims[1]; c.name != "" {
		at.f.mine = c.held == ""
		at.verify = !a.reading.windows.full
	}
	return a, nil
}

// fresh prepares a claim under an ID of its own and registers it, so that
// others on this node can wait for it from the moment Redis has it.
func (g *Guard) fresh(at *Attempt, name string, now time.Time, life time.Duration) held {
	h := held{name: name, id: spend.NewID(time.Now()), since: now, until: now.Add(life)}
	g.flights.join(at, h.id)
	return h
}

// awaitKey: k is another attempt's. Its row in the store decides; without one
// the holder is waited for, and taken over once it is stale.
func (g *Guard) awaitKey(ctx context.Context, at *Attempt, value string) (out Outcome, again bool, err error) {
	h, err := parseHolder(value)
	if err != nil {
		g.mend(err, at.asked.windows)
		return out, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	w, cancel := g.newWait(ctx, at, at.k.name, value)
	defer cancel()
	for {
		if f := g.flights.find(h.check); f != nil && f.of != at {
			check, err := g.await(w.ctx, at, f)
			if err != nil {
				return out, false, err
			}
			if check != nil && check.Action.IdempotencyKey != "" {
				return at.replay(check), false, nil
			}
		}
		if check, err := g.records.underKey(w.ctx, at.KeyHash); err != nil || check != nil {
			return at.replay(check), false, err
		}
		changed, stale, err := w.look(h)
		if err != nil || changed {
			return out, true, err
		}
		if !stale {
			continue
		}
		if check, err := g.absentUnderKey(w.ctx, h.node, at.KeyHash); err != nil || check != nil {
			return at.replay(check), false, err
		}
		g.metrics.takeovers.Inc()
		return out, true, g.takeKey(ctx, at, value)
	}
}

// absentUnderKey makes what the node has recorded final and looks again: no
// check now means never one of that node.
func (g *Guard) absentUnderKey(ctx context.Context, node spend.ID, keyHash spend.Hash) (*spend.Check, error) {
	if err := g.makeFinal(ctx, node); err != nil {
		return nil, err
	}
	return g.records.underKey(ctx, keyHash)
}

// takeKey swaps k to this attempt; whether it worked or not, a hot batch is
// next.
func (g *Guard) takeKey(ctx context.Context, at *Attempt, old string) error {
	mine, a, err := g.take(ctx, at, at.k.name, old, keyLife, false)
	if a != nil {
		at.k = mine
	}
	return err
}

// take swaps a name that still has the old value to a fresh claim of the
// attempt. It gives no ask when that was not to be done.
func (g *Guard) take(ctx context.Context, at *Attempt, name, old string, life time.Duration, keepLonger bool) (mine held, a *ask, err error) {
	a, err = g.swap(ctx, at, func() swap {
		now := g.batch.now()
		mine = g.fresh(at, name, now, life)
		mine.value = holder{pending, at.fence.Node, mine.id, now.UnixMilli()}.String()
		return swap{name: name, old: old, new: mine.value, px: life, keepLonger: keepLonger}
	})
	if a != nil && mine.drifted(a) {
		g.flights.leave(mine.id) // to be taken over at once, with a better time
		a = nil
	}
	mine.mine = a != nil
	return mine, a, err
}

// swap replaces a value in the attempt's epoch. It gives no ask when the value
// is another by now, or the epoch: the hot batch then starts over.
func (g *Guard) swap(ctx context.Context, at *Attempt, build func() swap) (*ask, error) {
	a := new(ask)
	err := g.trip(ctx, a, func(a *ask, w marker) {
		if w.epoch == at.fence.Epoch {
			s := build()
			a.swap = &s
		}
	})
	if err != nil || a.swap == nil || !a.swap.done {
		return nil, err
	}
	return a, nil
}

// replay answers a recorded check of the attempt's key: again if the request
// is the same by meaning, else not at all (S18).
func (at *Attempt) replay(check *spend.Check) Outcome {
	switch {
	case check == nil:
		return Outcome{}
	case check.RequestSHA != at.RequestSHA:
		return Outcome{Kind: KeyReused}
	default:
		return Outcome{Kind: Replay, Check: check}
	}
}
