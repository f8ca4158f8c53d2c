package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Changes is the record of every change of policies and keys, which is made
// with the change and never altered (G8).
type Changes interface {
	// Changes returns changes that match the query, in the order of their numbers.
	Changes(ctx context.Context, q ChangeQuery) ([]Change, error)
}

// ChangeQuery selects changes. Zero fields do not filter.
type ChangeQuery struct {
	PolicyID string    // of the policy
	KeyID    string    // of the key, or made with the key
	Since    time.Time // inclusive
	After    int64     // only greater numbers
	Limit    int
}

// ChangeKind is the kind of a change.
type ChangeKind string

// The kinds of changes.
const (
	PolicyCreated ChangeKind = "policy.created"
	DraftPut      ChangeKind = "policy.draft_put"
	DraftDeleted  ChangeKind = "policy.draft_deleted"
	DraftPromoted ChangeKind = "policy.draft_promoted"
	DraftApproved ChangeKind = "policy.draft_approved"
	DraftRejected ChangeKind = "policy.draft_rejected"
	PolicyForced  ChangeKind = "policy.forced" // the version was created against the one before, by the admin
	KeyCreated    ChangeKind = "key.created"
	KeyChanged    ChangeKind = "key.changed"
	KeyExpiring   ChangeKind = "key.expiring" // the key is as it was

	ApprovalGiven  ChangeKind = "approval.approved"
	ApprovalDenial ChangeKind = "approval.denied"
	ApprovalExpiry ChangeKind = "approval.expired"
	// ApprovalReopening says whose approvals count no more (S92).
	ApprovalReopening ChangeKind = "approval.reopened"
	// ApprovalWithdrawal ends an unused approval of a payment (S84).
	ApprovalWithdrawal ChangeKind = "approval.withdrawn"

	FreezeCreated         ChangeKind = "freeze.created"
	FreezeReleaseApproved ChangeKind = "freeze.release_approved" // by one of the people who are required
	FreezeIsReleased      ChangeKind = "freeze.released"
	FreezeForced          ChangeKind = "freeze.forced" // released by the admin alone
	FreezeEnded           ChangeKind = "freeze.ended"  // its time is over

	GrantCreated  ChangeKind = "grant.created"
	GrantApproved ChangeKind = "grant.approved" // by one of the people who are required
	GrantRevoked  ChangeKind = "grant.revoked"

	WebhookCreated ChangeKind = "webhook.created"
	WebhookChanged ChangeKind = "webhook.changed"
	WebhookDeleted ChangeKind = "webhook.deleted"

	EventsRemoved   ChangeKind = "events.removed"   // by their retention
	PaymentsRemoved ChangeKind = "payments.removed" // that ended long ago (S84)

	ZonesChanged ChangeKind = "zones.changed" // the release of the time zones that nodes have
)

// ChangeKinds returns all kinds.
func ChangeKinds() []ChangeKind {
	return []ChangeKind{
		PolicyCreated, DraftPut, DraftDeleted, DraftPromoted, DraftApproved, DraftRejected, PolicyForced, KeyCreated, KeyChanged, KeyExpiring,
		ApprovalGiven, ApprovalDenial, ApprovalExpiry, ApprovalReopening, ApprovalWithdrawal,
		FreezeCreated, FreezeReleaseApproved, FreezeIsReleased, FreezeForced, FreezeEnded, GrantCreated, GrantApproved, GrantRevoked,
		WebhookCreated, WebhookChanged, WebhookDeleted, EventsRemoved, PaymentsRemoved, ZonesChanged,
	}
}

// IsOfApproval reports whether the change is of an approval.
func (k ChangeKind) IsOfApproval() bool {
	switch k {
	case ApprovalGiven, ApprovalDenial, ApprovalReopening, ApprovalExpiry, ApprovalWithdrawal:
		return true
	default:
		return false
	}
}

// Actor is the author of a change of the configuration, with the address of the request. Empty fields
// are unknown, or do not apply.
type Actor struct {
	KeyID      string // of the API key
	Principal  string // of the API key, or the name of a command that acts by itself
	Credential string // which admin key: the first 8 digits of its SHA-256, in hex
	RequestID  string
	Address    string // of the client
	// For a person who has signed in (S78), as the provider named them then: the owner that their keys
	// have, and the e-mail. Empty for a key, whose own are on record.
	Owner, Email string
}

// KindAdmin is the Kind of an admin.
const KindAdmin = "admin"

// Kind returns what kind of credential the actor has: admin, key, or system for
// none.
func (a *Actor) Kind() string {
	switch {
	case a.Credential != "":
		return KindAdmin
	case a.KeyID != "":
		return "key"
	}
	return "system"
}

