package audittest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// selects reports whether a query without a cursor selects a check.
func selects(q *audit.CheckQuery, c *spend.Check) bool {
	at := c.Timestamp()
	return (q.AgentID == "" || q.AgentID == c.Action.AgentID) &&
		(q.PolicyID == "" || q.PolicyID == c.Action.PolicyID) &&
		(q.Counterparty == "" || q.Counterparty == c.Action.Counterparty) &&
		(q.IdempotencyKey == "" || q.IdempotencyKey == c.Action.IdempotencyKey) &&
		(q.ActionType == spend.Unspecified || q.ActionType == c.ActionType) &&
		(q.Reason == "" || q.Reason == c.Decision.Reason) &&
		(q.RuleID == "" || q.RuleID == c.Decision.RuleID) &&
		(q.ApprovalID.IsZero() || q.ApprovalID == c.Action.ApprovalID) &&
		(q.AskedBy == "" || q.AskedBy == cmp.Or(c.Principal, c.KeyID)) && q.Select(c.Action.Amount) &&
		(q.Effect == nil || *q.Effect == c.Decision.Effect) &&
		(q.From.IsZero() || !at.Before(q.From)) && (q.Until.IsZero() || at.Before(q.Until)) &&
		maySee(&q.Bounds, c)
}

// checkListing compares walks over each combination of filters with a plain loop.
func checkListing(t *testing.T, s Subject) {
	f := fence(t, s)
	start := time.Date(2026, 5, 1, 23, 59, 59, 990e6, time.UTC)
	var all []*spend.Check // newest first
	for i := range 60 {
		c := newCheck(f)
		switch i % 5 {
		case 1:
			blocked(c)
		case 3:
			escalated(c)
		}
		c.ID = spend.NewID(start.Add(time.Duration(i/2)*time.Millisecond + time.Duration(i/20)*36*time.Hour)) // over some days
		c.Action.AgentID, c.Action.PolicyID, c.KeyID = [...]string{"agent-0", hostile, "agent-2"}[i%3], fmt.Sprintf("policy-%d", i%4),
			fmt.Sprintf("key_%d", i%5)
		if i%2 == 0 {
			c.Principal = fmt.Sprintf("principal-%d", i%5)
		}
		c.Action.Counterparty, c.ActionType = [...]string{"c", hostile}[i%2], spend.ActionTypes[i%4]
		c.Action.Amount = amount([...]string{"9", "9.5", "10", "100.05", "0.5", "0"}[i%6])
		if i%3 == 1 {
			c.Action.IdempotencyKey = fmt.Sprintf("key %d", i)
		}
		if i%5 == 1 { // blocked: no approval is used
			c.Action.ApprovalID = spend.ID{15: byte(i%2 + 1)}
		}
		all = append(all, c)
	}
	mustCommit(t, s, all...)
	slices.SortFunc(all, newestFirst)
	for i, q := range checkQueries(start, all[30].Timestamp()) {
		want := slices.DeleteFunc(slices.Clone(all), func(c *spend.Check) bool { return !selects(&q, c) })
		q.Limit, q.Examine = 100, 1000
		mustWalk(t, s, q, want)
		mustSum(t, s, q, want)
		if i%11 == 0 { // paging does not depend on the filters
			q.Limit, q.Examine = 3, 7
			mustWalk(t, s, q, want)
		}
	}
}

// checkQueries returns queries in which each value of a filter, other than agents, meets each of another
// filter.
func checkQueries(first, middle time.Time) (all []audit.CheckQuery) {
	for p, policy := range []string{"", "policy-3"} {
		for e, effect := range []*spend.Effect{nil, new(spend.Allow), new(spend.Escalate), new(spend.Block)} {
			for r, span := range [][2]time.Time{
				{}, {first.Add(4 * time.Millisecond)}, {{}, middle}, {first.Add(time.Millisecond), middle}, {middle, middle},
			} {
				for v, sight := range []audit.Bounds{
					{}, {PolicyIDs: []string{"policy-0", "policy-3"}}, {AgentIDs: []string{hostile}}, {Principal: "principal-2"}, {Principal: "key_3"},
				} {
					if (p+e+r+v)%2 > 0 {
						continue
					}
					agent := [...]string{"", hostile, "nobody"}[(p+e+r+v)%3]
					all = append(all, audit.CheckQuery{AgentID: agent, PolicyID: policy, Effect: effect, From: span[0], Until: span[1], Bounds: sight})
				}
			}
		}
	}
	reason := blocked(newCheck(spend.Fence{})).Decision.Reason
	return append(all, []audit.CheckQuery{
		{Counterparty: hostile},
		{ActionType: spend.Discount},
		{Reason: reason},
		{Reason: spend.ReasonBudgetExceeded},
		{RuleID: blocked(newCheck(spend.Fence{})).Decision.RuleID},
		{RuleID: "none"},
		{IdempotencyKey: "key 31"},
		{IdempotencyKey: "none"},
		{ApprovalID: spend.ID{15: 1}},
		{ApprovalID: spend.ID{15: 9}},
		{AskedBy: "principal-2"},
		{AskedBy: "key_3"},
		{Amounts: audit.Amounts{AmountFrom: new(amount("9.5"))}},
		{Amounts: audit.Amounts{AmountTo: new(amount("10"))}},
		{Amounts: audit.Amounts{AmountFrom: new(amount("0.5")), AmountTo: new(amount("9.4"))}},
		{Counterparty: "c", ActionType: spend.Refund, Reason: reason, Bounds: audit.Bounds{Principal: "principal-1"}},
	}...)
}

