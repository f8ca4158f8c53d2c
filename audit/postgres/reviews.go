package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"spendgate/audit"
	"spendgate/audit/postgres/internal/pg"
	"spendgate/audit/spend"
	"spendgate/audit/sqlstore"
)

// seenReview is the state on which a review was judged; decide_draft and promote_draft prove that
// it still holds.
type seenReview struct {
	Decisions int              `json:"decisions"`
	Keys      map[string]int64 `json:"keys"`    // by UUID, the generation of each
	Version   int              `json:"version"` // in force
	Missing   int              `json:"missing"` // people who still have to approve a promotion

	now map[string]sqlstore.KeyNow // by key_id
}

func (s *seenReview) text() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("BUG: a review has no JSON: %v", err))
	}
	return string(text)
}

// reviewed calls do with the review of a policy's draft, and again while do fails with
// audit.ErrDraftChanged because the review changed meanwhile. Names are compared only here, so that there
// is one algorithm.
func (s *Store) reviewed(ctx context.Context, policyID string, do func(*audit.Review, *seenReview) error) error {
	for {
		r, seen, err := s.review(ctx, policyID, "")
		if err != nil {
			return err
		}
		if err := do(r, seen); !errors.Is(err, audit.ErrDraftChanged) || ctx.Err() != nil {
			return err
		}
	}
}

// review reads a draft, its approvals and the parties behind their keys and another key.
func (s *Store) review(ctx context.Context, policyID, other string) (*audit.Review, *seenReview, error) {
	const doing = "cannot read the approvals of a draft"
	d, err := s.Draft(ctx, policyID)
	if err != nil {
		return nil, nil, err
	}
	r := &audit.Review{Draft: d}
	if d.Author.KeyID != "" {
		if r.Author, err = one(ctx, s, doing, func(row pgx.CollectableRow) (p audit.Party, err error) {
			return p, row.Scan(&p.KeyID, &p.Principal, &p.Owner)
		}, `SELECT c.key_id, coalesce(c.principal, ''),
			coalesce(c.details::jsonb ->> 'owner', (SELECT k.details::jsonb ->> 'owner' FROM changes AS k
				WHERE k.subject = c.key_id AND k.kind IN ('key.created', 'key.changed') AND k.seq < c.seq ORDER BY k.seq DESC LIMIT 1), '')
			FROM changes AS c WHERE c.seq = $1`, d.Generation); err != nil {
			return nil, nil, err
		}
	}
	changes, err := collect(ctx, s, doing, pg.ScanChange, "SELECT "+pg.ChangeColumns+
		" FROM changes WHERE subject = $1 AND kind IN ('policy.draft_approved', 'policy.draft_rejected') AND seq > $2 ORDER BY seq",
		policyID, d.Generation)
	if err != nil {
		return nil, nil, err
	}
	keyIDs, seen := []string{d.Author.KeyID, other}, new(seenReview)
	for i := range changes {
		a, err := audit.DraftDecisionOf(&changes[i])
		if err != nil {
			return nil, nil, err
		}
		if a.Draft == d.Generation {
			r.Add(a)
			seen.Decisions++
			keyIDs = append(keyIDs, a.By.KeyID)
		}
	}
	keys, err := s.keysNow(ctx, keyIDs)
	if err != nil {
		return nil, nil, err
	}
	seen.Keys, seen.now = make(map[string]int64, len(keys)), keys
	now := time.Now()
	for i := range r.Approvals {
		r.Approvals[i].Now = audit.ApproverOf(keys[r.Approvals[i].By.KeyID].Key, policyID, now)
	}
	for _, k := range keys {
		seen.Keys[k.ID.Text("")] = k.Generation
	}
	r.AuthorNow = keys[d.Author.KeyID].Party()
	// Read last: if another version came meanwhile, these approvals are not for it.
	latest, err := s.Policy(ctx, policyID, 0)
	if err != nil {
		return nil, nil, err
	}
	r.Version, seen.Version = latest.Version, latest.Version
	r.Asked, err = spend.ParseChanges(latest.Changes)
	return r, seen, err
}

// Review implements audit.Drafts.
func (s *Store) Review(ctx context.Context, policyID string) (*audit.Review, error) {
	r, _, err := s.review(ctx, policyID, "")
	return r, err
}

// DecideDraft implements audit.Drafts.
func (s *Store) DecideDraft(ctx context.Context, d audit.DraftDecisionRequest) (result audit.ApprovalDecisionResult, err error) {
	for {
		r, seen, err := s.review(ctx, d.PolicyID, d.By.KeyID)
		if err != nil {
			return "", err
		}
		if k, ok := seen.now[d.By.KeyID]; ok {
			d.By.Principal, d.Owner, d.Groups = k.Party().Principal, k.Grants.Owner, k.Grants.Groups
		}
		if result = r.Takes(&d); result != audit.DecisionRecorded {
			return result, nil
		}
		err = s.control(ctx, fmt.Sprintf("cannot decide about the draft of policy %q", d.PolicyID), []any{&result},
			byActor("SELECT decide_draft($1, $2, $3, $4, $5, $6, ", d.By, string(d.Kind()), d.PolicyID, r.Draft.Generation, r.Version, seen.text(),
				d.Details(r.Draft.Generation)))
		if err != nil || result != decisionStale {
			return result, err
		}
	}
}
