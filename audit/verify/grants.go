package verify

import (
	"reflect"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// grants are the grants of the record.
type grants struct {
	audit.GrantRecord

	named map[string]*audit.BudgetGrant // by grant_id
	stops []stop                        // the changes of grants and keys, in their order
}

type stop struct {
	seq int64
	at  time.Time
}

// grant follows the changes of grants, and names those that could not have been made, which count for nothing.
func (w *changeWalk) grant(c Change) {
	w.stop(c)
	terms, by, malformed := audit.GrantOf(&c.Change)
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
		return
	}
	if g == nil {
		g = &audit.BudgetGrant{GrantTerms: terms, ID: id}
		if w.grants.named == nil {
			w.grants.named, w.grants.Of = make(map[string]*audit.BudgetGrant), make(map[spend.ID][]*audit.BudgetGrant)
			w.grants.Standing = w.standing
		}
		w.grants.named[c.Subject] = g
		w.grants.Of[terms.Counter.ID] = append(w.grants.Of[terms.Counter.ID], g)
	}
	g.Apply(c.Kind, by)
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

// standing returns what a key was by its last change up to a stop.
func (v *verifier) standing(keyID string, stops int64) (audit.KeyStanding, bool) {
	k, known := v.approvals.standing(keyID, stops+1)
	return audit.KeyStanding{Party: k.Party, Active: k.active, Grants: k.grants, GranterSince: k.granterSince}, known
}

// given returns what grants added to a counter's limits for a check of that time, by the last stop by which it was judged.
func (v *verifier) given(c spend.Counter, of limit, stops int64, at time.Time) audit.Given {
	return v.grants.Given(&spend.Charge{Counter: c, Limited: of.used != nil, Counted: of.count != nil}, stops, at)
}

// givenTo returns what grants added to a charge of the current row, and names the row if it says otherwise.
func (s *slice) givenTo(id spend.ID, version int, c *spend.Charge, proved bool) audit.Given {
	policyID := string(s.fields[chain.FieldPolicyID])
	of := s.terms[budgetSince{policyID, c.RuleID, c.Since}]
	if of == nil || s.odd[policyID] || of.find(version) < 0 {
		return audit.Given{Usage: c.Granted} // the facts are unknown, which has a finding of its own
	}
	by := s.given(c.Counter, of.versions[of.find(version)].limit, stopsOf(s.fields), id.Time())
	if proved && c.Granted != by.Usage {
		s.tally.find(Inserted, checkName(id), "its charge of budget %q says that grants gave %s and %d; by the record of grants it was %s and %d",
			c.RuleID, c.Granted.Used, c.Granted.Count, by.Used, by.Count)
	}
	return by
}

// givenAround returns what grants may have added to the limits of a counter that was noted as exhausted: by each stop, and at each end
// of a grant, that its check may have met, with a minute for commits and clocks.
func (v *verifier) givenAround(e *Exhaustion, of limit) []audit.Given {
	if v.grants.Of[e.Counter.ID] == nil {
		return []audit.Given{{}}
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
	for _, g := range v.grants.Of[e.Counter.ID] {
		if g.Until.After(from) && g.Until.Before(to) {
			times = append(times, g.Until.Add(-time.Millisecond), g.Until)
		}
	}
	var all []audit.Given
	for _, seq := range stops {
		for _, at := range times {
			if one := v.given(e.Counter, of, seq, at); !slices.Contains(all, one) {
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