func newestFirst(a, b *spend.Check) int { return bytes.Compare(b.ID[:], a.ID[:]) }

// mustWalk demands that the pages of a query contain exactly these checks.
func mustWalk(t *testing.T, s Subject, q audit.CheckQuery, want []*spend.Check) {
	t.Helper()
	got := walk(t, s, q, nil)
	if !slices.EqualFunc(got, want, func(a, b *spend.Check) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("%+v: walked %d checks, want %d", q, len(got), len(want))
	}
}

// walk reads all pages of a query, and calls a function between them.
func walk(t *testing.T, s Subject, q audit.CheckQuery, between func()) (all []*spend.Check) {
	t.Helper()
	for {
		page := get(s.ListChecks(t.Context(), q))(t)
		all = append(all, page.Checks...)
		if len(page.Checks) > q.Limit || page.More == page.Next.IsZero() ||
			page.More && !q.Before.IsZero() && bytes.Compare(page.Next[:], q.Before[:]) >= 0 {
			t.Fatalf("%+v: %d checks, more %v, next %x", q, len(page.Checks), page.More, page.Next)
		}
		if !page.More {
			return all
		}
		if q.Before = page.Next; between != nil {
			between()
		}
	}
}

// checkListingIsBounded queries rare checks: each page ends when enough checks were examined, and
// the last one says so.
func checkListingIsBounded(t *testing.T, s Subject) {
	f := fence(t, s)
	var all []*spend.Check
	for range 20 {
		c := newCheck(f)
		mustCommit(t, s, c)
		all = append(all, c)
	}
	slices.SortFunc(all, newestFirst)
	list := func(agent string, before spend.ID, limit int) audit.CheckPage {
		t.Helper()
		page := get(s.ListChecks(t.Context(), audit.CheckQuery{AgentID: agent, Before: before, Limit: limit, Examine: 8}))(t)
		return page
	}
	if page := list("nobody", spend.ID{}, 2); len(page.Checks) != 0 || !page.More || page.Next != all[7].ID {
		t.Errorf("8 of 20 examined: %+v", page)
	}
	if page := list("nobody", all[15].ID, 2); page.More {
		t.Errorf("the last 4 examined: %+v", page)
	}
	if page := list("agent-1", spend.ID{}, 5); len(page.Checks) != 5 || !page.More || page.Next != all[4].ID {
		t.Errorf("a full page: %+v", page)
	}
	if page := list("agent-1", all[14].ID, 5); len(page.Checks) != 5 || page.More {
		t.Errorf("the exact last page: %+v", page)
	}
}

// checkListingRace walks while others commit: each check present at the first page is seen once,
// and no newer one is.
func checkListingRace(t *testing.T, s Subject) {
	f := fence(t, s)
	var want []*spend.Check
	for i := range 60 {
		c := newCheck(f)
		c.Action.AgentID = fmt.Sprintf("agent-%d", i%2)
		want = append(want, c)
	}
	mustCommit(t, s, want...)
	want = slices.DeleteFunc(want, func(c *spend.Check) bool { return c.Action.AgentID != "agent-1" })
	slices.SortFunc(want, newestFirst)
	var wg sync.WaitGroup
	stop, committed := make(chan struct{}), make(chan struct{}, 1)
	for range 3 {
		own := fence(t, s)
		wg.Go(func() {
			for {
				// Some are older than the position that a walk has reached.
				late, fresh := newCheck(own), newCheck(own)
				late.ID = spend.NewID(want[len(want)/2].Timestamp())
				if err := Record(t.Context(), s, late, fresh); err != nil {
					t.Error(err)
					return
				}
				select {
				case committed <- struct{}{}:
				case <-stop:
					return
				}
			}
		})
	}
	for range 3 {
		got := walk(t, s, audit.CheckQuery{AgentID: "agent-1", Limit: 3, Examine: 11}, func() { <-committed })
		seen := make(map[spend.ID]bool)
		for _, c := range got {
			if seen[c.ID] {
				t.Errorf("check %s is listed twice", c.ID.Text(spend.PrefixCheck))
			}
			seen[c.ID] = true
		}
		if !slices.IsSortedFunc(got, newestFirst) {
			t.Error("the walk is out of order")
		}
		for _, c := range want {
			if !seen[c.ID] {
				t.Errorf("check %s, %v old, is not listed", c.ID.Text(spend.PrefixCheck), time.Since(c.Timestamp()))
			}
		}
	}
	close(stop)
	wg.Wait()
}

