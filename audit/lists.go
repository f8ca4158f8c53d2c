package audit

import (
	"context"
	"time"

	"spendgate/audit/spend"
)

// Bounds limit a list to the records that the asking key may see (S31).
type Bounds struct {
	PolicyIDs []string // nil: any
	AgentIDs  []string // nil: any
	Principal string   // of the check's key: the principal in the key's record, else the key's ID; empty: any
}

// Bound reports whether the asking key may not see everything.
func (b *Bounds) Bound() bool {
	return b.PolicyIDs != nil || b.AgentIDs != nil || b.Principal != ""
}

// Lists are pages of checks and violations, and their numbers.
type Lists interface {
	// Violations returns a page, newest first, and the exact count of all that
	// match the filter, whatever the position (S22).
	Violations(ctx context.Context, q ViolationQuery) (ViolationPage, error)
	// ListChecks returns a page, newest first.
	ListChecks(ctx context.Context, q CheckQuery) (CheckPage, error)
	// CheckSums adds up the checks that ListChecks lists, whatever the query's Limit and Payment.
	CheckSums(ctx context.Context, q CheckQuery) (*CheckSums, error)
	// CheckCounts returns the numbers of checks by time and decision, in the order of time and without
	// zeros. Checks of archived days are counted, too. It fails with ErrTooMany, or with ErrArchived,
	// if the query requires reading single checks.
	CheckCounts(ctx context.Context, q CountQuery) ([]CheckCount, error)
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

	Amounts
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
	Archived        bool // only the ID is still in the store; archived violations are never listed
}

// ViolationPage is one page of a listing.
type ViolationPage struct {
	Violations []Violation
	More       bool // there are smaller IDs that match
	Total      int64
}

// Amounts select by the amount of an action, in whatever currency; nil is no bound.
type Amounts struct {
	AmountFrom, AmountTo *spend.Amount // both inclusive
}

// Select reports whether an amount is within the bounds.
func (a *Amounts) Select(amount spend.Amount) bool {
	return (a.AmountFrom == nil || amount.Cmp(*a.AmountFrom) >= 0) && (a.AmountTo == nil || amount.Cmp(*a.AmountTo) <= 0)
}

// NoOutcome selects allowed checks about which nothing was reported.
const NoOutcome spend.Status = "none"

// CheckQuery selects checks. Zero fields do not filter.
type CheckQuery struct {
	AgentID        string
	PolicyID       string
	Counterparty   string
	IdempotencyKey string
	AskedBy        string           // the principal in the record of the check's key, else the key's ID
	ActionType     spend.ActionType // as resolved
	Reason         spend.Reason
	RuleID         string     // that decided
	ApprovalID     spend.ID   // with which the check was sent
	Payment        spend.Hash // of the check, or under which it was redeemed
	Effect         *spend.Effect
	Outcome        spend.Status // of the last report, or NoOutcome; or spend.InDoubt
	From           time.Time    // inclusive
	Until          time.Time    // exclusive
	Before         spend.ID     // only smaller IDs: the position of the cursor
	Limit          int
	// Examine is how many checks a page may examine, newest first, whatever the filters leave of them.
	// It is more than Limit.
	Examine int

	Amounts
	Bounds
}

// IDRange returns the smallest ID that the query allows, and the smallest ID after the range.
func (q *CheckQuery) IDRange() (low, end spend.ID) { return idRange(q.From, q.Until, q.Before) }

// IDRange returns the smallest ID that the query allows, and the smallest ID after the range.
func (q *ApprovalQuery) IDRange() (low, end spend.ID) {
	if q.Soonest { // which goes on from another place
		return idRange(q.From, q.Until, spend.ID{})
	}
	return idRange(q.From, q.Until, q.Before)
}

func idRange(from, until time.Time, before spend.ID) (low, end spend.ID) {
	if !from.IsZero() {
		low = FirstID(from.UnixMilli())
	}
	end = MaxID()
	if !until.IsZero() {
		end = FirstID(until.UnixMilli())
	}
	if !before.IsZero() && before.Compare(end) < 0 {
		end = before
	}
	return low, end
}

// CheckPage is one page of a listing. It may hold less than the limit, or
// nothing, while there is More.
type CheckPage struct {
	Checks []*spend.Check
	More   bool     // checks that match may be below Next
	Next   spend.ID // where the next page begins; zero on the last one
}

// Cut ends a page that has more than limit checks.
func (p *CheckPage) Cut(limit int) {
	if len(p.Checks) > limit {
		p.Checks = p.Checks[:limit]
		p.More, p.Next = true, p.Checks[limit-1].ID
	}
}

// Cut ends a page of which one row more than the limit was read.
func Cut[T any](rows []T, limit int) (page []T, more bool) {
	return rows[:min(len(rows), limit)], len(rows) > limit
}

// outcomes is the part of Trail that Courses uses.
type outcomes interface {
	Outcomes(ctx context.Context, checkIDs []spend.ID) ([]*spend.Outcome, error)
}

// Courses returns what became of each check that has a recorded outcome.
func Courses(ctx context.Context, from outcomes, checkIDs []spend.ID) (map[spend.ID]spend.Course, error) {
	steps, err := from.Outcomes(ctx, checkIDs)
	courses := make(map[spend.ID]spend.Course, len(steps))
	for len(steps) > 0 { // the steps of a check are together
		n := 1
		for n < len(steps) && steps[n].CheckID == steps[0].CheckID {
			n++
		}
		courses[steps[0].CheckID] = spend.CourseOf(steps[:n])
		steps = steps[n:]
	}
	return courses, err
}
