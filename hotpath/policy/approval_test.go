package policy

import (
	"reflect"
	"testing"
	"time"

	"spendgate/audit/spend"
)

// TestGroups: the approvals that rules ask of groups (S79).
func TestGroups(t *testing.T) {
	f := func(approval string, want ...string) {
		t.Helper()
		refusedParameters(t, "S79", "escalate_if", `{"amount_above":1,"approval":{`+approval+`}}`, want...)
	}
	f(`"required":1,"from":[{"group":"a"}]`, ".approval.required and from exclude each other")
	f(`"from":[]`, ".approval.from must have at least one entry")
	f(`"from":"a"`, ".approval.from must be an array of objects")
	f(`"from":["a"]`, ".approval.from[0] must be an object")
	f(`"from":[{"group":"a"},{"group":"b"},{"group":"c"},{"group":"d"},{"group":"e"},{"group":"f"}]`,
		".approval.from must have at most 5 entries")
	f(`"from":[{"required":1},{"group":"b","required":6},{"group":"c","required":0},{"group":"B"},{"group":"d","who":1}]`,
		".approval.from[0].group is required", ".approval.from[1].required must be an integer from 1 to 5",
		".approval.from[2].required must be an integer from 1 to 5", ".approval.from[3].group is there twice",
		".approval.from[4].who is not accepted here: accepted are group, any_of, required")
	f(`"from":[{"any_of":[]},{"any_of":["a","A"," b"]},{"any_of":["a","b"],"group":"c"},{"any_of":["x","y"]},{"any_of":["Y","x"]}]`,
		".approval.from[0].any_of must have at least one entry", ".approval.from[1].any_of[1] "+repeated,
		".approval.from[1].any_of[2] "+spend.NameForm, ".approval.from[2].any_of and group exclude each other",
		".approval.from[4].any_of is there twice")
	for _, bad := range []string{`" a"`, `"\uff41"`, `"a\u200b"`, `"a\n"`} {
		f(`"from":[{"group":`+bad+`}]`, ".approval.from[0].group "+spend.NameForm)
	}
	f(`"exclude_author":"yes"`, ".approval.exclude_author must be true or false")

	p := mustCompile(t, rule1("escalate_if",
		`{"amount_above":1,"approval":{"from":[{"group":"Support"},{"group":"finance","required":2}],"exclude_author":true}}`))
	want := &ApprovalTerms{
		Required: 3, From: []spend.GroupRequired{{Group: "Support", Required: 1}, {Group: "finance", Required: 2}}, ExcludeAuthor: true,
		Expires: 24 * time.Hour, UseWithin: time.Hour,
	}
	if got := p.rules[0].approval; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// The same groups are the same rule, in whatever order and case; others are not (S47).
func TestGroupsAreParameters(t *testing.T) {
	identity := func(approval string) spend.Hash {
		return mustCompile(t, rule1("escalate_if", `{"amount_above":1,"approval":`+approval+`}`)).rules[0].identity
	}
	one := identity(`{"from":[{"group":"a"},{"group":"b","required":2}]}`)
	if identity(`{"from":[{"any_of":["b","A"]}]}`) != identity(`{"from":[{"any_of":["a","B"],"required":1}]}`) {
		t.Error("the same groups of an entry differ")
	}
	if one != identity(`{"exclude_author":false,"from":[{"group":"B","required":2},{"group":"A","required":1}]}`) {
		t.Error("the same groups differ")
	}
	for _, other := range []string{
		`{"required":3}`, `{"from":[{"group":"a"},{"group":"b"}]}`, `{"from":[{"group":"a","required":2},{"group":"b"}]}`,
		`{"from":[{"group":"a"},{"group":"c","required":2}]}`,
		`{"from":[{"group":"a"},{"group":"b","required":2}],"exclude_author":true}`,
	} {
		if one == identity(other) {
			t.Errorf("%s is the same", other)
		}
	}
	if identity(`{}`) == identity(`{"exclude_author":true}`) {
		t.Error("exclude_author is no parameter")
	}
}

// If several rules escalate, the highest number for each group counts, and besides it the highest
// number of the rules without groups.
func TestGroupsOfSeveralRules(t *testing.T) {
	rule := func(id, approval string) string {
		return `{"rule_id":"` + id + `","rule_type":"escalate_if","parameters":{"amount_above":1,"approval":` + approval + `}}`
	}
	f := func(want spend.ApprovalRequest, rules ...string) {
		t.Helper()
		text := ""
		for i, approval := range rules {
			text += "," + rule(string(rune('a'+i)), approval)
		}
		p := mustCompile(t, "["+text[1:]+"]")
		got := p.Asks(&spend.Action{Amount: mustAmount(t, "5")}, spend.Resolution{Type: spend.Spend}, time.Now(), nil, nil)
		got.Rules, want.Expires, want.UseWithin = nil, 24*time.Hour, time.Hour
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v, want %+v", *got, want)
		}
	}
	f(spend.ApprovalRequest{Required: 2}, `{}`, `{"required":2}`)
	f(spend.ApprovalRequest{Required: 3, From: []spend.GroupRequired{{Group: "a", Required: 2}, {Group: "b", Required: 1}}},
		`{"from":[{"group":"a"}]}`, `{"from":[{"group":"b"},{"group":"A","required":2}]}`)
	f(spend.ApprovalRequest{Required: 3, From: []spend.GroupRequired{{Group: "a", Required: 1}}, ExcludeAuthor: true},
		`{"required":2,"exclude_author":true}`, `{"from":[{"group":"a"}]}`, `{}`)
}
