package guard

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"spendgate/audit/spend"
	"spendgate/hotpath/pipeline"
	"spendgate/ratelimit"
)

const (
	// staleAfter is when a claim without a record is taken for abandoned: its
	// own request was answered, or refused, well before. Safety does not rest
	// on it; the fence does.
	staleAfter = 2500 * time.Millisecond
	// maxWait bounds a check's wait for others' claims.
	maxWait = staleAfter + 1500*time.Millisecond
	// The intervals at which another check's claim is polled: 5, 10, 20, 20 ... ms.
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
	Namespace   string        // of idempotency keys (S59)
	RequestSHA  spend.Hash
	Generation  string        // that the policy and the key were loaded under; empty when they are known to be fresh
	Hit         ratelimit.Hit // counted once, however often Claim is called
	Deadline    time.Time     // after it, what another check failed to record is no longer claimed
	Approved    bool          // passes holders that were not allowed, since people approved it (S47)
	JudgesAgain bool          // the claim passes holders that were blocked: the policy says so (S60)
	Payment     spend.Hash    // that the check is of: the claim passes holders of the same (S84); zero for none
	Known       bool          // the caller looks the payment up; else the payment is claimed, too

	request     request // of the latest round trip that claimed
	fingerprint claim
	key         claim
	fence       spend.Fence

	inFlight       []*inFlightClaim
	inFlightBuffer [2]*inFlightClaim // where inFlight begins

	// InVain is set once the attempt has waited for a check of this node that was not recorded.
	InVain bool

	adopted string // the fingerprint's name, once the attempt is to be answered with the orphan that held it
	orphan  holder

	counted  bool // Hit was counted, at place
	place    ratelimit.Place
	restored *spend.Check // that the claim is for; nil of a check's own
	// verify: the fingerprint was free only as far as Redis knows.
	verify bool
}

// claim is a name that an attempt has claimed, or tried to.
type claim struct {
	mine  bool
	name  string
	value string
	// unmarked is the value before Abandon marked it as an orphan; Redis may hold either value.
	unmarked string
	id       spend.ID  // fresh for each SET
	since    time.Time // by Redis' clock
	until    time.Time // latest end of any window left on the name
	// replaced is the recorded claim that this one took over because it had aged out of this policy's
	// window; longer windows may still see it.
	replaced      *holder
	replacedUntil time.Time // by the local clock
	// unverified: taken over from a dead claim, which may have replaced a
	// recorded one; the store was not asked yet.
	unverified bool
}

// Kind is how an attempt ends before it is judged.
type Kind int

// The kinds of a ClaimResult.
const (
	Pass         Kind = iota + 1 // judge it and record it
	Duplicate                    // record it as a duplicate of Of
	Replay                       // answer Check again
	KeyReused                    // refuse: the key is another request's
	Stale                        // the configuration is newer: load it and claim again
	Limited                      // refuse: over the rate limit
	Gone                         // of KeyTaken: nothing is under the key by now, claim again
	PaymentKnown                 // the payment was claimed before: look it up and claim again
)

// ClaimResult is the result of Claim.
type ClaimResult struct {
	Kind    Kind
	Of      spend.ID     // Duplicate, KeyReused: the recorded check
	Asks    bool         // Duplicate: the recorded check asks for an approval
	Check   *spend.Check // Replay: the recorded check
	Reading Reading      // of the round trip that decided
}

// step says how an attempt goes on.
type step struct {
	next   next
	result ClaimResult // when done
}

type next int

const (
	proceed next = iota // nothing is decided by what was looked at
	retry               // send the claims again
	done
)

func pass() step { return step{done, ClaimResult{Kind: Pass}} }

func duplicateOf(h holder) step {
	return step{done, ClaimResult{Kind: Duplicate, Of: h.check, Asks: h.asks}}
}

func (at *Attempt) keyed() bool { return !at.KeyHash.IsZero() }

// keyHash returns what the claim of the key is of: the idempotency key, or a payment that was not looked up; zero for none.
func (at *Attempt) keyHash() spend.Hash {
	if at.Known {
		return at.KeyHash
	}
	return cmp.Or(at.KeyHash, at.Payment)
}

// named reports whether something says which check a repetition of the request is to get: no orphan is adopted for it.
func (at *Attempt) named() bool { return at.keyed() || !at.Payment.IsZero() }

