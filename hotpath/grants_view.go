package hotpath

import (
	"maps"
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

// statusOf returns the state of a grant at a time, and how many people are missing.
func (v *view) statusOf(g *audit.BudgetGrant, at time.Time) (status GrantStatus, missing int) {
	switch {
	case g.Revoked != nil:
		return GrantRevoked, 0
	case !at.Before(g.Until) || !v.mayGrant(&g.By, at):
		return GrantEnded, 0
	}
	if missing = max(0, g.Required-len(v.approvalsOf(g, at))); missing > 0 {
		return GrantPending, missing
	}
	return GrantOpen, 0
}

// mayGrant reports whether what somebody granted, or approved, still counts at a time: a key is in force, may grant, and was not
// stopped since (S92). What was done in a session counts as it was.
func (v *view) mayGrant(by *audit.Release, at time.Time) bool {
	k := v.named[by.By.KeyID]
	if k == nil {
		_, err := spend.ParseID(by.By.KeyID, spend.PrefixSession)
		return err == nil
	}
	return k.inForce(func() time.Time { return at }) == nil && k.Stopped <= by.Seq && (Access{k}).mayGrant() == nil
}

// approvalsOf returns the people, others than the granter, whose approval of a grant counts at a time: of each person the first.
func (v *view) approvalsOf(g *audit.BudgetGrant, at time.Time) (people []audit.Party) {
	granter := v.partyOf(&g.By)
	for i := range g.Approvals {
		by := &g.Approvals[i]
		party := v.partyOf(by)
		if v.mayGrant(by, at) && !party.Shares(granter) && !slices.ContainsFunc(people, party.Shares) {
			people = append(people, party)
		}
	}
	return people
}

// partyOf returns who is behind a grant or an approval: behind a key, who is now.
func (v *view) partyOf(by *audit.Release) audit.Party {
	if k := v.named[by.By.KeyID]; k != nil {
		return k.party()
	}
	return by.Party()
}

// raise adds the grants that are open at a time to the limits of charges.
func (v *view) raise(charges []spend.Charge, at time.Time) {
	for i := range charges {
		c := &charges[i]
		for _, g := range v.grants[c.Counter.ID] {
			if status, _ := v.statusOf(g, at); status == GrantOpen && g.Covers(c) {
				c.Grant(g.AddAmount, g.AddCount, g.Last)
			}
		}
	}
}

// granted returns what the open grants of a budget's counter add to its limits at a time.
func (v *view) granted(b *policy.BudgetInfo, c spend.Counter, at time.Time) spend.Usage {
	charge := []spend.Charge{{Counter: c, Limited: b.Limited, Counted: b.Counted}}
	v.raise(charge, at)
	return charge[0].Granted
}
