package sim

import (
	"context"
	"maps"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// drafted is what the memory holds for drafts.
type drafted struct {
	current  map[string]*audit.Draft
	counters map[draftCounter]spend.Usage
	passes   map[draftPass]*audit.DraftTake
}

type draftCounter struct {
	draft   int64
	id      spend.ID
	startMS int64
}

type draftPass struct {
	draft       int64
	fingerprint spend.Hash
}

func newDrafted() drafted {
	return drafted{make(map[string]*audit.Draft), make(map[draftCounter]spend.Usage), make(map[draftPass]*audit.DraftTake)}
}

// recordDraft is called with mu held.
func (m *memory) recordDraft(d *audit.Draft, kind audit.ChangeKind, by audit.Actor, now time.Time) {
	m.generation++
	m.changed[d.PolicyID] = m.generation
	d.Generation, d.MadeAt, d.Author = m.generation, now.UTC().Truncate(time.Millisecond), by
	change := d.Change(kind, by, time.Now())
	d.Hash = change.Hash
	m.recordChange(change)
}

func (m *memory) PutDraft(ctx context.Context, by audit.Actor, d *audit.Draft, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.BaseVersion = len(m.policies[d.PolicyID]); d.BaseVersion == 0 {
		return audit.ErrNotFound
	}
	m.recordDraft(d, audit.DraftPut, by, now)
	kept := *d
	kept.Author.RequestID, kept.Author.Address = "", ""
	m.drafted.current[d.PolicyID] = &kept
	return ended(ctx)
}

func (m *memory) DeleteDraft(ctx context.Context, by audit.Actor, policyID string, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drafted.current[policyID] == nil {
		return audit.ErrNotFound
	}
	delete(m.drafted.current, policyID)
	m.recordDraft(&audit.Draft{PolicyID: policyID}, audit.DraftDeleted, by, now)
	return ended(ctx)
}

func (m *memory) PromoteDraft(ctx context.Context, by audit.Actor, p audit.Promotion, now time.Time) (*audit.Policy, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, latest := m.drafted.current[p.PolicyID], len(m.policies[p.PolicyID])
	if d == nil || d.Generation != p.Generation {
		return nil, audit.ErrNotFound
	}
	if latest != p.Version {
		return nil, &audit.VersionError{Version: latest}
	}
	missing := m.review(d).Missing(p.Budgets.Drop).People()
	if missing > 0 && by.Kind() != audit.KindAdmin {
		return nil, &audit.ChangeNeedsApprovalError{PolicyID: p.PolicyID, Version: latest}
	}
	delete(m.drafted.current, p.PolicyID)
	m.recordDraft(&audit.Draft{PolicyID: p.PolicyID}, audit.DraftPromoted, by, now)
	var forced *audit.Forcing
	if missing > 0 {
		forced = &audit.Forcing{Draft: d.Generation, Missing: missing}
	}
	made := &audit.Policy{
		PolicyID: p.PolicyID, Name: d.Name, Description: d.Description, Rules: d.Rules, Metadata: d.Metadata, Redeem: d.Redeem,
		Changes: d.Changes, Note: p.Note,
	}
	return made, m.createPolicy(by, made, p.Budgets, forced, now)
}

func (m *memory) Draft(ctx context.Context, policyID string) (*audit.Draft, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.drafted.current[policyID]
	if d == nil {
		return nil, audit.ErrNotFound
	}
	found := *d
	return &found, ended(ctx)
}

func (m *memory) JudgeDraft(ctx context.Context, t *audit.DraftTake) (taken audit.DraftTaken, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, pass := t.Check.Time().UnixMilli(), m.drafted.passes[draftPass{t.Draft, t.Fingerprint}]
	if t.Looks && pass != nil && pass.UntilMS > at && (pass.Check.Time().UnixMilli() < at-audit.SurePassMS || m.byID[pass.Check] != nil) {
		taken.Repeats = pass.Check
		return taken, nil
	}
	for _, c := range t.Charges {
		var u spend.Usage
		for key, usage := range maps.All(m.drafted.counters) {
			oldest := c.Counter.StartMS - spend.RollingBuckets*c.Counter.BucketMS
			if key.draft == t.Draft && key.id == c.Counter.ID && oldest <= key.startMS && key.startMS <= c.Counter.StartMS {
				u.Used, u.Count = u.Used.Plus(usage.Used), u.Count+usage.Count
			}
		}
		taken.Usages = append(taken.Usages, u)
	}
	takes, leaves := t.Settle(taken.Usages)
	for i := 0; takes && i < len(t.Charges); i++ {
		key := draftCounter{t.Draft, t.Charges[i].Counter.ID, t.Charges[i].Counter.StartMS}
		m.drafted.counters[key] = m.drafted.counters[key].Plus(&t.Charges[i])
	}
	if leaves {
		kept := *t
		m.drafted.passes[draftPass{t.Draft, t.Fingerprint}] = &kept
	}
	return taken, ended(ctx)
}
