package sim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// use marks the approvals of the checks as used, or refuses with the checks that may not use
// theirs.
func (m *memory) use(checks []*spend.Check) error {
	refused := make(map[spend.ID]*audit.ApprovalError)
	used := make(map[spend.ID]spend.ID)
	for _, c := range checks {
		if !c.UsesApproval() {
			continue
		}
		reason := m.approval(c.Action.ApprovalID).Refuses(c)
		if first, twice := used[c.Action.ApprovalID]; twice {
			reason = &audit.ApprovalError{Status: audit.ApprovalUsed, UsedBy: first}
		}
		if reason != nil {
			refused[c.ID] = reason
		} else {
			used[c.Action.ApprovalID] = c.ID
		}
	}
	if len(refused) > 0 {
		return &audit.ApprovalsError{Refused: refused}
	}
	for approval, check := range used {
		m.approvals[approval].UsedBy = check
	}
	return nil
}

// takeAndUse takes from budgets and uses approvals, or does neither.
func (m *memory) takeAndUse(checks []*spend.Check, outcomes []*spend.Outcome) error {
	counters := maps.Clone(m.counters)
	for key, c := range counters {
		kept := *c
		counters[key] = &kept
	}
	if err := m.take(checks, outcomes); err != nil {
		return err
	}
	err := m.use(checks)
	if err != nil {
		m.counters = counters
	}
	return err
}

// approval returns a copy in its current state, with mu held.
func (m *memory) approval(id spend.ID) *audit.Approval {
	stored := m.approvals[id]
	if stored == nil {
		return nil
	}
	a := *stored
	a.Decisions = slices.Clone(a.Decisions)
	a.Asker = m.party(a.Check.KeyID)
	a.Authors = m.authors(a.Check)
	a.SetStatus(time.Now())
	return &a
}

// party returns the party behind a key now; zero without such a key.
func (m *memory) party(keyID string) audit.Party {
	id, err := spend.ParseID(keyID, spend.PrefixKey)
	k, ok := m.keys[id]
	if err != nil || !ok {
		return audit.Party{}
	}
	return audit.Party{KeyID: keyID, Principal: cmp.Or(k.Grants.Principal, keyID), Owner: k.Grants.Owner}
}

// authors returns the authors of the version that escalated a check, or of its draft, as of then
// and as of now, if they are excluded.
func (m *memory) authors(c *spend.Check) (authors []audit.Party) {
	if !c.Approval.ExcludeAuthor {
		return nil
	}
	var put, promoted audit.Party     // the draft that there is, or was just promoted
	owners := make(map[string]string) // by key_id, as the changes go
	for i := range m.changes {
		ch := &m.changes[i]
		by := audit.Party{KeyID: ch.By.KeyID, Principal: ch.By.Principal, Owner: cmp.Or(ch.By.Owner, owners[ch.By.KeyID])}
		switch {
		case ch.Kind == audit.DraftPut && ch.Subject == c.Action.PolicyID:
			put = by
		case ch.Kind == audit.DraftPromoted && ch.Subject == c.Action.PolicyID:
			promoted = put
		case ch.Kind == audit.KeyCreated, ch.Kind == audit.KeyChanged:
			g, err := spend.ParseGrants(ch.Details)
			if err != nil {
				panic(err)
			}
			owners[ch.Subject] = g.Owner
		case ch.Kind == audit.PolicyCreated && ch.Subject == c.Action.PolicyID && ch.Version == c.Decision.PolicyVersion:
			for _, author := range []audit.Party{by, promoted} {
				if author.KeyID != "" {
					authors = append(authors, author, m.party(author.KeyID))
				}
			}
			return authors
		case ch.Kind == audit.PolicyCreated && ch.Subject == c.Action.PolicyID:
			promoted = audit.Party{}
		}
	}
	return nil
}

// groups returns the current groups of a key.
func (m *memory) groups(keyID string) []string {
	id, err := spend.ParseID(keyID, spend.PrefixKey)
	if k, ok := m.keys[id]; err == nil && ok {
		return k.Grants.Groups
	}
	return nil
}

func (m *memory) Approvals(ctx context.Context, ids []spend.ID) (found []*audit.Approval, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if a := m.approval(id); a != nil {
			found = append(found, a)
		}
	}
	return found, ended(ctx)
}

// HistoryApprovals implements audit.History: nothing is archived here.
func (m *memory) HistoryApprovals(ctx context.Context, ids []spend.ID) ([]*audit.Approval, error) {
	return m.Approvals(ctx, ids)
}

func (m *memory) ExpireApprovals(ctx context.Context) (oldest time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for id, stored := range m.approvals {
		a := m.approval(id)
		if a.Status == audit.ApprovalExpired && !stored.Expired {
			stored.Expired = true
			m.generation++
			m.recordChange(audit.ChangeOfExpiry(a, m.generation, now, false))
		}
		if a.Status == audit.ApprovalPending && (oldest.IsZero() || a.CreatedAt.Before(oldest)) {
			oldest = a.CreatedAt
		}
	}
	return oldest, ended(ctx)
}

func (m *memory) Decide(ctx context.Context, d audit.ApprovalDecisionRequest) (audit.ApprovalDecisionResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", unavailable(err)
	}
	if by := m.party(d.By.KeyID); by.KeyID != "" {
		d.By.Principal, d.Owner, d.Groups = by.Principal, by.Owner, m.groups(d.By.KeyID)
	}
	approval := m.approval(d.ApprovalID)
	outcome := approval.Takes(d)
	if outcome == audit.DecisionRecorded {
		d.Completes = approval.Completes(d)
		now := time.Now().UTC().Truncate(time.Millisecond)
		m.generation++
		m.recordChange(audit.ChangeOfApproval(&d, m.generation, now))
		stored := m.approvals[d.ApprovalID]
		stored.Decisions = append(stored.Decisions, audit.ApprovalDecision{
			Approves: d.Approves, KeyID: d.By.KeyID, Principal: d.By.Principal, Owner: d.Owner, Note: d.Note, At: now,
			Groups: d.Groups, Completes: d.Completes,
		})
	}
	return outcome, nil
}
