package hotpath

import (
	"maps"
	"math"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// How grants raise limits (S91). A node has the grants that are not over in its view of the configuration, and judges by those
// that are open at the check's timestamp. Each change of a grant, and each change of a key after which it may grant no more, is a
// stop: the store refuses a commit that was judged before it (spend.Fence.Stops). So a row says by which grants it was judged.

// grants are the grants that are not revoked and not over, by their counters. Nil means that there are none.
type grants map[spend.ID][]*audit.BudgetGrant

// with returns the grants after changes, which are in their order, without those that are over.
func (g grants) with(changes []audit.Change, now time.Time) (grants, error) {
	if g == nil && len(changes) == 0 {
		return nil, nil
	}
	next := maps.Clone(g)
	if next == nil {
		next = make(grants)
	}
	for i := range changes {
		c := &changes[i]
		terms, by, err := audit.GrantOf(c)
		if err != nil {
			return nil, err
		}
		id, err := spend.ParseID(c.Subject, spend.PrefixGrant)
		if err != nil {
			return nil, err
		}
		of := slices.Clone(next[terms.Counter.ID])
		place := slices.IndexFunc(of, func(g *audit.BudgetGrant) bool { return g.ID == id })
		changed := audit.BudgetGrant{GrantTerms: terms, ID: id}
		if place >= 0 {
			changed = *of[place]
			of = slices.Delete(of, place, place+1)
		}
		changed.Apply(c.Kind, by)
		next[terms.Counter.ID] = append(of, &changed)
	}
	maps.DeleteFunc(next, func(id spend.ID, of []*audit.BudgetGrant) bool {
		next[id] = slices.DeleteFunc(slices.Clone(of), func(g *audit.BudgetGrant) bool {
			return g.Revoked != nil || now.After(g.Until.Add(audit.GrantMargin))
		})
		return len(next[id]) == 0
	})
	if len(next) == 0 {
		return nil, nil
	}
	return next, nil
}

// GrantStatus is the state of a grant.
type GrantStatus string

// The states of grants.
const (
	GrantPending GrantStatus = "pending" // people must approve it
	GrantOpen    GrantStatus = "open"
	GrantRevoked GrantStatus = "revoked"
	GrantEnded   GrantStatus = "ended" // its time is over, or its granter may grant no more
)

// asOfNow stands for the last stop, which a view is judged by.
const asOfNow = math.MaxInt64

// record returns the view's grants as a record.
func (v *view) record() *audit.GrantRecord {
	return &audit.GrantRecord{Of: v.grants, Standing: func(keyID string, _ int64) (audit.KeyStanding, bool) {
		k := v.named[keyID]
		if k == nil {
			return audit.KeyStanding{}, false
		}
		return audit.KeyStanding{Party: k.party(), Active: k.Active, Grants: k.Grants, GranterSince: k.GranterSince}, true
	}}
}

// statusOf returns the state of a grant at a time, and how many people are missing.
func (v *view) statusOf(g *audit.BudgetGrant, at time.Time) (status GrantStatus, missing int) {
	record := v.record()
	switch {
	case g.Revoked != nil:
		return GrantRevoked, 0
	case !at.Before(g.Until) || !record.Counts(&g.By, asOfNow, at):
		return GrantEnded, 0
	}
	if missing = max(0, g.Required-len(record.Approvers(g, asOfNow, at))); missing > 0 {
		return GrantPending, missing
	}
	return GrantOpen, 0
}

// raise adds the grants that are open at a time to the limits of charges.
func (v *view) raise(charges []spend.Charge, at time.Time) {
	if v.grants == nil {
		return
	}
	record := v.record()
	for i := range charges {
		given := record.Given(&charges[i], asOfNow, at)
		charges[i].Grant(given.Used, given.Count, given.Raised)
	}
}

// granted returns what the open grants of a budget's counter add to its limits at a time.
func (v *view) granted(b *policy.BudgetInfo, c spend.Counter, at time.Time) spend.Usage {
	charge := []spend.Charge{{Counter: c, Limited: b.Limited, Counted: b.Counted}}
	v.raise(charge, at)
	return charge[0].Granted
}
