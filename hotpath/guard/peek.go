package guard

import (
	"context"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Seen is a recorded pass of a fingerprint.
type Seen struct {
	CheckID spend.ID
	Age     time.Duration
	Payment spend.Hash // that the check is of, if the caller has found that out
	Behind  *Seen      // the pass before it, if the caller has found that out; nil for none
}

// Peek reads which fingerprints a recorded check left, for simulations: it
// claims nothing (G10). A claim that is not recorded yet is not seen. Keys of
// the answer are the fingerprints found. judgesAgain leaves those out that were
// blocked, as an Attempt's does.
func (g *Guard) Peek(ctx context.Context, fingerprints []spend.Hash, judgesAgain bool) (map[spend.Hash]Seen, error) {
	var r request
	err := g.roundTrip(ctx, &r, func(r *request, w marker) {
		for _, fp := range fingerprints {
			r.Gets = append(r.Gets, fingerprintName(w.epoch, fp))
		}
	})
	if err != nil {
		return nil, err
	}
	found := make(map[spend.Hash]Seen, len(fingerprints))
	heldBy := (&Attempt{JudgesAgain: judgesAgain}).heldBy()
	for i, fp := range fingerprints {
		seen, ok, err := g.peekOne(ctx, fp, heldBy, r.Values[i], r.reading)
		if err != nil {
			return nil, err
		}
		if ok {
			found[fp] = seen
		}
	}
	return found, nil
}

func (g *Guard) peekOne(ctx context.Context, fp spend.Hash, heldBy spend.Effect, value string, r reading) (Seen, bool, error) {
	if h, err := parseHolder(value); err == nil {
		found, err := g.records.passOf(ctx, h.check)
		if err == nil && found != absent && found < audit.PassExpiring && heldBy < spend.Block {
			var check *spend.Check
			if check, _, err = g.records.checks.Get(ctx, h.check); check != nil && check.Decision.Effect > heldBy {
				found = audit.PassReleased // as good as
			}
		}
		if err != nil || found != absent && found < audit.PassExpiring {
			return Seen{CheckID: h.check, Age: h.age(r.now)}, err == nil, err
		}
	} else if r.windows.full && value == "" {
		return Seen{}, false, nil
	}
	// Redis does not have the answer: windows are lazy, or the earlier holder is hidden by a claim
	// that is not recorded, or was released or passed, or by a value that is not a claim.
	return g.peekBehind(ctx, fp, spend.ID{}, heldBy, r.now)
}

// PeekBehind is Peek of one fingerprint, of the passes that are older than a check.
func (g *Guard) PeekBehind(ctx context.Context, fingerprint spend.Hash, check spend.ID, judgesAgain bool) (Seen, bool, error) {
	return g.peekBehind(ctx, fingerprint, check, (&Attempt{JudgesAgain: judgesAgain}).heldBy(), g.redis.Earliest())
}

func (g *Guard) peekBehind(ctx context.Context, fp spend.Hash, check spend.ID, heldBy spend.Effect, now time.Time) (Seen, bool, error) {
	pass, ok, err := g.records.pass(ctx, fp, check, heldBy)
	seen := Seen{CheckID: pass.CheckID, Age: passHolder(pass).age(now)}
	if err != nil || !ok || pass.Effect != spend.Escalate {
		return seen, ok, err
	}
	// Nobody may have recorded yet that an approval has expired, and this may not (G10).
	state, err := g.records.passOf(ctx, pass.CheckID)
	return seen, err == nil && state < audit.PassExpiring, err
}
