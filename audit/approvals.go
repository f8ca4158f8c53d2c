package audit

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"spendgate/audit/spend"
)

// Approvals are the decisions that escalated checks ask of people. Commit makes approvals, and uses
// them.
type Approvals interface {
	// Approvals returns the approvals of those IDs that exist, in no order.
	Approvals(ctx context.Context, ids []spend.ID) ([]*Approval, error)
	// ListApprovals returns a page, newest first unless the query says otherwise.
	ListApprovals(ctx context.Context, q ApprovalQuery) (page []*Approval, more bool, err error)
	// Decide records a person's decision (S44). The count, the separation and the decision are one
	// transaction, for which a use waits. It raises the generation and records a change.
	Decide(ctx context.Context, d ApprovalDecisionRequest) (ApprovalDecisionResult, error)
	// Reopen records that what these keys approved of a pending or approved approval counts no more (S92). It does nothing,
	// and returns false, if the approval has another state, or a key was changed after the generation by which the keys
	// were judged.
	Reopen(ctx context.Context, id spend.ID, keyIDs []string, judged int64) (reopened bool, err error)
	// ExpireApprovals records, once, that approvals have expired: from then on they are expired
	// whatever the clock says. Any node may call it at any time, and some node must every few seconds.
	// It returns since when the oldest pending approval is pending; zero if none is.
	ExpireApprovals(ctx context.Context) (oldest time.Time, err error)
}

// ApprovalStatus is the state of an approval (S45).
type ApprovalStatus string

// The states. Expired is never denied, and nothing turns into approved by time.
const (
	ApprovalPending  ApprovalStatus = "pending"
	ApprovalApproved ApprovalStatus = "approved"
	ApprovalDenied   ApprovalStatus = "denied"
	ApprovalExpired  ApprovalStatus = "expired"
	ApprovalUsed     ApprovalStatus = "used"
	// ApprovalWithdrawn was asked for by a check of a payment that was denied, or replaced, meanwhile (S84).
	ApprovalWithdrawn ApprovalStatus = "withdrawn"
)

// Further results for a use or a decision.
const (
	ApprovalAbsent   ApprovalStatus = "absent"
	ApprovalMismatch ApprovalStatus = "mismatch" // it is for another action
)

// Approval is an approval as it is now.
type Approval struct {
	Check       *spend.Check // that asked
	Status      ApprovalStatus
	CreatedAt   time.Time
	ExpiresAt   time.Time // since it was made, or reopened last
	ApprovedAt  time.Time // zero until enough have approved
	UsedBy      spend.ID  // the check; zero until it is used
	Expired     bool      // its expiry is recorded
	WithdrawnAt time.Time // zero unless it was withdrawn
	ReopenedAt  time.Time // zero: never
	Last        int64     // the number of its last change; 0: none
	Decisions   []ApprovalDecision
	Asker       Party // of the key that asked, as it is now; zero without such a key
	// Authors are the parties that wrote the version that escalated, as recorded then and as they are
	// now: of the version, and of the draft that it was. Nil unless they are excluded, or if no key
	// wrote it.
	Authors []Party
}

// Party is an API key with its principal and owner.
type Party struct {
	KeyID     string
	Principal string
	Owner     string // empty when not given
}

// Asker returns the party that asked for a check, as recorded with the check.
func Asker(c *spend.Check) Party {
	return Party{KeyID: c.KeyID, Principal: c.PrincipalName(), Owner: c.Owner}
}

// Shares reports whether two parties have an API key, a principal or an owner in common: the same
// person may be behind both (S62).
func (p Party) Shares(other Party) bool {
	for _, a := range [...]string{p.KeyID, p.Principal, p.Owner} {
		for _, b := range [...]string{other.KeyID, other.Principal, other.Owner} {
			if a != "" && b != "" && spend.SameName(a, b) {
				return true
			}
		}
	}
	return false
}

// Decider returns the party that made a decision, as recorded then.
func (d *ApprovalDecision) Decider() Party {
	return Party{KeyID: d.KeyID, Principal: d.Principal, Owner: d.Owner}
}

// UseBy returns until when the approval may be used; zero until it is approved.
func (a *Approval) UseBy() time.Time {
	if a.ApprovedAt.IsZero() {
		return time.Time{}
	}
	return a.ApprovedAt.Add(a.Check.Approval.UseWithin)
}

// ApprovalDecision is a person's decision about an approval.
type ApprovalDecision struct {
	Approves  bool
	KeyID     string
	Principal string
	Owner     string // of the key; empty when not given
	Note      string // empty when absent
	At        time.Time
	Groups    []string // of the key, as recorded then
	Completes bool     // what is asked is complete with it
	Void      bool     // it counts no more (S92)
	Name      string   // of a person who had signed in (S78), as recorded then; empty for a key
	Email     string
}

