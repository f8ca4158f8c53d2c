package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

func (m *memory) CreatePolicy(ctx context.Context, by audit.Actor, p *audit.Policy, b audit.NewBudgets, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	asked, version := m.asks(p.PolicyID)
	if p.Replaces != nil && *p.Replaces != version {
		return &audit.VersionError{Version: version}
	}
	if asked == nil {
		return m.createPolicy(by, p, b, nil, now)
	}
	if by.Kind() != audit.KindAdmin {
		return &audit.ChangeNeedsApprovalError{PolicyID: p.PolicyID, Version: version}
	}
	return m.createPolicy(by, p, b, new(audit.Forcing), now)
}

// createPolicy is called with mu held.
func (m *memory) createPolicy(by audit.Actor, p *audit.Policy, b audit.NewBudgets, forced *audit.Forcing, now time.Time) error {
	now = now.UTC().Truncate(time.Millisecond)
	versions := m.policies[p.PolicyID]
	p.Version, p.CreatedAt, p.UpdatedAt = len(versions)+1, now, now
	if len(versions) > 0 {
		p.CreatedAt = versions[0].CreatedAt
	}
	var previous map[string]spend.BudgetSince
	if len(versions) > 0 {
		previous = versions[len(versions)-1].Budgets
	}
	p.Budgets = audit.CountSince(b.Identities, previous, p.Version, p.UpdatedAt)
	if err := b.Refuse(p.Budgets, previous, func(ruleID string) (bool, error) {
		return m.inUse(p.PolicyID, ruleID, previous[ruleID].Version, now), nil
	}); err != nil {
		return err
	}
	m.policies[p.PolicyID] = append(versions, *p)
	p.Forced = forced != nil
	m.generation++
	m.changed[p.PolicyID] = m.generation
	created := audit.ChangeOfPolicy(p, b.Drop, m.generation, by, time.Now())
	m.recordChange(created)
	if forced != nil {
		m.generation++
		m.recordChange(audit.ChangeOfForcing(forced, &created, m.generation, time.Now()))
	}
	return nil
}

func (m *memory) Policy(ctx context.Context, policyID string, version int) (*audit.Policy, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	versions := m.policies[policyID]
	if version == 0 {
		version = len(versions)
	}
	if version < 1 || version > len(versions) {
		return nil, audit.ErrNotFound
	}
	p := versions[version-1]
	return &p, ended(ctx)
}

func (m *memory) CreateKey(ctx context.Context, by audit.Actor, k *audit.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	for _, other := range m.keys {
		if other.Hash == k.Hash {
			return errors.New("one hash cannot name two keys")
		}
	}
	m.generation++
	m.keys[k.ID], m.keyChanged[k.ID] = *k, m.generation
	m.recordChange(audit.ChangeOfKey(audit.KeyCreated, k, m.generation, by, time.Now()))
	return nil
}

func (m *memory) recordChange(c audit.Change) {
	m.changes = append(m.changes, c)
	m.events = append(m.events, event{at: time.Now(), change: &c})
}

func (m *memory) Changes(ctx context.Context, _ audit.ChangeQuery) ([]audit.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.changes), ended(ctx)
}

// NoteKeyUses forgets them: nothing here reads when a key was used.
func (m *memory) NoteKeyUses(ctx context.Context, _ []audit.KeyUse) error { return ended(ctx) }

func (m *memory) ConfigChanges(ctx context.Context, since int64) (audit.ConfigChanges, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := audit.ConfigChanges{Generation: m.generation}
	for id, at := range m.keyChanged {
		if at > since {
			c.Keys = append(c.Keys, m.keys[id])
		}
	}
	for id, at := range m.changed {
		if at > since {
			c.PolicyIDs = append(c.PolicyIDs, id)
		}
	}
	slices.Sort(c.PolicyIDs)
	return c, ended(ctx)
}
