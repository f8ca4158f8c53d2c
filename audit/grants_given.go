package audit

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/spend"
)

// GrantRecord is the record of grants (S91), by which nodes judge and verifiers derive again what they gave to a check. Each change of
// a grant is a stop, and so is each change of a key after which it may grant, or may grant no more: so the last stop by which a check
// was judged tells it.
type GrantRecord struct {
	Of map[spend.ID][]*BudgetGrant // by counter, in the order of creation
	// Standing returns what a key was by its last change up to a stop; false if it is no key.
	Standing func(keyID string, stops int64) (KeyStanding, bool)
}

// KeyStanding is what a key is at a stop.
type KeyStanding struct {
	Party

	Active       bool
	Grants       spend.Grants
	GranterSince int64 // the last change after which it may grant, and before which it might not; 0: none
}

// StandingOf returns what a key became by a change of it. GranterSince is 0 unless this is the change.
func StandingOf(c *Change) (at KeyStanding, err error) {
	var said struct {
		Active  bool `json:"active"`
		Granter bool `json:"granter"`
	}
	if at.Grants, err = spend.ParseGrants(c.Details); err == nil {
		err = json.Unmarshal([]byte(c.Details), &said)
	}
	if err != nil {
		return at, fmt.Errorf("cannot read a change of key %s: %w", c.Subject, err)
	}
	if at.Active = said.Active; said.Granter {
		at.GranterSince = c.Seq
	}
	at.Party = Party{KeyID: c.Subject, Principal: at.Grants.Principal, Owner: at.Grants.Owner}
	return at, nil
}

// Given is what open grants add to the limits of a counter.
type Given struct {
	spend.Usage
	Raised int64 // the last change of the open grants
	Phase  int64 // the last change of all grants of the counter
}

// Given returns what grants gave to a check of that time, by the last stop by which it was judged. The charge has its counter, and
// whether the budget has limits.
func (r *GrantRecord) Given(c *spend.Charge, stops int64, at time.Time) (all Given) {
	raised := spend.Charge{Limited: c.Limited, Counted: c.Counted}
	for _, g := range r.Of[c.Counter.ID] {
		if g.Seq > stops || !g.Covers(c) {
			continue
		}
		last := g.Seq
		for i := range g.Approvals {
			if seq := g.Approvals[i].Seq; seq <= stops {
				last = seq
			}
		}
		all.Phase = max(all.Phase, last)
		if g.Revoked != nil && g.Revoked.Seq <= stops {
			all.Phase = max(all.Phase, g.Revoked.Seq)
		}
		if r.open(g, stops, at) {
			raised.Grant(g.AddAmount, g.AddCount, last)
		}
	}
	all.Usage, all.Raised = raised.Granted, raised.Raised
	return all
}

// open reports whether a grant gave to checks of a time that were judged by a stop.
func (r *GrantRecord) open(g *BudgetGrant, stops int64, at time.Time) bool {
	return (g.Revoked == nil || g.Revoked.Seq > stops) && at.Before(g.Until) && r.Counts(&g.By, stops, at) &&
		len(r.Approvers(g, stops, at)) >= g.Required
}

// Approvers returns the people, others than the granter, whose approval of a grant counts: of each person the first.
func (r *GrantRecord) Approvers(g *BudgetGrant, stops int64, at time.Time) (people []Person) {
	granter := r.PersonOf(&g.By, stops)
	for i := range g.Approvals {
		by := &g.Approvals[i]
		person := r.PersonOf(by, stops)
		if by.Seq <= stops && r.Counts(by, stops, at) && !person.Shares(granter) && !slices.ContainsFunc(people, person.Shares) {
			people = append(people, person)
		}
	}
	return people
}

// Counts reports whether what somebody granted, or approved, counts for a check that was judged by a stop: a key is active then, and
// may grant at the check's timestamp, and might ever since. What was done in a session counts as it was.
func (r *GrantRecord) Counts(by *Release, stops int64, at time.Time) bool {
	k, known := r.Standing(by.By.KeyID, stops)
	if !known {
		_, err := spend.ParseID(by.By.KeyID, spend.PrefixSession)
		return err == nil
	}
	return k.Active && k.GranterSince <= by.Seq && mayGrant(&k.Grants, at)
}

// Person is who granted, or approved: as recorded then, and behind a key who it was at a stop, or is now.
type Person [2]Party

// Shares reports whether the same person may be behind both (S62).
func (p Person) Shares(other Person) bool {
	return slices.ContainsFunc(p[:], func(party Party) bool { return slices.ContainsFunc(other[:], party.Shares) })
}

// PersonOf returns who granted, or approved.
func (r *GrantRecord) PersonOf(by *Release, stops int64) Person {
	then := by.Party()
	if k, known := r.Standing(by.By.KeyID, stops); known {
		return Person{then, k.Party}
	}
	return Person{then, then}
}
