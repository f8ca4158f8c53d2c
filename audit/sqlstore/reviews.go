package sqlstore

import (
	"context"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Review is the review of a draft, and what it was made of.
type Review struct {
	*audit.Review
	Decisions int               // about the draft
	Keys      map[string]KeyNow // by key_id: of the author, of who decided, and another one
}

// ReadReview reads what people decided about a draft, and the parties behind their keys and another key.
func ReadReview(ctx context.Context, tx Tx, d *audit.Draft, other string) (r Review, err error) {
	r.Review = &audit.Review{Draft: d}
	if d.Author.KeyID != "" {
		authors, err := collect(ctx, tx, func(row Row) (audit.Party, error) { return scanAuthor(row) },
			"SELECT "+authorColumns+" FROM changes AS c WHERE c.seq = $1", d.Generation)
		if err != nil {
			return r, err
		}
		r.Author = authors[0]
	}
	changes, err := collect(ctx, tx, ScanChange, selectChanges+
		" WHERE subject = $1 AND kind IN ('policy.draft_approved', 'policy.draft_rejected') AND seq > $2 ORDER BY seq", d.PolicyID, d.Generation)
	if err != nil {
		return r, err
	}
	keyIDs := []string{d.Author.KeyID, other}
	for i := range changes {
		a, err := audit.DraftDecisionOf(&changes[i])
		if err != nil {
			return r, err
		}
		if a.Draft == d.Generation {
			r.Add(a)
			r.Decisions++
			keyIDs = append(keyIDs, a.By.KeyID)
		}
	}
	if r.Keys, err = KeysNow(ctx, tx, keyIDs...); err != nil {
		return r, err
	}
	r.AuthorNow = r.Keys[d.Author.KeyID].Party()
	now := time.Now()
	for i := range r.Approvals {
		a := &r.Approvals[i]
		a.Now = audit.ApproverOf(r.Keys[a.By.KeyID].Key, d.PolicyID, now)
	}
	// Read last: if another version came meanwhile, these approvals are not for it.
	r.Asked, r.Version, err = Asks(ctx, tx, d.PolicyID)
	return r, err
}

// Asks returns whom the latest version of a policy asks before it changes, nil for nobody, and the number of that version; 0 if
// the policy does not exist.
func Asks(ctx context.Context, tx Tx, policyID string) (asked *spend.ApprovalRequest, version int, err error) {
	err = tx.Query(ctx, func(row Row) error { return row.Scan(&version, Parse(&asked, spend.ParseChanges)) },
		"SELECT version, coalesce(changes, '') FROM policies WHERE policy_id = $1 ORDER BY version DESC LIMIT 1", policyID)
	return asked, version, err
}
