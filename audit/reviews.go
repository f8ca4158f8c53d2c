package audit

import (
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
	Approvals []DraftDecision        // of the draft, oldest first
	Rejection *DraftDecision         // of the draft; nil while nobody rejected it
}

// DraftDecision is that a person approves or rejects a draft.
type DraftDecision struct {
	Draft   int64 // its generation
	Rejects bool
	Version int // in force then, which the draft is to replace
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

// ApproverOf returns the present rights of a key as approver of a policy's drafts; nil of nil.
func ApproverOf(k *Key, policyID string, now time.Time) *Approver {
	if k == nil {
		return nil
	}
	g := &k.Grants
	return &Approver{
		Party: k.Party(), Groups: g.Groups,
		Decides: k.Active && !g.Expired(now) && g.Permitted().Has(spend.ApprovalsDecide) &&
			(g.PolicyIDs == nil || slices.Contains(g.PolicyIDs, policyID)),
	}
}

// person is who approved.
func (a *DraftDecision) person() Person {
	if a.Now == nil {
		return Person{a.By, a.By}
	}
	return Person{a.By, a.Now.Party}
}

// stands reports whether the approval counts for a promotion that drops these budgets,
// whoever else approved.
func (a *DraftDecision) stands(r *Review, drop []string) bool {
	for _, id := range drop {
		if !slices.Contains(a.Drop, id) {
			return false
		}
	}
	return a.Version == r.Version && (a.Now == nil || a.Now.Decides) && !a.person().Shares(Person{r.Author, r.AuthorNow})
}

// groups returns the groups that the key had then and has now.
func (a *DraftDecision) groups() (both []string) {
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
// the newest of each person, newest first. Of a draft that somebody rejected none does.
func (r *Review) Counted(drop []string) (counted []*DraftDecision) {
	if r.Rejection != nil {
		return nil
	}
	for i := range slices.Backward(r.Approvals) {
		a := &r.Approvals[i]
		same := func(b *DraftDecision) bool { return b.person().Shares(a.person()) }
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

// Add adds a decision about the draft.
func (r *Review) Add(d DraftDecision) {
	if d.Rejects {
		r.Rejection = &d
	} else {
		r.Approvals = append(r.Approvals, d)
	}
}

// BroughtForward reports whether the approval of a person with these groups makes fewer people missing.
func (r *Review) BroughtForward(groups []string) bool {
	m := newMatching(r.Asked.From)
	for _, a := range r.Counted(nil) {
		m.add(a.groups())
	}
	return m.broughtForward(r.Asked, groups)
}

// DraftDecisionRequest is a decision to be recorded. A store that has the key of By takes
// its principal, owner and groups as they are then.
type DraftDecisionRequest struct {
	PolicyID string
	Rejects  bool
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

// The further results of a decision about a draft.
const (
	DecisionOtherDraft ApprovalDecisionResult = "other draft" // the policy's draft has another hash
	DecisionNotAsked   ApprovalDecisionResult = "not asked"   // the version in force requires no approvals
	DecisionOtherDrop  ApprovalDecisionResult = "other drop"  // the person approved already, for other budgets to be dropped
	DecisionFull       ApprovalDecisionResult = "full"        // the draft has MaxDraftApprovals
	DecisionRejected   ApprovalDecisionResult = "rejected"    // somebody rejected the draft
)

// Takes returns the result of a decision about the draft, judged by the owner and principal that whoever
// decides has now. A rejection is never taken back. The first approval of each person counts: a second one is
// recorded only if the person has a group that the first was recorded without, which admins change and not the person.
func (r *Review) Takes(d *DraftDecisionRequest) ApprovalDecisionResult {
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
	case r.Rejection != nil && d.Rejects && (r.Rejection.By.KeyID == by.KeyID || spend.SameName(r.Rejection.By.Principal, by.Principal)):
		return DecisionReplayed
	case r.Rejection != nil:
		return DecisionRejected
	case d.Rejects:
		return DecisionRecorded
	}
	for _, a := range r.Counted(nil) {
		if a.By.KeyID != by.KeyID && !spend.SameName(a.By.Principal, by.Principal) {
			if a.person().Shares(Person{by, by}) {
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

// draftDecisionDetails is the record of a decision about a draft.
type draftDecisionDetails struct {
	Draft  int64    `json:"draft"` // its generation
	Note   string   `json:"note,omitempty"`
	Owner  string   `json:"owner,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Drop   []string `json:"drop_budgets,omitempty"`
	Name   string   `json:"name,omitempty"`
	Email  string   `json:"email,omitempty"`
}

// Kind returns the kind of the change that records the decision.
func (d *DraftDecisionRequest) Kind() ChangeKind {
	if d.Rejects {
		return DraftRejected
	}
	return DraftApproved
}

// Details returns the record of a decision about a draft, as JSON.
func (d *DraftDecisionRequest) Details(draft int64) string { return jsonText(d.details(draft)) }

func (d *DraftDecisionRequest) details(draft int64) draftDecisionDetails {
	return draftDecisionDetails{Draft: draft, Note: d.Note, Owner: d.Owner, Groups: d.Groups, Drop: d.Drop, Name: d.Name, Email: d.Email}
}

// ChangeOfDraftDecision returns the record of a decision, without its head. PostgreSQL
// makes its own (decide_draft).
func (r *Review) ChangeOfDraftDecision(d *DraftDecisionRequest, at time.Time) Change {
	return newChange(Change{
		Kind: d.Kind(), Subject: d.PolicyID, Version: r.Version, By: d.By, At: at, Hash: r.Draft.Hash,
	}, d.details(r.Draft.Generation))
}

// DraftDecisionOf returns the decision that a change records.
func DraftDecisionOf(c *Change) (DraftDecision, error) {
	var kept draftDecisionDetails
	if err := json.Unmarshal([]byte(c.Details), &kept); err != nil {
		return DraftDecision{}, fmt.Errorf("cannot read a decision about a draft: %w", err)
	}
	return DraftDecision{
		Draft: kept.Draft, Rejects: c.Kind == DraftRejected, Version: c.Version,
		By:     Party{KeyID: c.By.KeyID, Principal: c.By.Principal, Owner: kept.Owner},
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
func ChangeOfForcing(f *Forcing, created *Change, at time.Time) Change {
	details := make(map[string]any)
	if f.Draft != 0 {
		details["draft"], details["missing"] = f.Draft, f.Missing
	}
	return newChange(Change{
		Kind: PolicyForced, Subject: created.Subject, Version: created.Version, By: created.By, At: at, Hash: created.Hash,
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
