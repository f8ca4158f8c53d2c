package hotpath

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

const (
	// unreadBytes bounds the metadata of an unread redemption, which its commit sends once more.
	unreadBytes = 4096
	// unreadPause is how long an API key's redemptions read their checks first after a
	// commit was refused because of one that did not: that commit was made again for all others in it.
	unreadPause = time.Minute
	// aheadBy is by how much the clock of another node, or the store's, may be ahead.
	aheadBy = time.Minute
)

// RedeemUnread redeems a check that is not read before, if the request says enough of it and the
// store is able to compare that in the commit (S74, F136). The redemption's check has what spend.Outcome
// says of Unread. It returns nil when nothing was recorded, and nothing is known: the check is to be read, and Redeem is
// to be called. Errors: ErrOverloaded, or ErrUnavailable, as of Redeem.
func (a *Authorizer) RedeemUnread(ctx context.Context, r Request, id spend.ID, asked Redemption) (*spend.Outcome, error) {
	said, terms := a.saidOf(r.Access, id, &asked)
	if said == nil || r.Payment != nil {
		return nil, nil
	}
	if _, ok := a.writer.Reserve(); !ok {
		return nil, ErrOverloaded
	}
	reporting := reporting{a: a, deadline: r.Started.Add(blindFor), access: r.Access}
	defer func() {
		if !reporting.handedOver {
			a.writer.Free()
		}
	}()
	o := redemptionOf(r, said, &asked, terms)
	o.Step, o.Unread = 1, true
	if err := reporting.record(ctx, o); err != nil {
		_, row := errors.AsType[*audit.RowError](err)
		if reporting.refused != nil || row {
			a.unread.refuse(o.KeyID, a.now())
		}
		if row || errors.Is(err, errOvertaken) {
			return nil, nil
		}
		return nil, err
	}
	a.metrics.outcomes.WithLabelValues(string(o.Status), string(o.Release)).Inc()
	if err := a.readUnread(ctx, o); err != nil {
		return o, err
	}
	return o, a.mayAnswer(ctx, r.Started, r.Access, o.Check, true)
}

// saidOf returns what a request says of the check that it redeems, with the terms of the policy
// version that probably allowed it; nil if that is too little, or the check should be read first.
func (a *Authorizer) saidOf(access Access, id spend.ID, asked *Redemption) (said *spend.Check, terms spend.RedeemTerms) {
	action := asked.Action
	if a.catalog.view().mustRead(id) || action == nil || action.PolicyID == "" || action.Type == spend.Unspecified ||
		len(action.Metadata.JSON) > unreadBytes || access.permitAction(action.PolicyID, action.AgentID) != nil || access.own() != "" {
		return nil, terms
	}
	version, terms := a.likelyTerms(action.PolicyID)
	if version == 0 {
		return nil, terms
	}
	now := a.now()
	if age := now.Sub(id.Time()); age < -aheadBy || age > terms.Within() || !a.unread.may(access.key.name, now) || !a.store.Unread(id) {
		return nil, terms
	}
	return &spend.Check{
		ID: id, Action: *action, ActionType: action.Type, Decision: spend.Decision{Effect: spend.Allow, PolicyVersion: version},
	}, terms
}

// likelyTerms returns the version of a policy that most checks which are redeemed now were allowed by,
// with its terms: the one in force, or at a node that checks nothing the one asked for last. 0 is none.
func (a *Authorizer) likelyTerms(policyID string) (version int, terms spend.RedeemTerms) {
	if p, _ := a.catalog.cached(policyID); p != nil {
		return p.Version(), p.RedeemTerms()
	}
	return a.terms.ofLast(policyID)
}

// readUnread reads the check of a recorded redemption if the commit did not, since its answer was
// lost. It fails if the check is another than was said: the store has to compare them.
func (a *Authorizer) readUnread(ctx context.Context, o *spend.Outcome) error {
	if !o.Unread {
		return nil
	}
	found, err := a.store.Checks(ctx, []spend.ID{o.CheckID})
	switch {
	case err != nil:
		return fmt.Errorf("%w: cannot read a redeemed check: %w", ErrUnavailable, err)
	case len(found) == 0:
		return fmt.Errorf("%w: the store lacks a redeemed check", ErrUnavailable)
	case !found[0].Carries(o.Check):
		a.log.Error("BUG: a check was redeemed for another action", "check", o.CheckID.Text(spend.PrefixCheck))
		return fmt.Errorf("%w: the check is another one", ErrUnavailable)
	}
	o.Check, o.Unread = found[0], false
	return nil
}

// unread are the API keys of which a commit refused a redemption lately whose check
// was not read before. Their number bounds how often the commit of other requests is made again
// because of them.
type unread struct {
	mu      sync.Mutex
	refused map[string]time.Time // when, by name
}

func (u *unread) may(key string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, refused := u.refused[key]
	if refused && now.Sub(at) > unreadPause {
		delete(u.refused, key)
		refused = false
	}
	return !refused
}

func (u *unread) refuse(key string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refused == nil {
		u.refused = make(map[string]time.Time)
	}
	u.refused[key] = now
}