// ApprovalQuery selects approvals. Zero fields do not filter.
type ApprovalQuery struct {
	Status   ApprovalStatus
	PolicyID string
	AgentID  string
	ApprovalFilter
	Before spend.ID // only smaller IDs: the position of the cursor
	// Soonest lists those that expire soonest first, and then by ID, instead of the newest first. After is the
	// position of its cursor. It needs the status pending.
	Soonest bool
	After   ApprovalPlace
	Limit   int
	Bounds
}

// ApprovalFilter selects approvals by the check that asked and by who decided. Zero fields do not filter.
type ApprovalFilter struct {
	Counterparty string
	From         time.Time // when it was asked: inclusive
	Until        time.Time // exclusive
	DecidedBy    string    // the principal of somebody who approved or denied it
	Amounts
}

// ApprovalPlace is the place of an approval among those that expire soonest.
type ApprovalPlace struct {
	ExpiresAt time.Time
	ID        spend.ID
}

// Compare orders places: soonest first, then by ID.
func (p ApprovalPlace) Compare(q ApprovalPlace) int {
	return cmp.Or(p.ExpiresAt.Compare(q.ExpiresAt), p.ID.Compare(q.ID))
}

// Place returns the place of the approval among those that expire soonest.
func (a *Approval) Place() ApprovalPlace { return ApprovalPlace{a.ExpiresAt, a.Check.ID} }

// ApprovalDecisionRequest is a decision to be recorded. A store that has the key of By
// takes its principal, its owner and its groups as they are then.
type ApprovalDecisionRequest struct {
	ApprovalID spend.ID
	Approves   bool
	ActionHash spend.Hash
	Note       string
	By         Actor
	Owner      string // of the key that decides
	Groups     []string
	Completes  bool   // as the store finds: see Approval.Completes
	Name       string // of a person who has signed in; empty for a key
	Email      string
}

// ApprovalDecisionResult is the result of an ApprovalDecisionRequest or a DraftDecisionRequest.
type ApprovalDecisionResult string

// The results. Any other value is the status of the approval, because of which the decision
// was not recorded.
const (
	DecisionRecorded ApprovalDecisionResult = "recorded"
	DecisionReplayed ApprovalDecisionResult = "replayed"
	DecisionOwn      ApprovalDecisionResult = "own"   // by the key or person that asked (S44)
	DecisionAgain    ApprovalDecisionResult = "again" // by another key of somebody who approved already (S62)

	DecisionAuthor  ApprovalDecisionResult = "author"   // by the author of the version, who is excluded (S79)
	DecisionNoGroup ApprovalDecisionResult = "no group" // by a person outside the groups that are asked (S79)
)

// ApprovalError refuses the use, or the withdrawal, of an approval. Nothing was written.
type ApprovalError struct {
	Status ApprovalStatus
	UsedBy spend.ID // when it was used
}

func (e *ApprovalError) Error() string {
	return "the approval cannot be used: it is " + string(e.Status)
}

// ApprovalsError lists the checks of a batch that may not use, or withdraw, their approvals.
// Nothing was written: refuse them and commit the rest.
type ApprovalsError struct{ Refused map[spend.ID]*ApprovalError }

func (e *ApprovalsError) Error() string {
	return fmt.Sprintf("%d approvals cannot be used", len(e.Refused))
}

// SetStatus derives the state at a moment from decisions, times, use and expiry. PostgreSQL
// derives its own (state_of_approval).
func (a *Approval) SetStatus(now time.Time) {
	denied := false
	a.ApprovedAt = time.Time{}
	for _, d := range a.Decisions {
		if denied = denied || !d.Approves; d.Approves && d.Completes {
			a.ApprovedAt = d.At
		}
	}
	switch {
	case !a.UsedBy.IsZero():
		a.Status = ApprovalUsed
	case denied:
		a.Status = ApprovalDenied
	case !a.WithdrawnAt.IsZero():
		a.Status = ApprovalWithdrawn
	case a.Expired:
		a.Status = ApprovalExpired
	case a.ApprovedAt.IsZero() && now.Before(a.ExpiresAt):
		a.Status = ApprovalPending
	case !a.ApprovedAt.IsZero() && now.Before(a.UseBy()):
		a.Status = ApprovalApproved
	default:
		a.Status = ApprovalExpired
	}
}