// policyListing walks the latest versions, and the versions of each policy.
func policyListing(t *testing.T, s Subject) {
	ctx := t.Context()
	ids := []string{"B", "a", "a.b", "a:b", "a_b", "b", "b-1"} // in the order of bytes
	latest := make(map[string]audit.Policy)
	all := make(map[string][]audit.Policy) // newest first
	for round := range 4 {
		for i, id := range ids {
			if i%4 < round {
				continue
			}
			p := newPolicy(id)
			p.Name = fmt.Sprintf("name %d", round)
			day := audit.NewBudgets{Identities: map[string][]spend.Hash{"day": {{byte(round)}}}}
			by := audit.Actor{KeyID: "key_1", Principal: "author of " + id}
			if round == 2 {
				by = audit.Actor{Credential: "01234567"}
			}
			if round == 3 {
				p.Note = "wider\nfor \"Kasse – ゼロ\""
			}
			must(t, s.CreatePolicy(ctx, by, p, day, epochStart.Add(time.Duration(round)*time.Minute)))
			made := *p
			made.Author = by
			p.Note = "" // only versions tell
			latest[id], all[id] = *p, append([]audit.Policy{made}, all[id]...)
		}
	}
	for _, bound := range [][]string{nil, {"b", "a:b", "unknown", "B"}, {"unknown"}} {
		var want, got []audit.Policy
		for _, id := range ids {
			if bound == nil || slices.Contains(bound, id) {
				want = append(want, latest[id])
			}
		}
		for q := (audit.PolicyQuery{Limit: 2, PolicyIDs: bound}); ; q.After = got[len(got)-1].PolicyID {
			page, err := s.ListPolicies(ctx, q)
			if err != nil || page.Total != int64(len(want)) || page.More && len(page.Policies) != q.Limit {
				t.Fatalf("%+v: %+v, %v; want %d", q, page, err, len(want))
			}
			if got = append(got, page.Policies...); !page.More {
				break
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("bound to %v: got\n%+v\nwant\n%+v", bound, got, want)
		}
	}
	for _, id := range ids {
		var got []audit.Policy
		for q := (audit.VersionQuery{PolicyID: id, Limit: 2}); ; q.Before = got[len(got)-1].Version {
			page, err := s.PolicyVersions(ctx, q)
			if err != nil || page.Total != int64(len(all[id])) {
				t.Fatalf("%+v: %+v, %v", q, page, err)
			}
			if got = append(got, page.Policies...); !page.More {
				break
			}
		}
		if !reflect.DeepEqual(got, all[id]) {
			t.Errorf("versions of %s: got\n%+v\nwant\n%+v", id, got, all[id])
		}
	}
	if page, err := s.PolicyVersions(ctx, audit.VersionQuery{PolicyID: "unknown", Limit: 2}); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("an unknown policy: %+v, %v", page, err)
	}
}

// policyPagesAreBounded lists policies that are too large for one page.
func policyPagesAreBounded(t *testing.T, s Subject) {
	ctx := t.Context()
	large := `[{"description":"` + strings.Repeat("ü", audit.MaxPageBytes/4) + `"}]` // half a page
	for _, id := range []string{"a", "b", "c"} {
		p := newPolicy(id)
		p.Rules = large
		for range 3 {
			must(t, s.CreatePolicy(ctx, actor(), p, audit.NewBudgets{}, epochStart))
		}
	}
	page, err := s.ListPolicies(ctx, audit.PolicyQuery{Limit: 3})
	if err != nil || len(page.Policies) != 2 || !page.More || page.Policies[1].Rules != large {
		t.Errorf("%d policies, more %v, %v", len(page.Policies), page.More, err)
	}
	page, err = s.PolicyVersions(ctx, audit.VersionQuery{PolicyID: "b", Limit: 3})
	if err != nil || len(page.Policies) != 2 || !page.More || page.Policies[1].Version != 2 {
		t.Errorf("%d versions, more %v, %v", len(page.Policies), page.More, err)
	}
}

// outcomeListing lists allowed checks by their last report, over several pages.
func outcomeListing(t *testing.T, s Subject) {
	f := fence(t, s)
	want := make(map[spend.Status][]*spend.Check)
	add := func(status spend.Status, c *spend.Check) { want[status] = slices.Insert(want[status], 0, c) }
	for range 3 {
		mustCommit(t, s, blocked(newCheck(f)))
		c := newCheck(f)
		mustCommit(t, s, c)
		add(audit.NoOutcome, c)
		for _, status := range []spend.Status{spend.Executed, spend.Failed, spend.Voided} {
			c := newCheck(f)
			mustCommit(t, s, c)
			mustReport(t, s, report(f, c, 1, status, true))
			add(status, c)
		}
		c = newCheck(f)
		mustCommit(t, s, c)
		mustReport(t, s, report(f, c, 1, spend.Failed, false))
		mustReport(t, s, report(f, c, 2, spend.Executed, true))
		add(spend.Executed, c)
	}
	for status, checks := range want {
		mustWalk(t, s, audit.CheckQuery{Outcome: status, Limit: 2, Examine: 5}, checks)
	}
}
