package audit

import (
	"context"
	"time"

	"spendgate/audit/spend"
)

// Events is the feed of what happened (S51).
type Events interface {
	// Events returns a page of events in the order of their sequences. What was
	// committed before the call is in reach of it. A sequence is given once, after
	// all smaller ones that will ever be read: who continues after the greatest that
	// it read misses nothing. What caused an event comes before it. It fails with
	// *EventsRemovedError when events after q.After were removed, unless that is 0: who
	// has read nothing begins with the oldest.
	Events(ctx context.Context, q EventQuery) (EventPage, error)
	// EventsHead returns the greatest sequence of what was committed before the call;
	// 0 when there is none.
	EventsHead(ctx context.Context) (int64, error)
	// KeepEvents removes the events of whole days (UTC) that ended longer ago than keep,
	// which is LeastEventsKept at least, or 0 to keep all, by the caller's clock and the store's; none that an
	// active webhook has before it or is to be sent again. What is removed is recorded
	// as a change before it goes. It returns when the oldest event that is left happened;
	// zero when there is none. Any node may call it at any time.
	KeepEvents(ctx context.Context, keep time.Duration, now time.Time) (oldest time.Time, err error)
}

// EventQuery selects events. Nil fields do not filter.
type EventQuery struct {
	After int64 // only greater sequences
	Types []EventType
	Limit int

	// What the asking key may see: events of these policies, and of these agents or
	// of none. Changes of keys are of no policy, and not seen by a key that is bound
	// to any or to agents.
	PolicyIDs []string
	AgentIDs  []string
}

// EventPage is one page of the feed. It may hold less than the limit, or nothing,
// while there is More.
type EventPage struct {
	Events []Event
	Next   int64 // the sequence up to which events were read: where the next page begins
	More   bool  // events may be after Next already
	Floor  int64 // the sequence up to which events were removed, of a page that stores made; 0 when none were
}

// Event is one event. By its type, one of Violation, Approval, Outcome, Exhaustion
// and Change is what it is about, as of the event; httpapi.AppendEvent writes it.
type Event struct {
	Sequence int64
	ID       spend.ID // the same in every database that is restored from this one
	Type     EventType
	At       time.Time
	PolicyID string // empty when it is of none, or when its check is archived
	AgentID  string // likewise

	Violation  *Violation // nil when it is archived
	Approval   *ApprovalEvent
	Outcome    *spend.Outcome // of outcome.*, and the step of check.*
	Exhaustion *Exhaustion
	Change     *Change // of policy.created and key.changed
}

// ApprovalEvent is an approval at one of its events.
type ApprovalEvent struct {
	ID         spend.ID     // also of its check
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

// Exhaustion is that a counter of a budget had no room left, or refused a check:
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
	Limit    spend.Amount
	Counted  bool
	MaxCount int64
	Usage    spend.Usage // what was taken by then

	// What the policy says of the budget. Stores leave it out.
	Per            []string
	Values         []string // of Per
	Currency       string   // empty: all
	WindowName     string   // empty of a rolling window
	TimeZone       string   // likewise
	RollingMinutes int64    // 0 of a calendar window
	WindowStart    time.Time

	Veiled bool // what was taken, and by whom, is not for the one that asks
}
