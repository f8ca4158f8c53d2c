package guard

import (
	"context"
	"time"

	"spendgate/audit/spend"
)

// A check that was given back and was carried out after all holds its fingerprint again, unless
// another check took it (S61). Redis may have forgotten the check meanwhile, so the report claims the
// fingerprint first, as a check does: its commit is behind the fence of that claim, and nobody passes
// until it has ended (F97, F98).

// ClaimFor claims a fingerprint for its recorded check. It returns false, with nothing held, if there
// is nothing to hold: the check's windows have ended, or another check passed after it. Else the
// attempt is ended by HandOver or by Release.
func (g *Guard) ClaimFor(ctx context.Context, at *Attempt, check *spend.Check) (bool, error) {
	left := time.Duration(check.Pass.UntilMS-g.redis.Earliest().UnixMilli()) * time.Millisecond
	if left <= 0 {
		return false, nil
	}
	at.Fingerprint, at.Window, at.restored = check.Fingerprint, left, check
	out, err := g.Claim(ctx, at)
	if err == nil && out.Kind == Duplicate {
		g.Release(at)
	}
	return err == nil && out.Kind == Pass, err
}

// Fence returns the fence that the commit of a claimed attempt must pass.
func (at *Attempt) Fence() spend.Fence { return at.fence }

// HandOver ends an attempt of ClaimFor whose commit is recorded: from now on its check holds the name.
func (g *Guard) HandOver(at *Attempt) {
	f, pass := &at.fingerprint, at.restored.Pass
	f.replaced = &holder{state: committed, check: at.restored.ID, claimedMS: pass.ClaimedMS}
	f.replacedUntil = maxTime(f.replacedUntil, time.Now().Add(time.UnixMilli(pass.UntilMS).Sub(g.redis.Earliest())))
	g.Release(at)
}

// blocks reports whether a recorded holder blocks the attempt: in its window, or, of
// one for a recorded check, when it passed after that check.
func (at *Attempt) blocks(h holder, now time.Time) bool {
	if at.restored != nil {
		return h.claimedMS >= at.restored.Pass.ClaimedMS
	}
	return h.age(now) < at.Window
}
