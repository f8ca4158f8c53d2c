package audit

import (
	"context"
	"fmt"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Drafts are possible next versions of policies: each judges the checks of its policy beside the
// version in force (S54). Every draft and its end stay on record. A draft's counters are not part of
// the record, and are in tables of their own.
type Drafts interface {
	// PutDraft stores the draft of a policy, in place of the one before, and sets Generation, Hash,
	// BaseVersion and MadeAt. Like the next two methods it raises the generation and records the
	// change. It fails with ErrNotFound if there is no such policy, and with ErrPoliciesFull.
	PutDraft(ctx context.Context, by Actor, d *Draft, now time.Time) error
	// DeleteDraft ends the draft of a policy, or fails with ErrNotFound.
	DeleteDraft(ctx context.Context, by Actor, policyID string, now time.Time) error
	// PromoteDraft makes the draft of that generation the next version and ends it, in one
	// transaction. It fails with ErrNotFound if that is not the policy's draft, with a *VersionError
	// if another version is in force, and as CreatePolicy does. The approvals that the version in
	// force requires are counted in this transaction (S80): if more are needed it fails with a
	// *ChangeNeedsApprovalError, unless the admin overrides them, which is recorded.
	PromoteDraft(ctx context.Context, by Actor, p Promotion, now time.Time) (*Policy, error)
	// ApproveDraft records that a person approves a draft, or says why not (S80). It fails
	// with ErrNotFound when the policy has no draft.
	ApproveDraft(ctx context.Context, a DraftApprovalRequest) (ApprovalDecisionResult, error)
	// Review returns the draft of a policy with its approvals, or ErrNotFound.
	Review(ctx context.Context, policyID string) (*Review, error)
	// Draft returns the draft of a policy, or ErrNotFound.
	Draft(ctx context.Context, policyID string) (*Draft, error)

	// JudgeDraft takes what a check takes from the counters of a draft, if there is room, and returns
	// the usage before: one step under any concurrency. It is not part of the check's commit, and is
	// not undone if a node is killed in between.
	JudgeDraft(ctx context.Context, t *DraftTake) (DraftTaken, error)
}

// Draft is a possible next version of a policy.
type Draft struct {
	PolicyID    string
	Generation  int64      // of the configuration that made the draft: each draft has another
	Hash        spend.Hash // of the draft's row
	BaseVersion int        // the version in force when the draft was put
	Name        string
	Description string
	Rules       string
	Metadata    string
	Redeem      spend.RedeemTerms
	Changes     string // as in Policy: those of the version that the draft becomes
	MadeAt      time.Time
	Note        string // of the draft's author, kept with the record of the change
	Author      Actor
}

// DraftEnded is the Rules of a row that ends a draft.
const DraftEnded = ""

// Promotion makes a draft the next version of its policy.
type Promotion struct {
	PolicyID   string
	Generation int64 // of the draft
	Version    int   // that must be in force
	Budgets    NewBudgets
	Note       string
}

// VersionError refuses a change of a policy that names another version than the one in force.
type VersionError struct{ Version int } // in force, 0 where there is none

func (e *VersionError) Error() string { return fmt.Sprintf("version %d is in force", e.Version) }

// DraftTake is what a check takes from a draft, with what is needed to decide that.
type DraftTake struct {
	Draft       int64
	Check       spend.ID // its millisecond is the time of the taking
	Fingerprint spend.Hash
	Looks       bool  // for a repeat
	UntilMS     int64 // when the fingerprint ends
	Leaves      bool  // the fingerprint of the check, unless a budget blocks the check
	Takes       bool  // from the counters, if all charges fit
	Charges     []spend.Charge
	Blocks      []bool // which of the charges' budgets block, by their index
}

// Settle decides by the usage before: whether the check takes, and whether it leaves its fingerprint.
func (t *DraftTake) Settle(usages []spend.Usage) (takes, leaves bool) {
	takes, leaves = t.Takes, t.Leaves
	for i := range t.Charges {
		if !t.Charges[i].Fits(usages[i]) {
			takes, leaves = false, leaves && !t.Blocks[i]
		}
	}
	return takes, leaves
}

// SurePassMS is the time during which a fingerprint in a draft counts only if its check was recorded,
// since the check's commit may have failed.
const SurePassMS = 3_600_000

// DraftTaken is the usage before a DraftTake.
type DraftTaken struct {
	Repeats spend.ID      // the check that it repeats, in which case nothing was taken; else zero
	Usages  []spend.Usage // by charge; nil of a repeat
}

// Row returns the draft as its hash is computed of it (chain.Drafts). PostgreSQL
// makes its own (put_draft).
func (d *Draft) Row() []byte {
	return chain.EncodeRow(d.PolicyID, d.Generation, int32(d.BaseVersion), d.Name, d.Description, d.Rules, d.Metadata, d.MadeAt,
		orNil(d.Redeem.Text()), orNil(d.Changes))
}

// Change returns the record of the draft, or of its end, without its head.
func (d *Draft) Change(kind ChangeKind, by Actor, at time.Time) Change {
	details := make(map[string]any)
	if d.Name != "" {
		details["name"] = d.Name
	}
	if d.Note != "" {
		details["note"] = d.Note
	}
	if kind == DraftPut {
		by.addTo(details)
	}
	return newChange(Change{Seq: d.Generation, Kind: kind, Subject: d.PolicyID, By: by, At: at, Hash: chain.HashDraft(d.Row())}, details)
}
