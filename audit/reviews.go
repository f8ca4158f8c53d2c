package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/spend"
)

// Review has the facts, at one moment, that decide whether a draft may become the next version of its
// policy (S80).
type Review struct {
	Draft     *Draft
	Version   int                    // in force
	Asked     *spend.ApprovalRequest // of people, by the version in force; nil when nobody is asked
	Author    Party                  // of the draft, as recorded then; zero if no key put it
	AuthorNow Party                  // of the key of the draft's author now
	Approvals []DraftApproval        // of the draft, oldest first
}

// DraftApproval is that a person approves a draft.
type DraftApproval struct {
	Draft   int64 // its generation
	Version int   // in force then, which the draft is to replace
	By      Party
	Groups  []string // of the key, as recorded then
	Drop    []string // budgets that may be emptied
	Note    string   // empty when absent
	At      time.Time
	Now     *Approver // the key as it is now; nil without a key, as of a session
	Name    string    // of a person who had signed in (S78), as recorded then; empty for a key
	Email   string
}

// Approver is an API key as it is now, as one that approves.
type Approver struct {
	Party
	Groups  []string
	Decides bool // the key is in force, has the scope, and is for the policy
}

// ApproverOf returns the present rights of a key as approver of a policy's drafts.
func ApproverOf(k *Key, policyID string, now time.Time) *Approver {
	g := &k.Grants
	keyID := k.ID.Text(spend.PrefixKey)
	return &Approver{
		Party: Party{KeyID: keyID, Principal: cmp.Or(g.Principal, keyID), Owner: g.Owner}, Groups: g.Groups,
		Decides: k.Active && (g.ExpiresAt.IsZero() || now.Before(g.ExpiresAt)) && g.Permitted().Has(spend.ApprovalsDecide) &&
			(g.PolicyIDs == nil || slices.Contains(g.PolicyIDs, policyID)),
	}
}

// people returns the parties of the key, as recorded then and as they are now.
func (a *DraftApproval) people() []Party {
	if a.Now == nil {
		return []Party{a.By}
	}
	return []Party{a.By, a.Now.Party}
}

// isOf reports whether one of these parties may be behind the approval.
func (a *DraftApproval) isOf(others ...Party) bool {
	return slices.ContainsFunc(a.people(), func(p Party) bool { return slices.ContainsFunc(others, p.Shares) })
}

// stands reports whether the approval counts for a promotion that drops these budgets,
// whoever else approved.
func (a *DraftApproval) stands(r *Review, drop []string) bool {
	for _, id := range drop {
		if !slices.Contains(a.Drop, id) {
			return false
		}
	}
	return a.Version == r.Version && (a.Now == nil || a.Now.Decides) && !a.isOf(r.Author, r.AuthorNow)
}

// groups returns the groups that the key had then and has now.
func (a *DraftApproval) groups() (both []string) {
	if a.Now == nil {
		return a.Groups
	}
	for _, g := range a.Groups {
		if inGroup(a.Now.Groups, g) {
			both = append(both, g)
		}
	}
	return both
}

// Counted returns the approvals that count for a promotion that drops these budgets:
// the newest of each person, newest first.
func (r *Review) Counted(drop []string) (counted []*DraftApproval) {
	for i := range slices.Backward(r.Approvals) {
		a := &r.Approvals[i]
		same := func(b *DraftApproval) bool { return b.isOf(a.people()...) }
		if a.stands(r, drop) && !slices.ContainsFunc(counted, same) {
			counted = append(counted, a)
		}
	}
	return counted
}

// Missing returns what a promotion that drops these budgets lacks.
func (r *Review) Missing(drop []string) Missing {
	if r.Asked == nil {
		return Missing{}
	}
	counted := r.Counted(drop)
	return missingOf(r.Asked, func() *matching {
		m := newMatching(r.Asked.From)
		for _, a := range counted {
			m.add(a.groups())
		}
		return m
	})
}

// DraftApprovalRequest is an approval to be recorded. A store that has the key of By takes
// its principal, owner and groups as they are then.
type DraftApprovalRequest struct {
	PolicyID string
	Hash     spend.Hash // of the draft
	Drop     []string
	Note     string
	By       Actor
	Owner    string
	Groups   []string
	Name     string // of a person who has signed in; empty for a key
	Email    string
}

// MaxDraftApprovals is the maximum number of approvals of a draft.
const MaxDraftApprovals = 100

// The further results of an approval of a draft.
const (
	DecisionOtherDraft ApprovalDecisionResult = "other draft" // the policy's draft has another hash
	DecisionNotAsked   ApprovalDecisionResult = "not asked"   // the version in force requires no approvals
	DecisionOtherDrop  ApprovalDecisionResult = "other drop"  // the person approved already, for other budgets to be dropped
	DecisionFull       ApprovalDecisionResult = "full"        // the draft has MaxDraftApprovals
)