// Claim asks for the right to record the attempt. With Pass and Duplicate the
// caller must end it by Committed, Release or Reclaim; after any other outcome
// and after an error nothing is held.
func (g *Guard) Claim(ctx context.Context, at *Attempt) (ClaimResult, error) {
	out, err := g.claim(ctx, at)
	if err != nil || out.Kind != Pass && out.Kind != Duplicate {
		g.releaseClaims(at)
	}
	if err != nil || out.Kind != Pass && out.Kind != Duplicate && out.Kind != Stale {
		g.inFlight.resolveAll(at, nil)
	}
	return out, err
}

// maxDrift is more than a claim waits to be sent; maxDrifts is how often one
// may be made again with a better time.
const (
	maxDrift  = 2 * time.Second
	maxDrifts = 4
)

// claim sends the claims until the replies decide the attempt.
func (g *Guard) claim(ctx context.Context, at *Attempt) (ClaimResult, error) {
	drifts := 0
	for {
		if err := g.sendClaims(ctx, at); err != nil {
			return ClaimResult{}, err
		}
		reading := at.read()
		if at.drifted() {
			g.releaseClaims(at) // stamped with a wrong time; Redis' is known now
			if drifts++; drifts == maxDrifts {
				return ClaimResult{}, fmt.Errorf("%w: redis' clock keeps jumping", ErrUnavailable)
			}
			continue
		}
		s, err := g.decide(ctx, at, reading)
		if err != nil {
			return ClaimResult{}, err
		}
		if s.next == done {
			s.result.Reading = reading
			return s.result, nil
		}
	}
}

// decide takes the states of an attempt in order.
func (g *Guard) decide(ctx context.Context, at *Attempt, reading Reading) (s step, err error) {
	ctx, cancel := at.inTime(ctx)
	defer cancel()
	if at.Generation != "" && reading.Generation != at.Generation {
		return step{done, ClaimResult{Kind: Stale}}, nil
	}
	if s = g.limit(at, reading); s.next != proceed {
		return s, nil
	}
	switch {
	case at.keyed() && !at.key.mine:
		g.releaseClaim(&at.fingerprint) // nobody waits for a key while holding a fingerprint
		return g.awaitKey(ctx, at, at.request.Sets[keySet].Found)
	case !at.Known && !at.Payment.IsZero() && !at.key.mine:
		at.Known = true
		return step{done, ClaimResult{Kind: PaymentKnown}}, nil
	case !at.fingerprint.mine:
		s, err = g.awaitFingerprint(ctx, at, at.request.Sets[fingerprintSet].Found)
	default:
		s = pass()
	}
	if err == nil && s.result.Kind == Pass && at.verify {
		return g.verifyFresh(ctx, at)
	}
	return s, err
}

// inTime bounds an attempt that has waited in vain by its deadline, because neither the wait nor a
// claim after it shows that the store answers (G7).
func (at *Attempt) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if !at.InVain {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, at.Deadline)
}

// limit refuses an attempt that is over its rate limit. Without a charge, the
// request was counted and judged before.
func (g *Guard) limit(at *Attempt, reading Reading) step {
	if at.Hit.Key == "" {
		return step{}
	}
	if _, admitted := reading.Place.Judge(at.Hit.Limit); admitted {
		return step{}
	}
	if !reading.Counted && reading.Place.Ended(reading.Now) {
		g.releaseClaims(at) // refused from memory, in a window that is over
		return step{next: retry}
	}
	g.Refuse(at.Hit, reading)
	return step{done, ClaimResult{Kind: Limited}}
}

// read returns the results of the round trip for the request.
func (at *Attempt) read() Reading {
	r := &at.request
	if r.Counted {
		at.counted = true
	}
	if r.Hit.Key != "" || r.Counted {
		at.place = r.Place
	}
	return Reading{r.reading.generation, at.place, at.counted, r.reading.now}
}

// drifted reports whether a claim just made was stamped by a clock that is not
// Redis': the node was suspended, or has never heard this server. Its age
// would be wrong.
func (at *Attempt) drifted() bool {
	r := &at.request
	return at.key.mine && r.Sets[keySet].Name != "" && at.key.drifted(r) ||
		at.fingerprint.mine && r.Sets[fingerprintSet].Name != "" && at.fingerprint.drifted(r)
}

func (c *claim) drifted(r *request) bool { return r.reading.now.Sub(c.since).Abs() > maxDrift }

// Where a request has its two claims.
const (
	keySet = iota
	fingerprintSet
)

