package audittest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// violationRecord commits one of each effect and reads the records.
func violationRecord(t *testing.T, s Subject) {
	f := fence(t, s)
	allowed, block, escalated := newCheck(f), blocked(newCheck(f)), blocked(newCheck(f))
	escalated.Decision.Effect, escalated.Decision.Confidence = spend.Escalate, spend.Medium
	block.Action.Amount = amount("999999999.999999999")
	block.ActionType = spend.Credit // as resolved, not as sent
	mustCommit(t, s, allowed, block, escalated)
	page := mustList(t, s, audit.ViolationQuery{Limit: 10})
	want := []audit.Violation{violation(escalated), violation(block)}
	if !slices.Equal(page.Violations, want) || page.Total != 2 || page.More {
		t.Errorf("got\n%+v\nwant\n%+v", page, want)
	}
}

func violation(c *spend.Check) audit.Violation {
	return audit.Violation{
		ID: c.ID, AgentID: c.Action.AgentID, PolicyID: c.Action.PolicyID, PolicyVersion: c.Decision.PolicyVersion,
		ActionType: c.ActionType, Amount: c.Action.Amount, Currency: c.Action.Currency, Counterparty: c.Action.Counterparty,
		Effect: c.Decision.Effect, RuleID: c.Decision.RuleID, RuleDescription: c.Decision.RuleDescription,
		Confidence: c.Decision.Confidence, LatencyMS: c.LatencyMS,
	}
}

// violationFilters compares each combination with a plain loop.
func violationFilters(t *testing.T, s Subject) {
	f := fence(t, s)
	start := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	var all []audit.Violation // newest first
	var batch []*spend.Check
	for i := range 48 {
		c := blocked(newCheck(f))
		c.ID = spend.NewID(start.Add(time.Duration(i/2) * time.Millisecond)) // two in each millisecond
		c.Action.AgentID = fmt.Sprintf("agent-%d", i%3)
		c.ActionType = spend.ActionTypes[i%4]
		if i%5 == 0 {
			c.Decision.Effect = spend.Escalate
		}
		batch = append(batch, c)
		all = append(all, violation(c))
	}
	slices.SortFunc(all, func(a, b audit.Violation) int { return slices.Compare(b.ID[:], a.ID[:]) })
	mustCommit(t, s, batch...)
	for _, agent := range []string{"", "agent-1", "nobody"} {
		for _, kind := range []spend.ActionType{spend.Unspecified, spend.Refund, spend.Spend} {
			for _, effect := range []spend.Effect{spend.Allow, spend.Escalate, spend.Block} {
				for _, span := range [][2]int{{-1, -1}, {4, -1}, {-1, 9}, {4, 9}, {7, 7}, {100, -1}} {
					q := audit.ViolationQuery{AgentID: agent, ActionType: kind, Effect: effect, Limit: 100}
					if span[0] >= 0 {
						// A part of a millisecond does not exclude it.
						q.From = start.Add(time.Duration(span[0])*time.Millisecond + 700*time.Microsecond)
					}
					if span[1] >= 0 {
						q.To = start.Add(time.Duration(span[1]) * time.Millisecond)
					}
					want := slices.DeleteFunc(slices.Clone(all), func(v audit.Violation) bool { return !matches(q, v) })
					page := mustList(t, s, q)
					if !slices.Equal(page.Violations, want) || page.Total != int64(len(want)) || page.More {
						t.Errorf("%+v: got %d of %d, want %d", q, len(page.Violations), page.Total, len(want))
					}
				}
			}
		}
	}
}

func matches(q audit.ViolationQuery, v audit.Violation) bool {
	at := v.ID.Time()
	return (q.AgentID == "" || q.AgentID == v.AgentID) &&
		(q.ActionType == spend.Unspecified || q.ActionType == v.ActionType) &&
		(q.Effect == spend.Allow || q.Effect == v.Effect) &&
		(q.From.IsZero() || !at.Before(q.From.Truncate(time.Millisecond))) &&
		(q.To.IsZero() || !at.After(q.To))
}

// violationPaging walks pages while more violations arrive.
func violationPaging(t *testing.T, s Subject) {
	f := fence(t, s)
	var want []spend.ID
	for range 23 {
		c := blocked(newCheck(f))
		mustCommit(t, s, c)
		want = append(want, c.ID)
	}
	slices.Reverse(want)
	var got []spend.ID
	q := audit.ViolationQuery{AgentID: "agent-1", Limit: 5}
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
		mustCommit(t, s, blocked(newCheck(f))) // newer than the first page: not to be seen
	}
	if !slices.Equal(got, want) {
		t.Errorf("walked %d violations, want %d", len(got), len(want))
	}
	q = audit.ViolationQuery{Limit: 4, Before: want[len(want)-5]}
	if page := mustList(t, s, q); page.More || len(page.Violations) != 4 {
		t.Errorf("the exact last page: %d violations, more %v", len(page.Violations), page.More)
	}
}
