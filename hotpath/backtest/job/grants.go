package job

import (
	"cmp"
	"context"
	"fmt"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// grantsAtOnce is how many grants, or changes of a key, are read at once.
const grantsAtOnce = 200

// findGrants reads the grants of the policy, and what the keys were of who made them; nil if there are none.
func (r *run) findGrants(ctx context.Context) (*audit.GrantRecord, error) {
	record := &audit.GrantRecord{Of: make(map[spend.ID][]*audit.BudgetGrant)}
	keys := make(keyHistory)
	for before, more := int64(0), true; more; {
		page, err := ask(ctx, func(ctx context.Context) (page []audit.BudgetGrant, err error) {
			page, more, err = r.Store.ListBudgetGrants(ctx, audit.GrantQuery{Before: before, Limit: grantsAtOnce})
			return page, err
		})
		if err != nil {
			return nil, fmt.Errorf("cannot read grants: %w", err)
		}
		for i := range page {
			g := &page[i]
			if before = g.Seq; g.PolicyID != r.b.PolicyID {
				continue
			}
			record.Of[g.Counter.ID] = append(record.Of[g.Counter.ID], g)
			for _, by := range append([]audit.Release{g.By}, g.Approvals...) {
				if err := r.readKey(ctx, keys, by.By.KeyID); err != nil {
					return nil, err
				}
			}
		}
	}
	if len(record.Of) == 0 {
		return nil, nil
	}
	record.Standing = keys.standing
	return record, nil
}

// keyHistory has what keys were, by key_id, since each of their changes.
type keyHistory map[string][]keySince

type keySince struct {
	seq int64
	audit.KeyStanding
}

// standing implements audit.GrantRecord.
func (h keyHistory) standing(keyID string, stops int64) (at audit.KeyStanding, known bool) {
	for _, since := range h[keyID] {
		if since.seq <= stops {
			at, known = since.KeyStanding, true
		}
	}
	return at, known
}

// readKey reads the changes of a key, unless they were read before.
func (r *run) readKey(ctx context.Context, keys keyHistory, keyID string) error {
	if _, known := keys[keyID]; known {
		return nil
	}
	keys[keyID] = nil
	var granterSince int64
	for q := (audit.ChangeQuery{KeyID: keyID, Limit: grantsAtOnce}); ; {
		changes, err := ask(ctx, func(ctx context.Context) ([]audit.Change, error) { return r.Store.Changes(ctx, q) })
		if err != nil {
			return fmt.Errorf("cannot read the changes of a key: %w", err)
		}
		for i := range changes {
			c := &changes[i]
			if q.After = c.Seq; c.Subject != keyID { // made with it
				continue
			}
			standing, err := audit.StandingOf(c)
			if err != nil {
				return err
			}
			granterSince = cmp.Or(standing.GranterSince, granterSince)
			standing.GranterSince = granterSince
			keys[keyID] = append(keys[keyID], keySince{c.Seq, standing})
		}
		if len(changes) < q.Limit {
			return nil
		}
	}
}
