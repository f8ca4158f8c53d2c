package audit

import (
	"encoding/json"
	"slices"
	"time"
)

// Follow applies the changes of the approval, which are in their order.
func (a *Approval) Follow(changes []Change) {
	for i := range changes {
		c := &changes[i]
		a.Last = c.Seq
		switch c.Kind {
		case ApprovalGiven, ApprovalDenial:
			a.Decisions = append(a.Decisions, *decisionOf(c))
		case ApprovalReopening:
			a.reopen(c)
		case ApprovalExpiry:
			a.Expired = true
		case ApprovalWithdrawal:
			a.WithdrawnAt = c.At
		default:
		}
	}
}

// reopen applies that what some keys approved counts no more.
func (a *Approval) reopen(c *Change) {
	since := a.CreatedAt
	if !a.ReopenedAt.IsZero() {
		since = a.ReopenedAt
	}
	a.ReopenedAt, a.ExpiresAt = c.At, c.At.Add(a.ExpiresAt.Sub(since))
	keyIDs := ReopeningKeys(c.Details)
	for i := range a.Decisions {
		d := &a.Decisions[i]
		d.Completes = false
		d.Void = d.Void || d.Approves && slices.Contains(keyIDs, d.KeyID)
	}
}

// ReopeningKeys returns the keys whose approvals count no more since a reopening, by its details.
func ReopeningKeys(details string) []string {
	var kept struct {
		Keys []string `json:"keys"`
	}
	_ = json.Unmarshal([]byte(details), &kept) // a record that cannot be read names nobody
	return kept.Keys
}

// decisionDetails is the record of a decision.
type decisionDetails struct {
	ActionHash string   `json:"action_hash"`
	Completes  bool     `json:"completes,omitempty"`
	Email      string   `json:"email,omitempty"`
	Groups     []string `json:"groups,omitempty"`
	Name       string   `json:"name,omitempty"`
	Note       string   `json:"note,omitempty"`
	Owner      string   `json:"owner,omitempty"`
}

// decisionOf returns the person's decision that a change records.
func decisionOf(c *Change) *ApprovalDecision {
	var kept decisionDetails
	_ = json.Unmarshal([]byte(c.Details), &kept) // a record that cannot be read has no note
	return &ApprovalDecision{
		Approves: c.Kind == ApprovalGiven, KeyID: c.By.KeyID, Principal: c.By.Principal, Owner: kept.Owner, Note: kept.Note, At: c.At,
		Groups: kept.Groups, Completes: kept.Completes, Name: kept.Name, Email: kept.Email,
	}
}

// ChangeOfReopening returns the record that what these keys approved counts no more (S92), without its head. PostgreSQL
// makes its own (reopen_approval).
func ChangeOfReopening(a *Approval, keyIDs []string, by Actor, at time.Time) Change {
	return a.change(ApprovalReopening, by, at, map[string]any{"was": a.Status, "keys": keyIDs})
}
