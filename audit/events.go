package audit

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"spendgate/audit/spend"
)

// Events is the ordered feed of events (S51).
type Events interface {
	// Events returns a page of events in the order of their sequences. Events that were committed
	// before the call can be read. A sequence is given once, after all smaller ones that will ever be
	// read, so a reader that continues after the greatest sequence that it read misses nothing. An
	// event comes after its cause. Events fails with *EventsRemovedError if events after q.After were
	// removed, unless q.After is 0: a reader that has read nothing begins with the oldest.
	Events(ctx context.Context, q EventQuery) (EventPage, error)
	// EventsHead returns the greatest sequence of events committed before the call; 0 if there is
	// none.
	EventsHead(ctx context.Context) (int64, error)
	// KeepEvents removes the events of whole days (UTC) that ended longer ago than keep, by the
	// caller's clock and the store's. keep is at least LeastEventsKept, or 0 to keep all. It removes
	// no event that an active webhook has not read yet or is to be sent again. A removal is recorded
	// as a change first. KeepEvents returns the time of the oldest event that is left; zero if there
	// is none. Any node may call it at any time.
	KeepEvents(ctx context.Context, keep time.Duration, now time.Time) (oldest time.Time, err error)
}

// EventQuery selects events. Nil fields do not filter.
type EventQuery struct {
	After int64 // only greater sequences
	Types []EventType
	Limit int

	// The events that the asking key may see: of these policies, and of these agents or of none.
	// Changes of keys belong to no policy, and a key that is bound to policies or agents does not see
	// them.
	PolicyIDs []string
	AgentIDs  []string
}

// EventPage is one page of the feed. It may hold less than the limit, or nothing,
// while there is More.
type EventPage struct {
	Events []Event
	Next   int64 // the sequence up to which events were read: where the next page begins
	More   bool  // events may be after Next already
	Floor  int64 // up to which events were removed, set by stores; 0 if none were
}

// Event is one event. By its type, one of Violation, Approval, Outcome, Exhaustion and Change is its
// source, as of the event; httpapi.AppendEvent writes it.
type Event struct {
	Sequence int64
	ID       spend.ID // the same in every database that is restored from this one
	Type     EventType
	At       time.Time
	PolicyID string // empty for an event without policy, or if its check is archived
	AgentID  string // empty in the same cases

	Violation  *Violation // nil when the violation is archived
	Approval   *ApprovalEvent
	Outcome    *spend.Outcome // of outcome.*, and the step of check.*
	Exhaustion *Exhaustion
	Change     *Change // of what happened to a policy, a key, a freeze or a grant
}

// ApprovalEvent is an approval at one of its events.
type ApprovalEvent struct {
	ID         spend.ID     // also the ID of its check
	Check      *spend.Check // that asked; nil when it is archived
	ActionHash spend.Hash
	Required   int
	CreatedAt  time.Time
	ExpiresAt  time.Time
	UseWithin  time.Duration     // of the approval that decides
	Decision   *ApprovalDecision // of approval.decided, approval.approved and approval.denied
	UsedBy     spend.ID          // the check, of approval.used
}

// UseBy is until when it may be used, of approval.approved.
func (a *ApprovalEvent) UseBy() time.Time { return a.Decision.At.Add(a.UseWithin) }

// Exhaustion is that a counter of a budget had no room left, or refused a check, or reached a percentage of its limit:
// the first time in its window.
type Exhaustion struct {
	ID       spend.ID
	At       time.Time
	Counter  spend.Counter
	PolicyID string
	RuleID   string
	Since    int    // the version of the policy since which the counter counts
	Subject  string // a JSON array of the values of Per
	AgentID  string // the subject's; empty unless the budget is per agent
	Limited  bool
	Limit    spend.Total
	Counted  bool
	MaxCount int64
	Percent  int         // of the limit; spend.Exhausted when it had no room left, or refused
	Usage    spend.Usage // at that moment

	// The policy's parameters of the budget. Stores leave them out.
	Per            []string
	Values         []jsontext.Value // of Per
	Currency       string           // empty: all
	WindowName     string           // empty of a rolling window
	TimeZone       string           // empty of a rolling window
	RollingMinutes int64            // 0 of a calendar window
	WindowStart    time.Time

	Veiled bool // the asking key may not see the usage and the subject
}
