package sim

import (
	"context"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// reportable refuses outcomes that do not follow the last, or that have a lasting key of another
// check, with mu held.
func (m *memory) reportable(outcomes []*spend.Outcome) error {
	known, once := new(audit.ReportedError), make(map[spend.Hash]bool)
	for _, o := range outcomes {
		before := spend.CourseOf(m.outcomes[o.CheckID])
		fits := o.Number == len(before.Reports)+1 && (o.Number == 1 || o.MayRelease)
		switch o.Status {
		case spend.Redeemed:
			_, used := m.underOnce(o.Once)
			late := time.Now().After(o.RedeemBy)
			check := m.byID[o.CheckID]
			fits = o.Step == 1 && !late && !used && !once[o.Once] && (!o.Unread || check != nil && check.Carries(o.Check))
			if late {
				known.Late = append(known.Late, o.CheckID)
			} else {
				once[o.Once] = !o.Once.IsZero()
			}
		case spend.InDoubt:
			fits = before.Redeemed != nil && before.Doubt == nil && before.Reports == nil
		}
		if before.Next() != o.Step || !fits {
			known.CheckIDs = append(known.CheckIDs, o.CheckID)
		}
	}
	if known.CheckIDs != nil {
		return known
	}
	return nil
}

// underOnce returns the check that was redeemed under a lasting key, with mu held.
func (m *memory) underOnce(once spend.Hash) (spend.ID, bool) {
	for check, steps := range m.outcomes {
		if steps[0].Once == once && !once.IsZero() {
			return check, true
		}
	}
	return spend.ID{}, false
}

func (m *memory) Untouched(ctx context.Context, ids []spend.ID) (found []*spend.Check, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if c := m.byID[id]; c != nil && len(m.outcomes[id]) == 0 {
			stored := *c
			found = append(found, &stored)
		}
	}
	return found, ended(ctx)
}

func (m *memory) Unread(spend.ID) bool { return true }

func (m *memory) RedeemedUnder(ctx context.Context, once spend.Hash) (spend.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	check, ok := m.underOnce(once)
	if !ok {
		return check, audit.ErrNotFound
	}
	return check, ended(ctx)
}

func (m *memory) Doubts(ctx context.Context, limit int) (d audit.Doubts, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for check, steps := range m.outcomes {
		switch c := spend.CourseOf(steps); {
		case c.Redeemed == nil || c.Reports != nil:
		case c.Doubt != nil:
			d.InDoubt++
		case len(d.Due) < limit && time.Since(c.Redeemed.ID.Time()) >= spend.DoubtAfter:
			d.Due = append(d.Due, check)
		}
	}
	return d, ended(ctx)
}

// redemptions counts redeemed checks, with mu held.
func (m *memory) redemptions(which func(spend.Course) bool) (n int) {
	for _, steps := range m.outcomes {
		if c := spend.CourseOf(steps); c.Redeemed != nil && which(c) {
			n++
		}
	}
	return n
}

// outcome returns the outcome with that ID, with mu held.
func (m *memory) outcome(id spend.ID) *spend.Outcome {
	for _, all := range m.outcomes {
		for _, o := range all {
			if o.ID == id {
				return o
			}
		}
	}
	return nil
}

func (m *memory) released(check spend.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.approvals[check]
	return m.lastOutcome(check).Frees() || asked != nil && (asked.Expired || m.lastOutcome(asked.UsedBy).Frees())
}

// overdue reports whether the check's approval has expired without a record of that.
func (m *memory) overdue(check spend.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.approval(check)
	return asked != nil && asked.Status == audit.ApprovalExpired && !asked.Expired
}

// lastOutcome returns the last report of a check, nil without reports, with mu held.
func (m *memory) lastOutcome(check spend.ID) *spend.Outcome {
	if all := m.outcomes[check]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

func (m *memory) PassStates(ctx context.Context, ids []spend.ID) (map[spend.ID]audit.PassState, error) {
	states := make(map[spend.ID]audit.PassState)
	for _, c := range m.snapshot() {
		for _, id := range ids {
			if c.ID == id {
				states[id] = audit.PassFacts{
					Allowed: c.Decision.Effect == spend.Allow, Asks: c.Approval != nil,
					Released: !c.Pass.Passed() || m.released(id), Overdue: m.overdue(id),
				}.State()
			}
		}
	}
	return states, ended(ctx)
}

func (m *memory) Parties(ctx context.Context, keyIDs []string) (map[string]audit.Party, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	parties := make(map[string]audit.Party)
	for _, id := range keyIDs {
		if p := m.party(id); p.KeyID != "" {
			parties[id] = p
		}
	}
	return parties, ended(ctx)
}

func (m *memory) Outcomes(ctx context.Context, checkIDs []spend.ID) (found []*spend.Outcome, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range checkIDs {
		for _, o := range m.outcomes[id] {
			stored := *o
			found = append(found, &stored)
		}
	}
	return found, ended(ctx)
}
