package sim

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/hotpath/spend"
)

func (m *memory) ListChecks(ctx context.Context, q audit.CheckQuery) (page audit.CheckPage, err error) {
	low, end := q.IDRange()
	all := slices.DeleteFunc(m.snapshot(), func(c *spend.Check) bool {
		return bytes.Compare(c.ID[:], low[:]) < 0 || bytes.Compare(c.ID[:], end[:]) >= 0
	})
	slices.SortFunc(all, func(a, b *spend.Check) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	for i, c := range all {
		if i == q.Examine {
			page.More, page.Next = true, all[i-1].ID
			break
		}
		if audittest.Lists(&q, c) && (!q.Unreported || c.Decision.Effect == spend.Allow && !m.reported(c.ID)) {
			stored := *c
			page.Checks = append(page.Checks, &stored)
		}
		if page.Cut(q.Limit); page.More {
			break
		}
	}
	return page, ended(ctx)
}

func (m *memory) ListPolicies(ctx context.Context, q audit.PolicyQuery) (audit.PolicyPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var total int64
	var latest []audit.Policy
	for _, id := range slices.Sorted(maps.Keys(m.policies)) {
		if q.PolicyIDs != nil && !slices.Contains(q.PolicyIDs, id) {
			continue
		}
		if total++; id > q.After {
			latest = append(latest, m.policies[id][len(m.policies[id])-1])
		}
	}
	return pageOfPolicies(latest, q.Limit, total), ended(ctx)
}

func (m *memory) PolicyVersions(ctx context.Context, q audit.VersionQuery) (audit.PolicyPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	versions := slices.Clone(m.policies[q.PolicyID])
	if len(versions) == 0 {
		return audit.PolicyPage{}, audit.ErrNotFound
	}
	total := len(versions)
	versions = versions[:min(cmp.Or(q.Before, total+1), total+1)-1]
	slices.Reverse(versions)
	return pageOfPolicies(versions, q.Limit, int64(total)), ended(ctx)
}

func pageOfPolicies(all []audit.Policy, limit int, total int64) audit.PolicyPage {
	page := audit.PolicyPage{Total: total}
	for size := 0; len(page.Policies) < len(all); {
		if len(page.Policies) == limit || size >= audit.MaxPageBytes {
			page.More = true
			break
		}
		p := all[len(page.Policies)]
		page.Policies, size = append(page.Policies, p), size+len(p.Rules)+len(p.Metadata)
	}
	return page
}
