package verify

import (
	"reflect"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// grants are the grants of the record (S91). Each change of one is a stop, and so is each change of a key after which it may grant,
// or may grant no more: so by the last stop that a check's row names, the record tells which grants gave to the check.
type grants struct {
	named map[string]*audit.BudgetGrant     // by grant_id
	of    map[spend.ID][]*audit.BudgetGrant // by counter
	stops []stop                            // the changes of grants and keys, in their order
}

type stop struct {
	seq int64
	at  time.Time
}

// given is what open grants add to the limits of a counter.
type given struct {
	spend.Usage
	raised int64 // the last change of the open grants
	phase  int64 // the last change of all grants of the counter
}

// grant follows the changes of grants, and names those that could not have been made, which count for nothing.
func (w *changeWalk) grant(c Change) error {
	w.stop(c)
	fields, err := chain.ParseFields(nil, c.Row)
	if err != nil {
		return err
	}
	change := audit.Change{Seq: c.Seq, Kind: c.Kind, Subject: c.Subject, At: c.At, Details: string(fields[changeDetails])}
	const principal = 6 // among chain.Changes
	change.By.KeyID, change.By.Principal = string(fields[changeKeyID]), string(fields[principal])
	terms, by, malformed := audit.GrantOf(&change)
	id, err := spend.ParseID(c.Subject, spend.PrefixGrant)
	g, wrong := w.grants.named[c.Subject], ""
	switch creates := c.Kind == audit.GrantCreated; {
	case malformed != nil, err != nil:
		wrong = "it is not one of a grant"
	case c.Hash != terms.Hash():
		wrong = "its hash is not that of the counter which it names"
	case creates && g != nil:
		wrong = "the grant was created before"
	case creates && !possible(&terms, c.At):
		wrong = "it adds an amount and a number, or neither, or for too long"
	case !creates && g == nil:
		wrong = "there is no such grant"
	case !creates && !reflect.DeepEqual(g.GrantTerms, terms):
		wrong = "the grant has other terms"
	case !creates && g.Revoked != nil:
		wrong = "the grant was revoked before"
	}
	if wrong != "" {
		w.tally.find(Inserted, changeName(c.Seq), "%s", wrong)
		return nil
	}
	if g == nil {
		g = &audit.BudgetGrant{GrantTerms: terms, ID: id}
		if w.grants.named == nil {
			w.grants.named, w.grants.of = make(map[string]*audit.BudgetGrant), make(map[spend.ID][]*audit.BudgetGrant)
		}
		w.grants.named[c.Subject] = g
		w.grants.of[terms.Counter.ID] = append(w.grants.of[terms.Counter.ID], g)
	}
	g.Apply(c.Kind, by)
	return nil
}

// stop notes a change by which checks are judged.
func (w *changeWalk) stop(c Change) { w.grants.stops = append(w.grants.stops, stop{c.Seq, c.At}) }

// possible reports whether a grant may have these terms. The end of a calendar window is not among them.
func possible(t *audit.GrantTerms, at time.Time) bool {
	most := at.Add(audit.MaxGrantTime + lateCommit)
	if t.Counter.BucketMS == 0 && t.Counter.StartMS != 0 {
		most = t.Until
	}
	return t.AddCount >= 0 && t.AddAmount.IsZero() == (t.AddCount > 0) && t.Until.After(at.Add(-lateCommit)) && !t.Until.After(most)
}

// mayGrant reports whether what somebody granted, or approved, counts for a check that was judged by a stop: a key is active then, and
// may grant at the check's timestamp, and what it was allowed was not stopped since. What was done in a session counts as it was.
func (v *verifier) mayGrant(by *audit.Release, stops int64, at time.Time) bool {
	k, known := v.approvals.standing(by.By.KeyID, stops+1)
	if !known {
		_, err := spend.ParseID(by.By.KeyID, spend.PrefixSession)
		return err == nil
	}
	g := &k.grants
	return k.active && g.Permitted().Has(spend.BudgetsGrant) && g.PolicyIDs == nil && g.AgentIDs == nil &&
		(g.ExpiresAt.IsZero() || at.Before(g.ExpiresAt)) &&
		!slices.ContainsFunc(v.keyStops[by.By.KeyID], func(seq int64) bool { return by.Seq < seq && seq <= stops })
}

// grantsAs returns who granted, or approved: behind a key, who it was at a stop.
func (v *verifier) grantsAs(by *audit.Release, stops int64) audit.Party {
	if k, known := v.approvals.standing(by.By.KeyID, stops+1); known {
		return k.Party
	}
	return by.Party()
}

// isOpen reports whether a grant gave to checks of a time that were judged by a stop.
func (v *verifier) isOpen(g *audit.BudgetGrant, stops int64, at time.Time) bool {
	if g.Revoked != nil && g.Revoked.Seq <= stops || !at.Before(g.Until) || !v.mayGrant(&g.By, stops, at) {
		return false
	}
	granter := v.grantsAs(&g.By, stops)
	var people []audit.Party
	for i := range g.Approvals {
		by := &g.Approvals[i]
		party := v.grantsAs(by, stops)
		if by.Seq <= stops && v.mayGrant(by, stops, at) && !party.Shares(granter) && !slices.ContainsFunc(people, party.Shares) {
			people = append(people, party)
		}
	}
	return len(people) >= g.Required
}

// given returns what grants added to the limits of a charge's counter for a check of that time, by the last stop by which it was judged.
func (v *verifier) given(c *spend.Charge, of limit, stops int64, at time.Time) (all given) {
	raised := spend.Charge{Limited: of.used != nil, Counted: of.count != nil}
	for _, g := range v.grants.of[c.Counter.ID] {
		if g.Seq > stops || !g.Covers(c) {
			continue
		}
		last := g.Seq
		for i := range g.Approvals {
			if seq := g.Approvals[i].Seq; seq <= stops {
				last = seq
			}
		}
		all.phase = max(all.phase, last)
		if g.Revoked != nil && g.Revoked.Seq <= stops {
			all.phase = max(all.phase, g.Revoked.Seq)
		}
		if v.isOpen(g, stops, at) {
			raised.Grant(g.AddAmount, g.AddCount, last)
		}
	}
	all.Usage, all.raised = raised.Granted, raised.Raised
	return all
}

// givenTo returns what grants added to a charge of the current row, and names the row if it says otherwise.
func (s *slice) givenTo(id spend.ID, version int, c *spend.Charge, proved bool) given {
	policyID := string(s.fields[chain.FieldPolicyID])
	of := s.terms[budgetSince{policyID, c.RuleID, c.Since}]
	if of == nil || s.odd[policyID] || of.find(version) < 0 {
		return given{Usage: c.Granted} // the facts are unknown, which has a finding of its own
	}
	by := s.given(c, of.versions[of.find(version)].limit, stopsOf(s.fields), id.Time())
	if proved && c.Granted != by.Usage {
		s.tally.find(Inserted, checkName(id), "its charge of budget %q says that grants gave %s and %d; by the record of grants it was %s and %d",
			c.RuleID, c.Granted.Used, c.Granted.Count, by.Used, by.Count)
	}
	return by
}

// givenAround returns what grants may have added to the limits of a counter that was noted as exhausted: by each stop, and at each end
// of a grant, that its check may have met, with a minute for commits and clocks.
func (v *verifier) givenAround(e *Exhaustion, of limit) []given {
	if v.grants.of[e.Counter.ID] == nil {
		return []given{{}}
	}
	from, to := e.At.Add(-lateCommit), e.At.Add(lateCommit)
	stops, times := []int64{0}, []time.Time{from, e.At, to}
	for _, s := range v.grants.stops {
		if s.at.Before(from) {
			stops[0] = max(stops[0], s.seq)
		} else if !s.at.After(to) {
			stops = append(stops, s.seq)
		}
	}
	for _, g := range v.grants.of[e.Counter.ID] {
		if g.Until.After(from) && g.Until.Before(to) {
			times = append(times, g.Until.Add(-time.Millisecond), g.Until)
		}
	}
	var all []given
	for _, seq := range stops {
		for _, at := range times {
			if one := v.given(&spend.Charge{Counter: e.Counter}, of, seq, at); !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// with returns a limit with what grants add to it.
func (l limit) with(granted spend.Usage) limit {
	if l.used != nil {
		l.used = new(l.used.Plus(granted.Used))
	}
	if l.count != nil {
		l.count = new(*l.count + granted.Count)
	}
	return l
}
