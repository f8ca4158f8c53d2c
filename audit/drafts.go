package audit

import (
	"context"
	"fmt"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Drafts are possible next versions of policies. A backtest shows what a draft would have made of the
// checks since it was put (S54). Every draft and its end stay on record.
type Drafts interface {
	// PutDraft stores the draft of a policy, in place of the one of d.Replaces, and sets Generation, Hash,
	// BaseVersion, MadeAt and Submitted. Like the next two methods it raises the generation and records the
	// change. It fails with ErrNotFound if there is no such policy, with ErrDraftChanged if the policy has
	// another draft, and with ErrPoliciesFull.
	PutDraft(ctx context.Context, by Actor, d *Draft, now time.Time) error
	// DeleteDraft ends the draft of that generation, or fails with ErrNotFound if that is not the policy's draft.
	DeleteDraft(ctx context.Context, by Actor, policyID string, generation int64, now time.Time) error
	// PromoteDraft makes the draft of that generation the next version and ends it, in one
	// transaction. It fails with ErrNotFound if that is not the policy's draft, with a *VersionError
	// if another version is in force, and as CreatePolicy does. The approvals that the version in
	// force requires are counted in this transaction (S80): if more are needed it fails with a
	// *ChangeNeedsApprovalError, unless the admin overrides them, which is recorded.
	PromoteDraft(ctx context.Context, by Actor, p Promotion, now time.Time) (*Policy, error)
	// DecideDraft records that a person approves or rejects a draft, or says why not (S80, S93). It fails
	// with ErrNotFound when the policy has no draft.
	DecideDraft(ctx context.Context, d DraftDecisionRequest) (ApprovalDecisionResult, error)
	// Review returns the draft of a policy with its approvals, or ErrNotFound.
	Review(ctx context.Context, policyID string) (*Review, error)
	// SubmittedDrafts returns the policies that have a draft and whose version in force asks people about it,
	// by ID in the order of bytes.
	SubmittedDrafts(ctx context.Context, q PolicyQuery) (policyIDs []string, more bool, err error)
	// Draft returns the draft of a policy, or ErrNotFound.
	Draft(ctx context.Context, policyID string) (*Draft, error)
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
	Submitted   bool  // the version that was in force asks people about it
	Replaces    int64 // the generation of the draft that PutDraft replaces; 0 for none
}

// ErrDraftChanged says that the draft of a policy, or what people decided about it, is not as it was read.
var ErrDraftChanged = fmt.Errorf("%w: the draft changed meanwhile", ErrUnavailable)

// BacktestID is the identifier of the draft's backtest: of the time when it was made, and of its hash.
func (d *Draft) BacktestID() spend.ID {
	id := FirstID(d.MadeAt.UnixMilli())
	copy(id[6:], d.Hash[:])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80 // as of a UUIDv7
	return id
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
	c := Change{Seq: d.Generation, Kind: kind, Subject: d.PolicyID, By: by, At: at, Hash: chain.HashDraft(d.Row())}
	if kind == DraftPut {
		by.addTo(details)
	}
	if d.Submitted {
		c.Version = d.BaseVersion
	}
	return newChange(c, details)
}
