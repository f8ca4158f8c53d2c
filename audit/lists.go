package audit

import (
	"context"
	"time"

	"spendgate/audit/spend"
)

// Bounds are what the asking key may see in a list (S31).
type Bounds struct {
	PolicyIDs []string // nil: any
	AgentIDs  []string // likewise
	Principal string   // of the check's key: that given to it, else its ID; empty: any
}

// Bound reports whether the asking key may not see everything.
func (b *Bounds) Bound() bool {
	return b.PolicyIDs != nil || b.AgentIDs != nil || b.Principal != ""
}

// NoOutcome selects allowed checks of which no outcome was reported.
const NoOutcome spend.Status = "none"

// CheckQuery selects checks. Zero fields do not filter.
type CheckQuery struct {
	AgentID        string
	PolicyID       string
	Counterparty   string
	IdempotencyKey string
	ActionType     spend.ActionType // as resolved
	Reason         spend.Reason
	ApprovalID     spend.ID // that the check was sent with
	Effect         *spend.Effect
	Outcome        spend.Status // of the last report, or NoOutcome; or spend.InDoubt
	From           time.Time    // inclusive
	Until          time.Time    // exclusive
	Before         spend.ID     // only smaller IDs: the position of the cursor
	Limit          int
	// Examine is how many checks a page may look at, newest first, whatever the
	// filters leave of them. It is more than Limit.
	Examine int

	Bounds
}

// IDRange returns the smallest ID that the query allows, and the smallest
// after it that it does not.
func (q *CheckQuery) IDRange() (low, end spend.ID) {
	if !q.From.IsZero() {
		low = FirstID(q.From.UnixMilli())
	}
	end = MaxID()
	if !q.Until.IsZero() {
		end = FirstID(q.Until.UnixMilli())
	}
	if !q.Before.IsZero() && q.Before.Compare(end) < 0 {
		end = q.Before
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

// MaxPageBytes bounds the rules and metadata of a page of policies: the one with
// which it is reached is the last, and the page is short.
const MaxPageBytes = 4 << 20

// PolicyQuery selects the latest versions of policies.
type PolicyQuery struct {
	After     string // only greater IDs: the position of the cursor
	Limit     int
	PolicyIDs []string // what the asking key may see; nil: all
}

// VersionQuery selects versions of one policy.
type VersionQuery struct {
	PolicyID string
	Before   int // only smaller versions: the position of the cursor; 0 begins at the newest
	Limit    int
}

// PolicyPage is one page of a listing.
type PolicyPage struct {
	Policies []Policy
	More     bool
	Total    int64 // of all pages
}

// Courses returns what became of each check of which anything is recorded.
func Courses(ctx context.Context, from Trail, checkIDs []spend.ID) (map[spend.ID]spend.Course, error) {
	steps, err := from.Outcomes(ctx, checkIDs)
	courses := make(map[spend.ID]spend.Course, len(steps))
	for len(steps) > 0 { // those of a check are together
		n := 1
		for n < len(steps) && steps[n].CheckID == steps[0].CheckID {
			n++
		}
		courses[steps[0].CheckID] = spend.CourseOf(steps[:n])
		steps = steps[n:]
	}
	return courses, err
}
