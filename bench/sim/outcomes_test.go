package sim

import (
	"context"
	"slices"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// reportable refuses outcomes that are reported already, with mu held.
func (m *memory) reportable(outcomes []*spend.Outcome) error {
	known := new(audit.ReportedError)
	for _, o := range outcomes {
		before := m.outcomes[o.CheckID]
		if len(before) != o.Number-1 || o.Number == 2 && !before[0].Pending() {
			known.CheckIDs = append(known.CheckIDs, o.CheckID)
		}
	}
	if known.CheckIDs != nil {
		return known
	}
	return nil
}

// outcome returns the one with that ID, with mu held.
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
	frees := func(o *spend.Outcome) bool { return o.Frees() }
	asked := m.approvals[check]
	return slices.ContainsFunc(m.outcomes[check], frees) || asked != nil && slices.ContainsFunc(m.outcomes[asked.UsedBy], frees)
}

func (m *memory) PassStates(ctx context.Context, ids []spend.ID) (map[spend.ID]audit.PassState, error) {
	states := make(map[spend.ID]audit.PassState)
	for _, c := range m.snapshot() {
		for _, id := range ids {
			if c.ID == id {
				states[id] = audit.PassStateOf(c.Decision.Effect == spend.Allow || c.Approval != nil, m.released(id))
			}
		}
	}
	return states, ended(ctx)
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
