package audittest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

func violation(c *spend.Check) audit.Violation {
	return audit.Violation{
		ID: c.ID, AgentID: c.Action.AgentID, PolicyID: c.Action.PolicyID, PolicyVersion: c.Decision.PolicyVersion,
		ActionType: c.ActionType, Amount: c.Action.Amount, Currency: c.Action.Currency, Counterparty: c.Action.Counterparty,
		Effect: c.Decision.Effect, RuleID: c.Decision.RuleID, RuleDescription: c.Decision.RuleDescription,
		Confidence: c.Decision.Confidence, LatencyMS: c.LatencyMS,
	}
}

func matches(q audit.ViolationQuery, v audit.Violation) bool {
	at := v.ID.Time()
	return (q.AgentID == "" || q.AgentID == v.AgentID) &&
		(q.PolicyID == "" || q.PolicyID == v.PolicyID) &&
		(q.ActionType == spend.Unspecified || q.ActionType == v.ActionType) &&
		(q.Effect == spend.Allow || q.Effect == v.Effect) && q.Select(v.Amount) &&
		(q.From.IsZero() || !at.Before(q.From.Truncate(time.Millisecond))) &&
		(q.To.IsZero() || !at.After(q.To))
}

// violationPaging walks pages while more violations arrive.
func violationPaging(t *testing.T, s Subject) {
	f := fence(t, s)
	var want []spend.ID
	for range 23 {
		c := blocked(newCheck(f))
		c.Action.AgentID = hostile
		mustCommit(t, s, c)
		want = append(want, c.ID)
	}
	slices.Reverse(want)
	var got []spend.ID
	q := audit.ViolationQuery{AgentID: hostile, Limit: 5}
	for n := int64(len(want)); ; n++ {
		page := mustList(t, s, q)
		for _, v := range page.Violations {
			got = append(got, v.ID)
		}
		if page.Total != n {
			t.Errorf("total %d, want %d whatever the position", page.Total, n)
		}
		if !page.More {
			break
		}
		if len(page.Violations) != q.Limit {
			t.Fatalf("%d violations on a page that is not the last", len(page.Violations))
		}
		q.Before = page.Violations[q.Limit-1].ID
		newer := blocked(newCheck(f)) // newer than the first page: must not be seen
		newer.Action.AgentID = hostile
		mustCommit(t, s, newer)
	}
	if !slices.Equal(got, want) {
		t.Errorf("walked %d violations, want %d", len(got), len(want))
	}
	q = audit.ViolationQuery{Limit: 4, Before: want[len(want)-5]}
	if page := mustList(t, s, q); page.More || len(page.Violations) != 4 {
		t.Errorf("the exact last page: %d violations, more %v", len(page.Violations), page.More)
	}
	if _, err := s.Violations(endedContext(t), q); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
