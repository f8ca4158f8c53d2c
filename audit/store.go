package audit

import (
	"context"
	"slices"
	"time"

	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// Store keeps the audit trail and the configuration. Every method reads and
// writes the primary, is safe for concurrent use, and respects its context's
// deadline.
//
// Methods fail with this package's errors, wrapped. ErrUnavailable: certainly
// nothing was written. ErrUnknown: a write may have happened.
type Store interface {
	Trail
	Fences
	Policies
	Drafts
	Keys
	Changes
	Budgets
	Approvals
	Redemptions
	Webhooks
	Events
	Backtests
	Sessions
	History

	// ConfigChanges returns what changed after generation since; 0 returns all
	// keys. One consistent reading, so that Generation covers what is in it.
	ConfigChanges(ctx context.Context, since int64) (ConfigChanges, error)

	// Ping fails when the store cannot be reached or its schema is not the
	// one that this build needs.
	Ping(ctx context.Context) error
	// Status reports what durability is in force (G1) and the store's clock.
	Status(ctx context.Context) (Status, error)
	// Tidy removes what no guarantee needs any more (expired idempotency
	// keys) and makes partitions ahead. Any node may call it at any time.
	Tidy(ctx context.Context, now time.Time) error
	// CountViolations brings the counts up to date that keep Violations fast,
	// unless another node is at it. What it has not counted yet is counted
	// one by one by those who ask: totals are exact without it, too. Any node
	// may call it at any time, and some node should every few seconds.
	CountViolations(ctx context.Context) error
	// CountChecks does the same for CheckCounts.
	CountChecks(ctx context.Context) error
	Close()
}

// Trail is the immutable audit trail.
type Trail interface {
	// Commit writes the checks, their violations and their idempotency keys, the
	// outcomes, and their link of the node's chain (G8), and takes the charges from
	// the counters of budgets (G12) and corrects those of the outcomes' checks, in
	// one durable transaction, or nothing. All carry the same fence, their IDs are
	// distinct, and so are the checks that outcomes are of. It fails with
	//
	//	ErrStaleEpoch    the fence's epoch is over: claim again
	//	ErrFencedNode    the fence's node was fenced: claim again as a new one
	//	ErrForked        the chain has another link of that number
	//	*KeysTakenError  these idempotency keys are recorded: commit the rest
	//	*ApprovalsError  these checks may not use their approvals: commit the rest
	//	*ReportedError   these checks have other outcomes, or may not be redeemed any
	//	                 more, or under that lasting key: commit the rest
	//	*ExceededError   these budgets have no room: commit what fits
	//	*RowError        a row's own data was refused; with several checks any
	//	                 of them may be it
	//	ErrUnavailable   certainly nothing was written
	//	ErrUnknown       the connection was lost while committing: only a
	//	                 look-up behind Fence can tell
	Commit(ctx context.Context, checks []*spend.Check, outcomes []*spend.Outcome, link chain.Link) error

	// Checks looks up by ID; the absent are missing from the answer, which
	// has no order.
	Checks(ctx context.Context, ids []spend.ID) ([]*spend.Check, error)
	// CheckIDsByKey returns, per hash of an idempotency key, the check recorded
	// under it in the last 24 hours, by the store's clock (S18).
	CheckIDsByKey(ctx context.Context, keyHashes []spend.Hash) (map[spend.Hash]spend.ID, error)
	// PassStates looks checks up by ID as holders of fingerprints; the absent are
	// missing from the answer.
	PassStates(ctx context.Context, ids []spend.ID) (map[spend.ID]PassState, error)
	// LivePasses returns, per fingerprint, the latest pass whose UntilMS is
	// after nowMS and that was not released (PassReleased), of those that were decided as
	// upTo or better: with Allow of the allowed, with Block of all.
	LivePasses(ctx context.Context, fingerprints []spend.Hash, nowMS int64, upTo spend.Effect) (map[spend.Hash]LivePass, error)
	// PagePasses walks all passes whose UntilMS is after nowMS and that were not
	// released, newest ID first, beginning below the ID before (zero begins at the
	// newest).
	PagePasses(ctx context.Context, before spend.ID, nowMS int64, limit int) ([]LivePass, error)
	// Outcomes returns the outcomes of checks, of each in the order of their
	// steps.
	Outcomes(ctx context.Context, checkIDs []spend.ID) ([]*spend.Outcome, error)

	// Violations returns a page, newest first, and the exact count of all that
	// match the filter, whatever the position (S22).
	Violations(ctx context.Context, q ViolationQuery) (ViolationPage, error)
	// ListChecks returns a page, newest first.
	ListChecks(ctx context.Context, q CheckQuery) (CheckPage, error)
	// CheckCounts returns how many checks there are, by time and decision: what has
	// none is left out, and the rest is in the order of time. Checks of archived days
	// are counted, too. It fails with ErrTooMany, or with ErrArchived, when the query
	// is one that checks must be looked at for.
	CheckCounts(ctx context.Context, q CountQuery) ([]CheckCount, error)
}

// LivePass is a fingerprint still in force and the check that left it.
type LivePass struct {
	Fingerprint spend.Hash
	CheckID     spend.ID
	Effect      spend.Effect
	spend.Pass
}

// PassState is what a recorded check is as the holder of a fingerprint.
type PassState int

// The states of a recorded check.
const (
	PassFinal      PassState = iota + 1 // there is nothing to release
	PassReleasable                      // was allowed
	PassAsking                          // asks for an approval
	PassExpiring                        // the same, and the approval has expired, which is not recorded yet
	// PassReleased is of what is no pass: it left no fingerprint, it failed or was voided, or
	// the use of its approval was, or the expiry of its approval is recorded.
	PassReleased
)

// PassStateOf returns the state of a recorded check.
func PassStateOf(allowed, asks, released, overdue bool) PassState {
	switch {
	case released:
		return PassReleased
	case overdue:
		return PassExpiring
	case asks:
		return PassAsking
	case allowed:
		return PassReleasable
	}
	return PassFinal
}

// ViolationQuery selects violations. Zero fields do not filter.
type ViolationQuery struct {
	AgentID    string
	PolicyID   string
	ActionType spend.ActionType
	Effect     spend.Effect // Block or Escalate; Allow (zero) does not filter
	From, To   time.Time    // both inclusive, to the millisecond
	Before     spend.ID     // only smaller IDs: the position of the cursor
	Limit      int

	Bounds
}

// Violation is the audit record of a blocked or escalated check. It shares its
// check's ID.
type Violation struct {
	ID              spend.ID
	AgentID         string
	PolicyID        string
	PolicyVersion   int
	ActionType      spend.ActionType
	Amount          spend.Amount
	Currency        string
	Counterparty    string
	Effect          spend.Effect
	RuleID          string
	RuleDescription string
	Confidence      spend.Confidence
	LatencyMS       int64
	Archived        bool // all but the ID left the store; such are never listed
}

// ViolationPage is one page of a listing.
type ViolationPage struct {
	Violations []Violation
	More       bool // there are smaller IDs that match
	Total      int64
}

// Fences decide which claims may still commit.
type Fences interface {
	// Deployment returns the random ID that names this deployment in Redis,
	// made with the schema.
	Deployment(ctx context.Context) (spend.ID, error)
	// Epoch is the current epoch of Redis' windows.
	Epoch(ctx context.Context) (spend.ID, error)
	// RotateEpoch makes next the epoch if seen still is, once every commit
	// proved under seen has ended; later ones fail with ErrStaleEpoch. It
	// returns the epoch now in force, which is not next if another node was
	// first.
	RotateEpoch(ctx context.Context, seen, next spend.ID) (current spend.ID, err error)
	// Fence returns once no commit of that node incarnation can succeed any
	// more: it waits for those in progress and refuses later ones.
	Fence(ctx context.Context, node spend.ID) error
}

// Budgets are the counters from which commits take.
type Budgets interface {
	// CounterUsages returns what was taken, in the order of the counters.
	CounterUsages(ctx context.Context, counters []spend.Counter) ([]spend.Usage, error)
	// CountersMet returns those of the counters from which checks of a principal took.
	CountersMet(ctx context.Context, principal string, counters []spend.ID) ([]spend.ID, error)
	// ListCounters returns a page of counters from which something was taken, by
	// subject.
	ListCounters(ctx context.Context, q CounterQuery) (counters []SubjectUsage, more bool, err error)
}

// Approvals are what escalated checks ask of people. They are made, and used, by
// Commit.
type Approvals interface {
	// Approvals returns those of the IDs that there are, in no order.
	Approvals(ctx context.Context, ids []spend.ID) ([]*Approval, error)
	// ListApprovals returns a page, newest first.
	ListApprovals(ctx context.Context, q ApprovalQuery) (page []*Approval, more bool, err error)
	// Decide records a person's decision (S44): the count, the separation and the
	// decision are one transaction, and a use waits for it. It raises the generation
	// and records a change.
	Decide(ctx context.Context, d DecisionRequest) (DecisionOutcome, error)
	// ExpireApprovals records of each approval that has expired that it has, once:
	// from then on it is expired whatever the clock says. Any node may call it at any
	// time, and some node must every few seconds. It returns since when the approval is
	// pending that is longest; zero when none is.
	ExpireApprovals(ctx context.Context) (oldest time.Time, err error)
}

// Webhooks are the endpoints that events are delivered to. A node delivers to
// those that it holds: the lease ends by the store's clock, so one that was killed
// holds nothing for long.
type Webhooks interface {
	// CreateWebhook stores a new webhook, to which events after the cursor are
	// delivered. It raises the generation and records the change, as do the next two.
	CreateWebhook(ctx context.Context, by Actor, w *Webhook, secret Secret, cursor int64) error
	// UpdateWebhook changes what is not nil and returns the record, or ErrNotFound.
	UpdateWebhook(ctx context.Context, by Actor, id spend.ID, change WebhookChange) (*Webhook, error)
	// DeleteWebhook deletes a webhook and all that was to be delivered to it, or
	// fails with ErrNotFound.
	DeleteWebhook(ctx context.Context, by Actor, id spend.ID) error
	// Webhook returns the record, or ErrNotFound.
	Webhook(ctx context.Context, id spend.ID) (*Webhook, error)
	// ListWebhooks returns all, newest first.
	ListWebhooks(ctx context.Context) ([]Webhook, error)

	// LeaseWebhooks has the node hold the active webhooks that nobody holds, or that
	// it holds without serving them, and returns which have something to do.
	LeaseWebhooks(ctx context.Context, holder spend.ID, serving []spend.ID, lease time.Duration) (WebhookLeases, error)
	// HoldWebhook renews a lease, moves the cursor, and returns what is to be done. It
	// fails with ErrNotFound, and writes nothing, when
	// the node does not hold the webhook, or that is not active.
	HoldWebhook(ctx context.Context, holder, id spend.ID, seen WebhookSeen, lease time.Duration) (*WebhookTask, error)
	// RecordDelivery records an attempt and what follows from it. A retry that was
	// put anew meanwhile stays. It fails with ErrNotFound, and writes nothing, when
	// the node does not hold the webhook.
	RecordDelivery(ctx context.Context, holder spend.ID, r DeliveryResult) error
	// ReleaseWebhooks ends all leases of the node.
	ReleaseWebhooks(ctx context.Context, holder spend.ID) error

	// Deliveries returns a page, newest first.
	Deliveries(ctx context.Context, q DeliveryQuery) (page []Delivery, more bool, err error)
	// ReplayDelivery has the event of an attempt tried again, now and as often as a
	// new one, and returns the attempt, or ErrNotFound, or *EventsRemovedError.
	ReplayDelivery(ctx context.Context, webhookID, deliveryID spend.ID) (*Delivery, error)
	// RetryWebhook has the webhook tried now, with all that waits, and returns how many
	// events that are, or ErrNotFound. How often they were tried stays.
	RetryWebhook(ctx context.Context, id spend.ID) (waiting int, err error)
}

// CounterQuery selects the counters of one budget and window.
type CounterQuery struct {
	PolicyID string
	RuleID   string
	Since    int
	StartMS  int64
	BucketMS int64
	Past     bool   // of a rolling window: no buckets after StartMS
	After    string // only greater subjects: the position of the cursor
	Limit    int

	// Values of which subjects must have one, for each of the budget's `per`; nil does
	// not filter.
	Subject [][]string
	// Principal restricts to counters that its checks have met (S30).
	Principal string
}

// CounterIDs returns the counters that can be meant, nil if the subject may have any
// value somewhere.
func (q *CounterQuery) CounterIDs() []spend.ID {
	subjects := [][]string{nil}
	for _, values := range q.Subject {
		if values == nil {
			return nil
		}
		var longer [][]string
		for _, subject := range subjects {
			for _, value := range values {
				longer = append(longer, append(slices.Clip(subject), value))
			}
		}
		subjects = longer
	}
	ids := make([]spend.ID, len(subjects))
	for i, values := range subjects {
		ids[i] = spend.CounterID(q.PolicyID, q.RuleID, q.Since, spend.SubjectOf(values...))
	}
	return ids
}

// SubjectUsage is what was taken for a subject.
type SubjectUsage struct {
	Subject string
	spend.Usage
	// FirstMS is when the oldest bucket of a rolling window begins that counts, in
	// Unix milliseconds.
	FirstMS int64
}

// Keys keeps API keys, by hash only.
type Keys interface {
	// CreateKey stores a new key. It raises the generation and records the
	// change.
	CreateKey(ctx context.Context, by Actor, k *Key) error
	// UpdateKey changes what is not nil and returns the record, or ErrNotFound.
	// It raises the generation and records the change.
	UpdateKey(ctx context.Context, by Actor, id spend.ID, change KeyChange) (*Key, error)
	// ListKeys returns a page, newest first, below the ID before (zero begins
	// at the newest), and the count of all keys.
	ListKeys(ctx context.Context, before spend.ID, limit int) (KeyPage, error)
	// KeyByHash returns a key's present state, or ErrNotFound.
	KeyByHash(ctx context.Context, hash spend.Hash) (*Key, error)
	// Parties returns who stands behind key_ids now; what is no key's is missing.
	Parties(ctx context.Context, keyIDs []string) (map[string]Party, error)
	// NoteKeyUses makes each key's LastUsedAt that time unless it is later
	// already; a use of a key that is not there is passed over. It does not
	// raise the generation, and may be repeated.
	NoteKeyUses(ctx context.Context, uses []KeyUse) error
}

// Key is an API key's record; the raw key is never stored (S25).
type Key struct {
	ID           spend.ID
	Hash         spend.Hash // SHA-256 of the raw key
	Name         string
	RateLimitRPM int // requests per minute, 1-10,000
	Active       bool
	CreatedAt    time.Time
	LastUsedAt   time.Time // as far as it was noted; zero when never
	Grants       spend.Grants
}

// KeyPage is one page of a listing.
type KeyPage struct {
	Keys  []Key
	More  bool
	Total int64 // of all pages
}

// KeyUse is when a key was last used on some node.
type KeyUse struct {
	ID spend.ID
	At time.Time // to the millisecond
}

// KeyChange is a partial update of a key.
type KeyChange struct {
	Active       *bool
	Name         *string
	RateLimitRPM *int
	Grants       spend.GrantsChange
}

// Empty reports whether there is nothing to change.
func (c *KeyChange) Empty() bool {
	return c.Active == nil && c.Name == nil && c.RateLimitRPM == nil && len(c.Grants.Named) == 0
}

// ConfigChanges is what a node must know to be as new as Generation.
type ConfigChanges struct {
	Generation int64
	Keys       []Key    // created or changed since
	PolicyIDs  []string // with a version or a draft, or the end of one, newer than since
}

// Status is what /readyz reports about a store.
type Status struct {
	Clock      time.Time
	Durability string // in words: "fsync on, synchronous_commit on, no synchronous standby"
	Safe       bool   // false when a setting lets a crash lose an answered check
	Breakable  bool   // not Safe, and a crash of the machine can damage the store as a whole
	// StandbysMissing is how many synchronous standbys commits wait for that are
	// not connected.
	StandbysMissing int
}
