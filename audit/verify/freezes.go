package verify

import (
	"encoding/binary"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// frozenMargin is how long after the begin of a freeze a check or a redemption may be by its node's clock that was judged before
// the freeze: the time of a commit, and what clocks differ by.
const frozenMargin = 3 * time.Second

// frozenTime is a scope, and the time in which it was frozen. What was judged by a stop from seq to before end was judged by
// the freeze.
type frozenTime struct {
	id          string
	seq, end    int64             // of its creation and its end; an end of 0: still
	scope       audit.FreezeScope // folded
	from, ended time.Time
	until       time.Time // of nodes' clocks; zero without one
}

// covers reports whether the freeze was active for what is of that time and was judged by that stop.
func (f *frozenTime) covers(at time.Time, stops int64) bool {
	switch {
	case !f.until.IsZero() && !at.Before(f.until):
		return false
	case stops >= f.seq:
		return f.end == 0 || stops < f.end
	}
	return !at.Before(f.from.Add(frozenMargin)) && (f.end == 0 || at.Before(f.ended))
}

// freeze follows the changes of freezes.
func (w *changeWalk) freeze(c Change) {
	f, err := audit.FreezeOf(&c.Change)
	if err != nil {
		return // its head, or what it says, is named
	}
	switch c.Kind {
	case audit.FreezeCreated:
		w.freezes = append(w.freezes, frozenTime{id: c.Subject, seq: c.Seq, scope: f.Scope.Folded(), from: c.At, until: f.Until})
		if c.By.Kind() == "system" {
			w.restores = append(w.restores, c.Seq)
		}
	case audit.FreezeIsReleased, audit.FreezeEnded:
		for i := range w.freezes {
			if known := &w.freezes[i]; known.id == c.Subject && known.end == 0 {
				known.end, known.ended = c.Seq, c.At
			}
		}
	default:
	}
}

// frozen returns the freeze that stopped the current row's action of these people at that time, where the last stop by which it was
// judged is known; empty if none did.
func (s *slice) frozen(at time.Time, stops int64, people ...audit.Party) string {
	for i := range s.freezes {
		f := &s.freezes[i]
		if !f.covers(at, stops) {
			continue
		}
		is := func(place int) bool { return spend.NFC(string(s.fields[place])) == f.scope.Value }
		stops := false
		switch f.scope.Kind {
		case audit.FreezeAll:
			stops = true
		case audit.FreezePolicy:
			stops = string(s.fields[chain.FieldPolicyID]) == f.scope.Value
		case audit.FreezeAgent:
			stops = is(chain.FieldAgentID)
		case audit.FreezeCounterparty:
			stops = is(chain.FieldCounterparty)
		case audit.FreezePrincipal:
			for _, p := range people {
				stops = stops || p.Shares(audit.Party{Principal: f.scope.Value})
			}
		}
		if stops {
			return f.id
		}
	}
	return ""
}

// stopsOf returns the last stop by which a check's row says that it was judged.
func stopsOf(fields [][]byte) int64 {
	field := fields[chain.FieldStops]
	if len(field) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(field))
}

// passesFreezes names an allow, a redemption and a take-over of the current row that a freeze stopped (G17).
func (s *slice) passesFreezes(id spend.ID, c *course) {
	if s.freezes == nil || string(s.fields[chain.FieldDecision]) != "a" {
		return
	}
	asked := audit.Party{
		KeyID: string(s.fields[chain.FieldKeyID]), Principal: string(s.fields[chain.FieldPrincipal]), Owner: string(s.fields[chain.FieldOwner]),
	}
	if by := s.frozen(id.Time(), stopsOf(s.fields), asked); by != "" {
		s.tally.find(Inserted, checkName(id), "it is recorded as allowed while %s was active", by)
	}
	for _, o := range c.held {
		if by := s.frozen(o.ID.Time(), o.Fence.Stops, asked, audit.Party{KeyID: o.KeyID, Principal: o.Reporter()}); by != "" {
			s.stray(o, by+" was active")
		}
	}
}

// passesStops names a redemption of the current row that a stop of its key stopped, and a void for a stop that there was not:
// what was allowed before a stop is not redeemed after it (S87).
func (s *slice) passesStops(c *course) {
	stopped := func(o *spend.Outcome) bool { return s.stoppedBefore(o, s.keyStops[string(s.fields[chain.FieldKeyID])]) }
	if c.redeemed != nil && stopped(c.redeemed) {
		s.stray(c.redeemed, "the key that was allowed it had been deactivated")
	}
	if c.stopped != nil && !stopped(c.stopped) {
		s.stray(c.stopped, "the key that was allowed it had not been deactivated")
	}
}

// stoppedBefore reports whether one of the stops came after the current row was judged and before the step.
func (s *slice) stoppedBefore(o *spend.Outcome, stops []int64) bool {
	judged := stopsOf(s.fields)
	return slices.ContainsFunc(stops, func(stop int64) bool { return judged < stop && stop <= o.Fence.Stops })
}
