package hotpath

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/policy"
)

// Events returns a page of the events that the caller may see (S51). Without the scope checks:read,
// their members about checks are left out.
func (a *Authorizer) Events(ctx context.Context, access Access, q audit.EventQuery) (audit.EventPage, error) {
	bounds := access.Bounds()
	q.PolicyIDs, q.AgentIDs = bounds.PolicyIDs, bounds.AgentIDs
	if own := access.own(); own != "" { // role agent has no such scope
		return audit.EventPage{}, &ForbiddenError{"the feed is not of one principal"}
	}
	page, err := a.store.Events(ctx, q)
	if err != nil {
		return page, err
	}
	readsChecks := access.permit(spend.ChecksRead) == nil
	readsCounters := readsChecks || access.permit(spend.BudgetsRead) == nil
	programs := make(map[budgetVersion]*policy.Program)
	for i := range page.Events {
		e := &page.Events[i]
		if e.Exhaustion != nil {
			if err := a.describeExhaustion(e.Exhaustion, programs); err != nil {
				return page, err
			}
			e.Exhaustion.Veiled = !readsCounters
		}
		if e.Change != nil && e.Change.Kind.IsGrant() && !readsCounters {
			e.Change = nil
		}
		if e.Change != nil && e.Change.Kind.IsFreeze() && access.permit(spend.FreezesRead) != nil {
			e.Change = nil
		}
		if !readsChecks {
			e.Violation, e.Outcome = nil, nil
			if e.Approval != nil {
				e.Approval.Check = nil
			}
		}
	}
	return page, nil
}

const (
	// eventsLate is how much later in the feed an event may come than one that happened after it,
	// because its commit was slow or its node's clock behind.
	eventsLate = 5 * time.Second
	// eventsWalk is how many events are looked at one after the other.
	eventsWalk = 10_000
	// maxEventPage is how many events are read at once.
	maxEventPage = 100
)

// EventsFrom returns the number after which the feed has the events from that time on that come after
// a reader's cursor. It is the cursor if events between were removed that may be of that time: then the
// feed says so to the reader.
func (a *Authorizer) EventsFrom(ctx context.Context, from time.Time, cursor int64) (after int64, err error) {
	return eventsAfter(ctx, a.store, from, cursor)
}

func eventsAfter(ctx context.Context, feed audit.Events, from time.Time, cursor int64) (after int64, err error) {
	begin, err := eventsFrom(ctx, feed, from)
	if err != nil || begin <= cursor || cursor == 0 {
		return max(begin, cursor), err
	}
	_, err = feed.Events(ctx, audit.EventQuery{After: cursor, Limit: 1})
	if removed, gone := errors.AsType[*audit.EventsRemovedError](err); gone && removed.UpTo >= begin {
		return cursor, nil
	} else if gone {
		err = nil
	}
	return begin, err
}

// eventsFrom searches by halves, since the feed is in the order of time except for late events.

func eventsFrom(ctx context.Context, feed audit.Events, from time.Time) (after int64, err error) {
	head, err := feed.EventsHead(ctx)
	if err != nil {
		return 0, err
	}
	for end := head; after < end; {
		middle := after + (end-after)/2
		page, err := feed.Events(ctx, audit.EventQuery{After: middle, Limit: 1})
		removed, gone := errors.AsType[*audit.EventsRemovedError](err)
		switch {
		case gone:
			after = removed.UpTo // begins with the oldest, if that is later
		case err != nil:
			return 0, err
		case len(page.Events) == 0 || !page.Events[0].At.Before(from.Add(-eventsLate)):
			end = middle
		default:
			after = page.Events[0].Sequence
		}
	}
	for range eventsWalk / maxEventPage {
		page, err := feed.Events(ctx, audit.EventQuery{After: after, Limit: maxEventPage})
		if removed, gone := errors.AsType[*audit.EventsRemovedError](err); gone {
			after = removed.UpTo
			continue
		}
		if err != nil {
			return 0, err
		}
		for i := range page.Events {
			if !page.Events[i].At.Before(from) {
				return after, nil
			}
			after = page.Events[i].Sequence
		}
		if !page.More {
			break
		}
	}
	return after, nil
}

// budgetVersion is a version of a policy.
type budgetVersion struct {
	policyID string
	version  int
}

// describeExhaustion adds the policy's description of the budget, from the version since which the
// budget counts: it is the same in all versions since then (S37).
func (a *Authorizer) describeExhaustion(e *audit.Exhaustion, programs map[budgetVersion]*policy.Program) error {
	version := budgetVersion{e.PolicyID, e.Since}
	program, ok := programs[version]
	if !ok {
		var err error
		if program, err = a.catalog.compile(e.PolicyID, e.Since); err != nil {
			return fmt.Errorf("cannot describe a budget: %w", err)
		}
		programs[version] = program
	}
	for _, b := range program.Budgets() {
		if b.RuleID != e.RuleID {
			continue
		}
		e.Per, e.Currency, e.WindowName, e.TimeZone, e.RollingMinutes = b.Per, b.Currency, b.WindowName, b.TimeZone, b.RollingMinutes
		e.WindowStart = b.WindowStart(e.Counter)
		var err error
		e.Values, err = b.Values(e.Subject)
		return err
	}
	return fmt.Errorf("policy %s version %d has no budget %s", e.PolicyID, e.Since, e.RuleID)
}
