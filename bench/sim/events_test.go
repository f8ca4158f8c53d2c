package sim

import (
	"context"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// happened adds an event to the feed, with mu held: what is recorded is visible at
// once, and so are the numbers of its events.
func (m *memory) happened(t audit.EventType, source spend.ID, policyID, agentID string) {
	m.feed = append(m.feed, audit.EventRow{
		Sequence: int64(len(m.feed)) + 1, Source: source, Type: t, PolicyID: policyID, AgentID: agentID,
	})
}

// committed adds the events of a commit, with mu held.
func (m *memory) committed(checks []*spend.Check, outcomes []*spend.Outcome) {
	for _, c := range checks {
		if c.UsesApproval() {
			asked := m.byID[c.Action.ApprovalID]
			m.happened(audit.EventApprovalUsed, asked.ID, asked.Action.PolicyID, asked.Action.AgentID)
		}
	}
	m.exhaust(append(audit.Refusals(checks), m.usedUp...))
	for _, c := range checks {
		if c.Violation() {
			m.happened(audit.EventViolationRecorded, c.ID, c.Action.PolicyID, c.Action.AgentID)
		}
		if c.Approval != nil {
			m.happened(audit.EventApprovalRequested, c.ID, c.Action.PolicyID, c.Action.AgentID)
		}
	}
	for _, o := range outcomes {
		a := &o.Check.Action
		m.happened(audit.EventOutcomeReported, o.ID, a.PolicyID, a.AgentID)
		if o.Release == spend.ReleasePending {
			m.happened(audit.EventOutcomeReleasePending, o.ID, a.PolicyID, a.AgentID)
		}
		if o.Excess != "" {
			m.happened(audit.EventOutcomeExceeded, o.ID, a.PolicyID, a.AgentID)
		}
	}
}

// exhaust records exhausted counters, once in each window, with mu held.
func (m *memory) exhaust(changes []audit.CounterChange) {
	for _, ch := range changes {
		if slices.ContainsFunc(m.exhaustions, func(e audit.Exhaustion) bool {
			return e.Counter == ch.Counter || e.Counter.ID == ch.ID && ch.BucketMS > 0 && e.Counter.StartMS >= ch.StartMS-spend.RollingBuckets*ch.BucketMS
		}) {
			continue
		}
		e := audit.Exhaustion{
			ID: spend.NewID(time.Now()), Counter: ch.Counter, PolicyID: ch.PolicyID, RuleID: ch.RuleID, Since: ch.Since, Subject: ch.Subject,
			AgentID: ch.Charge.AgentID, Limited: ch.Charge.Limited, Limit: ch.Charge.Limit, Counted: ch.Charge.Counted, MaxCount: ch.Charge.MaxCount,
			Usage: m.usage(ch.Counter),
		}
		e.At = e.ID.Time()
		m.exhaustions = append(m.exhaustions, e)
		m.happened(audit.EventBudgetExhausted, e.ID, e.PolicyID, e.AgentID)
	}
}

// changedConfig adds the event of a change, if it is one, with mu held.
func (m *memory) changedConfig(c *audit.Change) {
	source := audit.ChangeSource(c.Seq)
	switch c.Kind {
	case audit.PolicyCreated:
		m.happened(audit.EventPolicyCreated, source, c.Subject, "")
	case audit.KeyCreated, audit.KeyChanged:
		m.happened(audit.EventKeyChanged, source, "", "")
	default:
		id, err := spend.ParseID(c.Subject, spend.PrefixApproval)
		if err != nil {
			return
		}
		asked := m.byID[id]
		approvals := 0
		for i := range m.changes {
			if m.changes[i].Subject == c.Subject && m.changes[i].Kind == audit.ApprovalGiven {
				approvals++
			}
		}
		if c.Kind != audit.ApprovalGiven || approvals == asked.Approval.Required {
			m.happened(audit.EventType(c.Kind), source, asked.Action.PolicyID, asked.Action.AgentID)
		}
	}
}

func (m *memory) Events(ctx context.Context, q audit.EventQuery) (audit.EventPage, error) {
	m.mu.Lock()
	examined := slices.Clone(m.feed[min(max(q.After, 0), int64(len(m.feed))):])
	m.mu.Unlock()
	rows, page := q.Page(examined[:min(len(examined), q.Examine())])
	var err error
	page.Events, err = audit.ReadEvents(ctx, m, rows)
	return page, err
}

func (m *memory) EventsHead(ctx context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.feed)), ended(ctx)
}

func (m *memory) ViolationsOf(ctx context.Context, ids []spend.ID) (found []audit.Violation, err error) {
	checks, err := m.Checks(ctx, ids)
	for _, c := range checks {
		found = append(found, violationOf(c))
	}
	return found, err
}

func (m *memory) OutcomesOf(ctx context.Context, ids []spend.ID) (found []*spend.Outcome, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if o := m.outcome(id); o != nil {
			stored := *o
			found = append(found, &stored)
		}
	}
	return found, ended(ctx)
}

func (m *memory) ExhaustionsOf(ctx context.Context, ids []spend.ID) (found []audit.Exhaustion, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.exhaustions {
		if slices.Contains(ids, e.ID) {
			found = append(found, e)
		}
	}
	return found, ended(ctx)
}

func (m *memory) ChangesOf(ctx context.Context, seqs []int64) (found []audit.Change, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.changes {
		if slices.Contains(seqs, c.Seq) {
			found = append(found, c)
		}
	}
	return found, ended(ctx)
}

func (m *memory) ApprovalsOf(ctx context.Context, ids []spend.ID) (found []audit.ApprovalEvent, err error) {
	all, err := m.Approvals(ctx, ids)
	for _, a := range all {
		asked := a.Check.Approval
		found = append(found, audit.ApprovalEvent{
			ID: a.Check.ID, ActionHash: asked.ActionHash, Required: asked.Required, CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt,
			UseWithin: asked.UseWithin, UsedBy: a.UsedBy,
		})
	}
	return found, err
}