// Takes returns the result of an approval of the draft, judged by the owner and principal that the
// approver has now. The first approval of each person counts: a second one is recorded only if the person
// has a group that the first was recorded without, which admins change and not the person.
func (r *Review) Takes(d *DraftApprovalRequest) ApprovalDecisionResult {
	by := Party{KeyID: d.By.KeyID, Principal: d.By.Principal, Owner: d.Owner}
	switch {
	case r.Draft.Hash != d.Hash:
		return DecisionOtherDraft
	case r.Asked == nil:
		return DecisionNotAsked
	case by.Shares(r.Author), by.Shares(r.AuthorNow):
		return DecisionAuthor
	case !MayDecide(r.Asked, d.Groups):
		return DecisionNoGroup
	}
	for _, a := range r.Counted(nil) {
		if a.By.KeyID != by.KeyID && !spend.SameName(a.By.Principal, by.Principal) {
			if a.isOf(by) {
				return DecisionAgain
			}
			continue
		}
		lacks := func(g string) bool { return !inGroup(a.groups(), g) }
		switch more := func(id string) bool { return !slices.Contains(a.Drop, id) }; {
		case slices.ContainsFunc(d.Groups, lacks): // the approval also counts for other groups
		case slices.ContainsFunc(d.Drop, more):
			return DecisionOtherDrop
		default:
			return DecisionReplayed
		}
	}
	if len(r.Approvals) >= MaxDraftApprovals {
		return DecisionFull
	}
	return DecisionRecorded
}

// draftApprovalDetails is the record of an approval of a draft.
type draftApprovalDetails struct {
	Draft  int64    `json:"draft"` // its generation
	Note   string   `json:"note,omitempty"`
	Owner  string   `json:"owner,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Drop   []string `json:"drop_budgets,omitempty"`
	Name   string   `json:"name,omitempty"`
	Email  string   `json:"email,omitempty"`
}

// Details returns the record of an approval of a draft, as JSON.
func (d *DraftApprovalRequest) Details(draft int64) string { return jsonText(d.details(draft)) }

func (d *DraftApprovalRequest) details(draft int64) draftApprovalDetails {
	return draftApprovalDetails{Draft: draft, Note: d.Note, Owner: d.Owner, Groups: d.Groups, Drop: d.Drop, Name: d.Name, Email: d.Email}
}

// ChangeOfDraftApproval returns the record of an approval, without its head. PostgreSQL
// makes its own (approve_draft).
func (r *Review) ChangeOfDraftApproval(d *DraftApprovalRequest, generation int64, at time.Time) Change {
	return newChange(Change{
		Seq: generation, Kind: DraftApproved, Subject: d.PolicyID, Version: r.Version, By: d.By, At: at, Hash: r.Draft.Hash,
	}, d.details(r.Draft.Generation))
}

// DraftApprovalOf returns the approval that a change records.
func DraftApprovalOf(c *Change) (DraftApproval, error) {
	var kept draftApprovalDetails
	if err := json.Unmarshal([]byte(c.Details), &kept); err != nil {
		return DraftApproval{}, fmt.Errorf("cannot read the approval of a draft: %w", err)
	}
	return DraftApproval{
		Draft: kept.Draft, Version: c.Version, By: Party{KeyID: c.By.KeyID, Principal: c.By.Principal, Owner: kept.Owner},
		Groups: kept.Groups, Drop: kept.Drop, Note: kept.Note, At: c.At, Name: kept.Name, Email: kept.Email,
	}, nil
}

// Forcing is that an admin made a version which the one before asks people about.
type Forcing struct {
	Draft   int64 // the generation of the promoted draft; 0 for none
	Missing int   // how many approvals the version lacked
}

// ChangeOfForcing returns the record that a version was forced, without its head; created
// is the hash of its creation. PostgreSQL makes its own (record_forced).
func ChangeOfForcing(f *Forcing, created *Change, generation int64, at time.Time) Change {
	details := make(map[string]any)
	if f.Draft != 0 {
		details["draft"], details["missing"] = f.Draft, f.Missing
	}
	return newChange(Change{
		Seq: generation, Kind: PolicyForced, Subject: created.Subject, Version: created.Version, By: created.By, At: at, Hash: created.Hash,
	}, details)
}

// ChangeNeedsApprovalError refuses a version of a policy that the version in force asks
// people about. Nothing was written.
type ChangeNeedsApprovalError struct {
	PolicyID string
	Version  int // in force
}

func (e *ChangeNeedsApprovalError) Error() string {
	return fmt.Sprintf("version %d of policy %s asks people before it changes", e.Version, e.PolicyID)
}
