package audittest

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// keyGrants sets each member of a key's grants alone, and removes it again.
func keyGrants(t *testing.T, s Subject) {
	ctx := t.Context()
	k, plain := newKey(), newKey()
	k.Grants = spend.Grants{
		Role: spend.Agent, PolicyIDs: []string{"refunds", "b"}, AgentIDs: []string{"Kasse – ゼロ", `"'\\`},
		Principal: "till 1", Owner: "payments", ExpiresAt: epochStart.Add(time.Hour),
	}
	for _, made := range []*audit.Key{k, plain} {
		must(t, s.CreateKey(ctx, actor(), made))
	}
	want := *k
	scopes := spend.Grants{Scopes: spend.ChecksRead | spend.EventsRead}
	for _, step := range []struct {
		change spend.GrantsChange
		apply  func(*spend.Grants)
	}{
		{spend.GrantsChange{}, func(*spend.Grants) {}},
		{spend.GrantsChange{Grants: scopes, Named: []string{"scopes", "role"}}, func(g *spend.Grants) { g.Role, g.Scopes = "", scopes.Scopes }},
		{
			spend.GrantsChange{Grants: spend.Grants{Role: spend.Full}, Named: []string{"scopes", "role"}}, func(g *spend.Grants) {
				g.Role, g.Scopes = spend.Full, 0
			},
		},
		{
			spend.GrantsChange{
				Grants: spend.Grants{PolicyIDs: []string{"c"}}, Named: []string{"policy_ids"},
			}, func(g *spend.Grants) { g.PolicyIDs = []string{"c"} },
		},
		{spend.GrantsChange{Named: []string{"policy_ids"}}, func(g *spend.Grants) { g.PolicyIDs = nil }},
		{spend.GrantsChange{Named: []string{"agent_ids", "owner"}}, func(g *spend.Grants) { g.AgentIDs, g.Owner = nil, "" }},
		{
			spend.GrantsChange{Grants: spend.Grants{Principal: "p", Owner: "o"}, Named: []string{"principal", "owner"}}, func(g *spend.Grants) {
				g.Principal, g.Owner = "p", "o"
			},
		},
		{
			spend.GrantsChange{
				Grants: spend.Grants{Groups: []string{"b", "ゼロ"}}, Named: []string{"groups"},
			}, func(g *spend.Grants) { g.Groups = []string{"b", "ゼロ"} },
		},
		{spend.GrantsChange{Named: []string{"expires_at"}}, func(g *spend.Grants) { g.ExpiresAt = time.Time{} }},
		{spend.GrantsChange{Named: []string{"role", "scopes", "principal", "owner", "groups"}}, func(g *spend.Grants) { *g = spend.Grants{} }},
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

// maySee reports whether the asking key may see a check.
func maySee(b *audit.Bounds, c *spend.Check) bool {
	return (b.PolicyIDs == nil || slices.Contains(b.PolicyIDs, c.Action.PolicyID)) &&
		(b.AgentIDs == nil || slices.Contains(b.AgentIDs, c.Action.AgentID)) &&
		(b.Principal == "" || b.Principal == c.PrincipalName())
}
