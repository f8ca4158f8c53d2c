package audittest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/hotpath/spend"
)

// keyGrants changes each member of a key's grants alone, and takes it away again.
func keyGrants(t *testing.T, s Subject) {
	ctx := t.Context()
	k, plain := newKey(), newKey()
	k.Grants = spend.Grants{
		Role: spend.Agent, PolicyIDs: []string{"refunds", "b"}, AgentIDs: []string{"Kasse – ゼロ", `"'\\`},
		Principal: "till 1", Owner: "payments", ExpiresAt: epochStart.Add(time.Hour),
	}
	for _, made := range []*audit.Key{k, plain} {
		if err := s.CreateKey(ctx, actor(), made); err != nil {
			t.Fatal(err)
		}
	}
	want := *k
	scopes := spend.Grants{Scopes: spend.ChecksRead | spend.EventsRead}
	for _, step := range []struct {
		change spend.GrantsChange
		apply  func(*spend.Grants)
	}{
		{spend.GrantsChange{}, func(*spend.Grants) {}},
		{spend.GrantsChange{Grants: scopes, Named: []string{"scopes", "role"}}, func(g *spend.Grants) { g.Role, g.Scopes = "", scopes.Scopes }},
		{spend.GrantsChange{Grants: spend.Grants{Role: spend.Full}, Named: []string{"scopes", "role"}}, func(g *spend.Grants) { g.Role, g.Scopes = spend.Full, 0 }},
		{spend.GrantsChange{Grants: spend.Grants{PolicyIDs: []string{"c"}}, Named: []string{"policy_ids"}}, func(g *spend.Grants) { g.PolicyIDs = []string{"c"} }},
		{spend.GrantsChange{Named: []string{"policy_ids"}}, func(g *spend.Grants) { g.PolicyIDs = nil }},
		{spend.GrantsChange{Named: []string{"agent_ids", "owner"}}, func(g *spend.Grants) { g.AgentIDs, g.Owner = nil, "" }},
		{spend.GrantsChange{Grants: spend.Grants{Principal: "p", Owner: "o"}, Named: []string{"principal", "owner"}}, func(g *spend.Grants) { g.Principal, g.Owner = "p", "o" }},
		{spend.GrantsChange{Named: []string{"expires_at"}}, func(g *spend.Grants) { g.ExpiresAt = time.Time{} }},
		{spend.GrantsChange{Named: []string{"role", "scopes", "principal", "owner"}}, func(g *spend.Grants) { *g = spend.Grants{} }},
	} {
		step.apply(&want.Grants)
		if got, err := s.UpdateKey(ctx, actor(), k.ID, audit.KeyChange{Grants: step.change}); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%+v: got %+v, %v; want %+v", step.change, got, err, want)
		}
		if got, err := s.KeyByHash(ctx, k.Hash); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%+v: read %+v, %v; want %+v", step.change, got, err, want)
		}
		changes, err := s.ConfigChanges(ctx, 0)
		slices.SortFunc(changes.Keys, func(a, b audit.Key) int { return slices.Compare(a.ID[:], b.ID[:]) })
		if err != nil || !reflect.DeepEqual(changes.Keys, []audit.Key{want, *plain}) {
			t.Errorf("%+v: changes %+v, %v; want %+v", step.change, changes.Keys, err, want)
		}
	}
}

// boundViolations compares what keys may see with a plain loop.
func boundViolations(t *testing.T, s Subject) {
	f := fence(t, s)
	var all []*spend.Check // newest first
	for i := range 36 {
		c := blocked(newCheck(f))
		c.Action.AgentID, c.Action.PolicyID = fmt.Sprintf("agent-%d", i%3), fmt.Sprintf("policy-%d", i%4)
		c.KeyID = fmt.Sprintf("key_%d", i%5)
		if i%2 == 0 {
			c.Principal, c.Owner = fmt.Sprintf("principal-%d", i%5), "owner"
		}
		all = append(all, c)
		mustCommit(t, s, c)
	}
	mustHave(t, s, all...)
	slices.SortFunc(all, func(a, b *spend.Check) int { return slices.Compare(b.ID[:], a.ID[:]) })
	for _, q := range boundQueries() {
		var want []audit.Violation
		for _, c := range all {
			if MaySee(&q.Bounds, c) && matches(q, violation(c)) {
				want = append(want, violation(c))
			}
		}
		var got []audit.Violation
		for q.Limit = 2; ; q.Before = got[len(got)-1].ID {
			page := mustList(t, s, q)
			got = append(got, page.Violations...)
			if page.Total != int64(len(want)) {
				t.Errorf("%+v: total %d, want %d", q, page.Total, len(want))
			}
			if !page.More {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: got %d, want %d", q, len(got), len(want))
		}
	}
}

func boundQueries() []audit.ViolationQuery {
	one, two := audit.Bounds{PolicyIDs: []string{"policy-1"}}, audit.Bounds{PolicyIDs: []string{"policy-1", "policy-3", "unknown"}}
	both := audit.Bounds{AgentIDs: []string{"agent-0", "agent-1"}, PolicyIDs: []string{"policy-0", "policy-1"}}
	return []audit.ViolationQuery{
		{Bounds: one},
		{Bounds: two},
		{Bounds: audit.Bounds{AgentIDs: []string{"agent-0", "agent-2"}}},
		{Bounds: audit.Bounds{AgentIDs: []string{"agent-0"}}, AgentID: "agent-1"},
		{Bounds: both, AgentID: "agent-1", Effect: spend.Block},
		{Bounds: audit.Bounds{Principal: "principal-2"}},
		{Bounds: audit.Bounds{Principal: "key_3"}}, // of those whose principal was not given
		{Bounds: audit.Bounds{Principal: "principal-4", PolicyIDs: []string{"policy-0"}}},
		{Bounds: audit.Bounds{Principal: "nobody"}},
	}
}

// MaySee reports whether the asking key may see a check.
func MaySee(b *audit.Bounds, c *spend.Check) bool {
	return (b.PolicyIDs == nil || slices.Contains(b.PolicyIDs, c.Action.PolicyID)) &&
		(b.AgentIDs == nil || slices.Contains(b.AgentIDs, c.Action.AgentID)) &&
		(b.Principal == "" || b.Principal == c.PrincipalName())
}