// Takes returns the result of a decision about the approval, which is nil if there is none (S44, S62,
// S79).
func (a *Approval) Takes(d ApprovalDecisionRequest) ApprovalDecisionResult {
	if a == nil {
		return ApprovalDecisionResult(ApprovalAbsent)
	}
	by := Party{KeyID: d.By.KeyID, Principal: d.By.Principal, Owner: d.Owner}
	decided := func(d2 ApprovalDecision) bool {
		return !d2.Void && d2.Approves == d.Approves && (d2.KeyID == by.KeyID || spend.SameName(d2.Principal, by.Principal))
	}
	approved := func(d2 ApprovalDecision) bool {
		return !d2.Void && d2.Approves && d.Approves && d2.Decider().Shares(by)
	}
	switch {
	case a.Check.Approval.ActionHash != d.ActionHash:
		return ApprovalDecisionResult(ApprovalMismatch)
	case by.Shares(Asker(a.Check)), by.Shares(a.Asker):
		return DecisionOwn
	case slices.ContainsFunc(a.Decisions, decided):
		return DecisionReplayed
	case slices.ContainsFunc(a.Authors, by.Shares):
		return DecisionAuthor
	case !MayDecide(a.Check.Approval, d.Groups):
		return DecisionNoGroup
	case a.Status != ApprovalPending && (a.Status != ApprovalApproved || d.Approves):
		return ApprovalDecisionResult(a.Status)
	case slices.ContainsFunc(a.Decisions, approved):
		return DecisionAgain
	}
	return DecisionRecorded
}

// IsOfAnotherPrincipal reports whether the check differs from the one that the approval is for only in
// its principal (S46).
func (a *Approval) IsOfAnotherPrincipal(c *spend.Check) bool {
	same := *c
	same.Principal = a.Check.PrincipalName()
	return a.Check.Approval.ActionHash != spend.ActionHash(c) && a.Check.Approval.ActionHash == spend.ActionHash(&same)
}

// Refuses returns why the check may not use the approval, which is nil if there is
// none. PostgreSQL decides itself (use_approvals).
func (a *Approval) Refuses(c *spend.Check) *ApprovalError {
	switch {
	case a == nil:
		return &ApprovalError{Status: ApprovalAbsent}
	case a.Check.Approval.ActionHash != spend.ActionHash(c):
		return &ApprovalError{Status: ApprovalMismatch}
	case a.Status != ApprovalApproved:
		return &ApprovalError{Status: a.Status, UsedBy: a.UsedBy}
	}
	return nil
}

// ChangeOfApproval returns the record of a decision, without its head.
func ChangeOfApproval(d *ApprovalDecisionRequest, at time.Time) Change {
	kind := ApprovalDenial
	if d.Approves {
		kind = ApprovalGiven
	}
	return newChange(Change{
		Kind: kind, Subject: d.ApprovalID.Text(spend.PrefixApproval), By: d.By, At: at, Hash: d.ActionHash,
	}, decisionDetails{hex.EncodeToString(d.ActionHash[:]), d.Completes, d.Email, d.Groups, d.Name, d.Note, d.Owner})
}

// change returns the record of a change of the approval that is no decision, without its head.
func (a *Approval) change(kind ChangeKind, by Actor, at time.Time, details map[string]any) Change {
	hash := a.Check.Approval.ActionHash
	details["action_hash"] = hex.EncodeToString(hash[:])
	return newChange(Change{Kind: kind, Subject: a.Check.ID.Text(spend.PrefixApproval), By: by, At: at, Hash: hash}, details)
}

// Expirer returns the actor of expiries.
func Expirer() Actor { return Actor{Principal: "spendgate"} }

// ChangeOfExpiry returns the record that the approval has expired, without its head.
// One that ends by a restore has done so before its time. PostgreSQL makes its own (expire_approvals).
func ChangeOfExpiry(a *Approval, at time.Time, restored bool) Change {
	was := ApprovalPending
	if !a.ApprovedAt.IsZero() {
		was = ApprovalApproved
	}
	details, by := map[string]any{"was": was}, Expirer()
	if restored {
		details["restored"], by = true, Restorer()
	}
	return a.change(ApprovalExpiry, by, at, details)
}

// ChangeOfWithdrawal returns the record that an approval, pending or approved, of a payment is withdrawn, without its
// head. PostgreSQL makes its own (withdraw_approvals).
func ChangeOfWithdrawal(a *Approval, by Actor, at time.Time) Change {
	payment := a.Check.PaymentHash()
	return a.change(ApprovalWithdrawal, by, at, map[string]any{"was": a.Status, "payment": hex.EncodeToString(payment[:])})
}
