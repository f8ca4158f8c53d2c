package signin

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"spendgate/audit/spend"
	"spendgate/bench/must"
)

func TestParseRoles(t *testing.T) {
	for _, wrong := range []string{
		"", "{}", "[]", `[{"group":"a","role":"approver"}] x`, `[{"role":"approver"}]`, `[{"group":" ","role":"approver"}]`,
		`[{"group":"a","role":"boss"}]`,
		`[{"group":"a","role":"agent","scopes":["checks:read"]}]`, `[{"group":"a","scopes":["checks:run"]}]`,
		`[{"group":"a","scopes":["checks:write","approvals:decide"]}]`,
		`[{"group":"a","role":"approver"},{"group":"b"}]`, `[{"group":"a","groups":["x"]}]`,
		`[{"group":"a","role":"approver"},{"group":"b","groups":["x"],"policy_ids":["p"]}]`,
		`[{"group":"a","role":"approver","policy_ids":[]}]`, `[{"group":"a","role":"approver","groups":[""]}]`,
		`[{"group":"a","role":"approver","admin":true}]`,
		`[{"group":"a","role":"approver","agent_ids":["` + strings.Repeat("x", 129) + `"]}]`,
	} {
		if got, err := ParseRoles(wrong); err == nil {
			t.Errorf("%s is %+v", wrong, got)
		}
	}
}

// The first role that fits decides, with its bindings; groups add up, spelt in any way.
func TestGrantsOf(t *testing.T) {
	roles := must.Get(ParseRoles(`[{"group":"on-call","groups":["support"]},` +
		`{"group":"leads","role":"approver","policy_ids":["p"],"groups":["Support","finance"]},
		{"group":"eng","scopes":["checks:read"],"agent_ids":["a"]}]`))(t)
	g, err := grantsOf(roles, []string{"eng", "leads", "on-call", "unknown"})
	if err != nil || g.Role != spend.Approver || g.Scopes != 0 || !slices.Equal(g.PolicyIDs, []string{"p"}) || g.AgentIDs != nil ||
		!slices.Equal(g.Groups, []string{"support", "finance"}) {
		t.Errorf("got %+v, %v", g, err)
	}
	if g, err := grantsOf(roles, []string{"eng"}); err != nil || g.Role != "" || g.Scopes != spend.ChecksRead || g.PolicyIDs != nil ||
		g.Groups != nil {
		t.Errorf("eng: %+v, %v", g, err)
	}
	for _, none := range [][]string{nil, {"on-call"}, {"Leads"}} {
		if g, err := grantsOf(roles, none); !errors.Is(err, ErrNoRole) || g.Text() != "" {
			t.Errorf("%q: %+v, %v", none, g, err)
		}
	}
}
