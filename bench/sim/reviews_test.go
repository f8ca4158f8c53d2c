package sim

import (
	"cmp"
	"context"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// asks returns whom the latest version of a policy asks before it changes. Called with mu held.
func (m *memory) asks(policyID string) (*spend.ApprovalRequest, int) {
	versions := m.policies[policyID]
	if len(versions) == 0 {
		return nil, 0
	}
	asked, err := spend.ParseChanges(versions[len(versions)-1].Changes)
	if err != nil {
		panic(err)
	}
	return asked, len(versions)
}

// approver returns a key in its current state; nil without such a key.
func (m *memory) approver(keyID, policyID string) *audit.Approver {
	id, err := spend.ParseID(keyID, spend.PrefixKey)
	k, ok := m.keys[id]
	if err != nil || !ok {
		return nil
	}
	return audit.ApproverOf(&k, policyID, time.Now())
}

// review is called with mu held.
func (m *memory) review(d *audit.Draft) *audit.Review {
	r := &audit.Review{Draft: d}
	r.Asked, r.Version = m.asks(d.PolicyID)
	owners := make(map[string]string) // by key_id, as the changes go
	for i := range m.changes {
		switch c := &m.changes[i]; {
		case c.Kind == audit.KeyCreated, c.Kind == audit.KeyChanged:
			g, err := spend.ParseGrants(c.Details)
			if err != nil {
				panic(err)
			}
			owners[c.Subject] = g.Owner
		case c.Seq == d.Generation && c.By.KeyID != "":
			r.Author = audit.Party{KeyID: c.By.KeyID, Principal: c.By.Principal, Owner: cmp.Or(c.By.Owner, owners[c.By.KeyID])}
			r.AuthorNow = m.party(c.By.KeyID)
		case c.Kind == audit.DraftApproved:
			a, err := audit.DraftApprovalOf(c)
			if err != nil {
				panic(err)
			}
			if a.Now = m.approver(a.By.KeyID, d.PolicyID); a.Draft == d.Generation {
				r.Approvals = append(r.Approvals, a)
			}
		}
	}
	return r
}

func (m *memory) Review(ctx context.Context, policyID string) (*audit.Review, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.drafted.current[policyID]
	if d == nil {
		return nil, audit.ErrNotFound
	}
	found := *d
	return m.review(&found), ended(ctx)
}

func (m *memory) ApproveDraft(ctx context.Context, a audit.DraftApprovalRequest) (audit.ApprovalDecisionResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.drafted.current[a.PolicyID]
	if d == nil {
		return "", audit.ErrNotFound
	}
	if by := m.approver(a.By.KeyID, a.PolicyID); by != nil {
		a.By.Principal, a.Owner, a.Groups = by.Principal, by.Owner, by.Groups
	}
	r := m.review(d)
	outcome := r.Takes(&a)
	if outcome == audit.DecisionRecorded {
		m.generation++
		m.recordChange(r.ChangeOfDraftApproval(&a, m.generation, time.Now()))
	}
	return outcome, ended(ctx)
}