// Name returns the name that distinguishes the actor from others of its kind.
func (a *Actor) Name() string { return cmp.Or(a.Credential, a.KeyID, a.Principal) }

// LogValue returns the attributes of a line of the log about what the actor did.
func (a *Actor) LogValue() slog.Value {
	return slog.GroupValue(slog.String("actor", a.Kind()), slog.String("by", a.Name()), slog.String("request_id", a.RequestID),
		slog.String("address", a.Address))
}

// Change is the record of one change.
type Change struct {
	Seq     int64 // 1, 2, 3: also the generation that the change made
	Kind    ChangeKind
	Subject string // the policy_id, key_id or approval_id
	Version int    // of the policy; 0 for a key
	By      Actor
	At      time.Time  // by the store's clock
	Details string     // a JSON object: the new state of the policy or key; never a secret
	Hash    spend.Hash // of the row of the policy or key as it is now
	Head    spend.Hash // over the whole change and the head of the change before
}

// addTo adds the name, e-mail and owner of a person who has signed in to the details of what they
// wrote, so that they can be compared with those who decide about it (S62).
func (a *Actor) addTo(details map[string]any) {
	if a.Owner != "" {
		details["owner"] = a.Owner
	}
	if a.Email != "" {
		details["email"] = a.Email
	}
}

// AuthorText returns the name, e-mail and owner of a person who has signed in, as JSON; empty for
// anybody else.
func (a *Actor) AuthorText() string {
	told := make(map[string]any)
	if a.addTo(told); len(told) == 0 {
		return ""
	}
	return jsonText(told)
}

// Row returns the change as its head is computed of it (chain.Changes).
func (c *Change) Row() []byte {
	var version any
	if c.Version != 0 {
		version = int32(c.Version)
	}
	return chain.EncodeRow(c.Seq, string(c.Kind), c.Subject, version, c.By.Kind(), orNil(c.By.KeyID), orNil(c.By.Principal),
		orNil(c.By.Credential), orNil(c.By.RequestID), orNil(c.By.Address), c.At, c.Details, c.Hash[:])
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func orZero(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// ChangeOfPolicy returns the record of a new version of a policy, and of the budgets
// that were dropped, without its head. PostgreSQL makes its own (create_policy).
func ChangeOfPolicy(p *Policy, dropped []string, generation int64, by Actor, at time.Time) Change {
	row := chain.EncodeRow(p.PolicyID, int32(p.Version), p.Name, p.Description, p.Rules, p.Metadata, p.CreatedAt, p.UpdatedAt, generation,
		orNil(BudgetsText(p.Budgets)), orNil(p.Redeem.Text()), orNil(p.Changes))
	details := map[string]any{"name": p.Name}
	if p.Note != "" {
		details["note"] = p.Note
	}
	if len(dropped) > 0 {
		details["drop_budgets"] = dropped
	}
	by.addTo(details)
	return newChange(Change{
		Seq: generation, Kind: PolicyCreated, Subject: p.PolicyID, Version: p.Version, By: by, At: at, Hash: chain.HashPolicy(row),
	}, details)
}

// ChangeOfKey returns the record of a new or changed key, without its head.
// PostgreSQL makes its own (record_key).
func ChangeOfKey(kind ChangeKind, k *Key, generation int64, by Actor, at time.Time) Change {
	row := chain.EncodeRow(k.ID[:], k.Hash[:], k.Name, int32(k.RateLimitRPM), k.Active, k.CreatedAt, generation, orNil(k.Grants.Text()),
		orZero(k.Stopped), orZero(k.GranterSince))
	details := map[string]any{"name": k.Name, "rate_limit_rpm": k.RateLimitRPM, "active": k.Active}
	if k.Stopped == generation {
		details["stopped"] = true
	}
	if k.GranterSince == generation {
		details["granter"] = true
	}
	if text := k.Grants.Text(); text != "" {
		if err := json.Unmarshal([]byte(text), &details); err != nil {
			panic(fmt.Sprintf("BUG: the grants of a key are no JSON: %v", err))
		}
	}
	return newChange(Change{
		Seq: generation, Kind: kind, Subject: k.ID.Text(spend.PrefixKey), By: by, At: at, Hash: chain.HashKey(row),
	}, details)
}

// newChange completes a record: its time is to the millisecond, as stores keep it.
func newChange(c Change, details any) Change {
	c.At, c.Details = c.At.UTC().Truncate(time.Millisecond), jsonText(details)
	return c
}

// jsonText returns the JSON of a value that always has one.
func jsonText(value any) string {
	b, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("BUG: %T has no JSON: %v", value, err))
	}
	return string(b)
}