// sendClaims sends the claims that the attempt does not hold yet.
func (g *Guard) sendClaims(ctx context.Context, at *Attempt) error {
	r := &at.request
	err := g.roundTrip(ctx, r, func(r *request, w marker) {
		node := *g.node.Load()
		if at.fence.Epoch != w.epoch || at.fence.Node != node {
			// Claims of an older epoch are void; claims of an older incarnation
			// could not be committed.
			g.releaseClaims(at)
			at.fence = spend.Fence{Node: node, Epoch: w.epoch}
		}
		if !at.counted {
			r.Hit = at.Hit
		}
		if hash := at.keyHash(); !hash.IsZero() && !at.key.mine {
			at.key = g.newClaim(at, keyName(w.epoch, hash), keyLife)
			r.Sets[keySet] = pipeline.Set{Name: at.key.name, Value: at.key.value, Life: keyLife}
		}
		if !at.fingerprint.mine {
			at.fingerprint = g.newClaim(at, fingerprintName(w.epoch, at.Fingerprint), at.Window)
			r.Sets[fingerprintSet] = pipeline.Set{Name: at.fingerprint.name, Value: at.fingerprint.value, Life: at.Window}
		}
	})
	if err != nil {
		return err
	}
	if s := &r.Sets[keySet]; s.Name != "" {
		at.key.mine = s.Found == ""
	}
	if s := &r.Sets[fingerprintSet]; s.Name != "" {
		at.fingerprint.mine = s.Found == ""
		at.verify = !r.reading.windows.full
	}
	return nil
}

// newClaim prepares a claim under an ID of its own and registers it, so that other requests on this
// node can wait for it from the moment Redis has it.
func (g *Guard) newClaim(at *Attempt, name string, life time.Duration) claim {
	now := g.redis.Latest()
	c := claim{name: name, id: spend.NewID(time.Now()), since: now, until: now.Add(life)}
	c.value = holder{state: pending, node: at.fence.Node, check: c.id, claimedMS: now.UnixMilli()}.String()
	g.inFlight.add(at, c.id)
	return c
}

// takeKey swaps the key to this attempt.
func (g *Guard) takeKey(ctx context.Context, at *Attempt, old string) error {
	mine, r, err := g.take(ctx, at, pipeline.Swap{Name: at.key.name, Old: old, Life: keyLife})
	if r != nil {
		at.key = mine
	}
	return err
}

// take swaps a name that still has the old value to a new claim of the attempt.
// It returns no request when that was not done.
func (g *Guard) take(ctx context.Context, at *Attempt, s pipeline.Swap) (mine claim, r *request, err error) {
	r, err = g.swap(ctx, at, func() pipeline.Swap {
		mine = g.newClaim(at, s.Name, s.Life)
		s.New = mine.value
		return s
	})
	if r != nil && mine.drifted(r) {
		g.inFlight.abandon(mine.id) // to be taken over at once, with a better time
		r = nil
	}
	mine.mine = r != nil
	return mine, r, err
}

// swap replaces a value in the attempt's epoch. It returns no request when the
// value is another by now, or the epoch: the claims are then sent again.
func (g *Guard) swap(ctx context.Context, at *Attempt, build func() pipeline.Swap) (*request, error) {
	r := new(request)
	err := g.roundTrip(ctx, r, func(r *request, w marker) {
		if w.epoch == at.fence.Epoch {
			s := build()
			r.Swap = &s
		}
	})
	if err != nil || r.Swap == nil || !r.Swap.Done {
		return nil, err
	}
	return r, nil
}

// replace is swap for a value that is known. Where it was not done, the claims are to be sent again.
func (g *Guard) replace(ctx context.Context, at *Attempt, s pipeline.Swap) (step, error) {
	r, err := g.swap(ctx, at, func() pipeline.Swap { return s })
	if err == nil && r == nil {
		return step{next: retry}, nil
	}
	return step{}, err
}

// replay answers with a recorded check of the attempt's key, if there is one:
// again if the request is the same by meaning, else not at all (S18).
func (at *Attempt) replay(check *spend.Check) step {
	switch {
	case check == nil:
		return step{}
	case check.RequestSHA != at.RequestSHA:
		return step{done, ClaimResult{Kind: KeyReused, Of: check.ID}}
	default:
		return step{done, ClaimResult{Kind: Replay, Check: check}}
	}
}
