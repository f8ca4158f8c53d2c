package audittest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// askingGroups returns an escalated check that asks people of groups, and further people of any
// group.
func askingGroups(f spend.Fence, anybody int, from ...spend.GroupRequired) *spend.Check {
	c := asking(f, anybody)
	c.Approval.From = from
	for _, g := range from {
		c.Approval.Required += g.Required
	}
	return c
}

func one(group string) spend.GroupRequired { return spend.GroupRequired{Group: group, Required: 1} }

// members makes an API key for each person, with the groups that they are in.
type members struct {
	s    Subject
	keys map[string]*audit.Key
}

func newMembers(t *testing.T, s Subject, groups map[string][]string) members {
	m := members{s, make(map[string]*audit.Key)}
	for name, of := range groups {
		m.keys[name] = m.key(t, spend.Grants{Role: spend.Approver, Principal: name, Groups: of})
	}
	return m
}

func (m members) key(t *testing.T, g spend.Grants) *audit.Key {
	t.Helper()
	k := newKey()
	k.Grants = g
	must(t, m.s.CreateKey(t.Context(), actor(), k))
	return k
}

func (m members) patch(t *testing.T, name string, groups ...string) {
	t.Helper()
	change := audit.KeyChange{Grants: spend.GrantsChange{Grants: spend.Grants{Groups: groups}, Named: []string{"groups"}}}
	if k, err := m.s.UpdateKey(t.Context(), actor(), m.keys[name].ID, change); err != nil || !slices.Equal(k.Grants.Groups, groups) {
		t.Fatal(k, err)
	}
}

// by returns a person's decision, sent by a node that does not know the person's groups.
func (m members) by(asked *spend.Check, name string, approves bool) audit.ApprovalDecisionRequest {
	d := decision(asked, name, approves)
	d.By.KeyID = m.keys[name].ID.Text(spend.PrefixKey)
	return d
}

// approvalGroups: each person counts for one entry, the one with which the request can be
// completed, in whatever order people decide (S79).
func approvalGroups(t *testing.T, s Subject) {
	f := fence(t, s)
	m := newMembers(t, s, map[string][]string{
		"sue": {"support"}, "sam": {"SUPPORT"}, "fay": {"finance"}, "ben": {"support", "finance", "legal"}, "bea": {"finance", "support"},
		"max": {"sales"}, "ned": nil,
	})
	both := []spend.GroupRequired{one("Support"), one("finance")}
	for _, c := range []struct {
		from    []spend.GroupRequired
		anybody int
		by      []string
		left    []int // missing after each decision; 0 is approved
	}{
		{both, 0, []string{"sue", "fay"}, []int{1, 0}},
		{both, 0, []string{"fay", "sue"}, []int{1, 0}},
		{both, 0, []string{"ben", "sue"}, []int{1, 0}},
		{both, 0, []string{"ben", "fay"}, []int{1, 0}},
		{both, 0, []string{"sue", "ben"}, []int{1, 0}},
		{both, 0, []string{"ben", "bea"}, []int{1, 0}},
		{both, 0, []string{"sue", "sam", "fay"}, []int{1, 1, 0}},
		{[]spend.GroupRequired{one("support"), {Group: "finance", Required: 2}}, 0, []string{"ben", "bea", "sam"}, []int{2, 1, 0}},
		{[]spend.GroupRequired{one("support"), one("finance"), one("legal")}, 0, []string{"ben", "bea", "sue"}, []int{2, 1, 0}},
		{[]spend.GroupRequired{{AnyOf: []string{"legal", "Finance"}, Required: 2}}, 0, []string{"fay", "ben"}, []int{1, 0}},
		{[]spend.GroupRequired{{AnyOf: []string{"support", "finance"}, Required: 1}, one("support")}, 0, []string{"sue", "sam"}, []int{1, 0}},
		{[]spend.GroupRequired{{AnyOf: []string{"support", "finance"}, Required: 1}, one("support")}, 0, []string{"fay", "sue"}, []int{1, 0}},
		{[]spend.GroupRequired{{AnyOf: []string{"support", "finance"}, Required: 1}, one("support")}, 0, []string{"fay", "bea"}, []int{1, 0}},
		{[]spend.GroupRequired{one("support")}, 1, []string{"sue", "sam"}, []int{1, 0}},
		{[]spend.GroupRequired{one("support")}, 1, []string{"ned", "max", "sue"}, []int{1, 1, 0}},
		{[]spend.GroupRequired{one("support")}, 2, []string{"sue", "ben", "ned"}, []int{2, 1, 0}},
	} {
		asked := askingGroups(f, c.anybody, c.from...)
		mustCommit(t, s, asked)
		for i, name := range c.by {
			mustDecide(t, s, m.by(asked, name, true), audit.DecisionRecorded)
			mustDecide(t, s, m.by(asked, name, true), audit.DecisionReplayed)
			want := audit.ApprovalPending
			if c.left[i] == 0 {
				want = audit.ApprovalApproved
			}
			a := mustBe(t, s, asked, want)
			if lacks := a.Missing(); lacks.People() != c.left[i] || a.Decisions[i].Completes != (c.left[i] == 0) ||
				!slices.Equal(a.Decisions[i].Groups, m.keys[name].Grants.Groups) {
				t.Errorf("%v by %v: after %d decisions %d are missing: %+v", c.from, c.by, i+1, lacks.People(), a.Decisions[i])
			}
			if c.left[i] > 0 {
				mustRefuse(t, s, using(f, asked), audit.ApprovalError{Status: audit.ApprovalPending})
			}
		}
		mustCommit(t, s, using(f, asked))
		mustBe(t, s, asked, audit.ApprovalUsed)
	}
	asked := askingGroups(f, 0, both...)
	mustCommit(t, s, asked)
	for _, name := range []string{"max", "ned"} {
		for _, approves := range []bool{true, false} {
			mustDecide(t, s, m.by(asked, name, approves), audit.DecisionNoGroup)
		}
	}
	mustDecide(t, s, m.by(asked, "ben", true), audit.DecisionRecorded)
	if lacks := mustBe(t, s, asked, audit.ApprovalPending).Missing(); lacks.People() != 1 || !slices.Equal(lacks.Of, []int{1, 1}) {
		t.Errorf("missing: %+v", lacks)
	}
	mustDecide(t, s, m.by(asked, "sue", false), audit.DecisionRecorded)
	mustBe(t, s, asked, audit.ApprovalDenied)
}

// approvalGroupsChange: a decision counts for the groups of the key at its time.
func approvalGroupsChange(t *testing.T, s Subject) {
	f := fence(t, s)
	m := newMembers(t, s, map[string][]string{"sue": {"support"}, "fay": {"finance"}, "tom": {"support"}})
	first, second := askingGroups(f, 0, one("support"), one("finance")), askingGroups(f, 0, one("support"), one("finance"))
	mustCommit(t, s, first, second)
	mustDecide(t, s, m.by(first, "sue", true), audit.DecisionRecorded)
	m.patch(t, "sue", "finance")
	m.patch(t, "fay")
	mustDecide(t, s, m.by(first, "fay", true), audit.DecisionNoGroup)
	mustDecide(t, s, m.by(first, "sue", true), audit.DecisionReplayed)
	mustDecide(t, s, m.by(first, "tom", true), audit.DecisionRecorded)
	if lacks := mustBe(t, s, first, audit.ApprovalPending).Missing(); lacks.People() != 1 || !slices.Equal(lacks.Of, []int{0, 1}) {
		t.Errorf("missing: %+v", lacks)
	}
	m.patch(t, "fay", "finance", "legal")
	mustDecide(t, s, m.by(first, "fay", true), audit.DecisionRecorded)
	m.patch(t, "fay", "support")
	mustBe(t, s, first, audit.ApprovalApproved)
	mustCommit(t, s, using(f, first))

	// A person who has decided and then left the group may not decide otherwise.
	mustDecide(t, s, m.by(second, "sue", true), audit.DecisionRecorded)
	m.patch(t, "sue")
	mustDecide(t, s, m.by(second, "sue", false), audit.DecisionNoGroup)
	mustDecide(t, s, m.by(second, "tom", true), audit.DecisionRecorded)
	mustBe(t, s, second, audit.ApprovalApproved)
}

// approvalGroupsRace lets people of two groups decide while one of them changes groups: if their
// decisions complete the request, it is approved.
func approvalGroupsRace(t *testing.T, s Subject) {
	m := newMembers(t, s, map[string][]string{"sue": {"support"}, "ben": {"support", "finance"}, "fay": {"finance"}})
	f := fence(t, s)
	for round := range 10 {
		asked := askingGroups(f, 0, one("support"), one("finance"))
		mustCommit(t, s, asked)
		var wg sync.WaitGroup
		for name := range m.keys {
			wg.Go(func() {
				switch result, err := s.Decide(t.Context(), m.by(asked, name, true)); {
				case err != nil:
					t.Error(err)
				case result != audit.DecisionRecorded && result != audit.ApprovalDecisionResult(audit.ApprovalApproved) &&
					(result != audit.DecisionNoGroup || name != "ben"):
					t.Errorf("%s: %s", name, result)
				}
			})
		}
		if round%2 == 1 {
			wg.Go(func() {
				m.patch(t, "ben")
				m.patch(t, "ben", "support", "finance")
			})
		}
		wg.Wait()
		a := mustBe(t, s, asked, audit.ApprovalApproved)
		if n := len(a.Decisions); n != 2 || a.Decisions[0].Completes || !a.Decisions[1].Completes {
			t.Errorf("round %d: decided %+v", round, a.Decisions)
		}
	}
}

// approvalExcludesAuthor: the author of the version that escalated cannot decide, with any of their
// keys (S79).
func approvalExcludesAuthor(t *testing.T, s Subject) {
	f := fence(t, s)
	m := newMembers(t, s, map[string][]string{"eve": {"risk"}, "bob": {"risk"}})
	author := m.key(t, spend.Grants{Role: spend.Author, Principal: "Anita", Owner: "risk team"})
	by := audit.Actor{KeyID: author.ID.Text(spend.PrefixKey), Principal: "Anita"}
	for i := range 2 { // others write versions before and after
		for _, who := range []audit.Actor{{Principal: "spendgate"}, by, {KeyID: "key_of_carl", Principal: "carl"}} {
			p := newPolicy(fmt.Sprint("written-", i))
			must(t, s.CreatePolicy(t.Context(), who, p, audit.NewBudgets{}, epochStart))
		}
	}
	ask := func(version int, excludes bool) *spend.Check {
		c := asking(f, 1)
		c.Action.PolicyID, c.Decision.PolicyVersion = "written-1", version
		c.Approval.ExcludeAuthor, c.Approval.ActionHash = excludes, spend.ActionHash(c)
		mustCommit(t, s, c)
		return c
	}
	own := ask(2, true)
	rotated := map[string]spend.Grants{
		"same principal": {Principal: "anita"}, "same owner": {Principal: "x", Owner: "Risk Team"}, "the owner": {Principal: "risk team"},
	}
	for name, g := range rotated {
		m.keys[name] = m.key(t, g)
	}
	m.keys["the key"] = author
	change := audit.KeyChange{Grants: spend.GrantsChange{
		Grants: spend.Grants{Principal: "anna", Owner: "nobody"}, Named: []string{"principal", "owner"},
	}}
	get(s.UpdateKey(t.Context(), actor(), author.ID, change))(t)
	m.keys["as she is now"] = m.key(t, spend.Grants{Principal: "ANNA"})
	for _, name := range []string{"same principal", "same owner", "the owner", "the key", "as she is now"} {
		for _, approves := range []bool{true, false} {
			mustDecide(t, s, m.by(own, name, approves), audit.DecisionAuthor)
		}
	}
	if a := mustBe(t, s, own, audit.ApprovalPending); a.Decisions != nil {
		t.Errorf("recorded %+v", a.Decisions)
	}
	for i, asked := range []*spend.Check{ask(1, true), ask(3, true), ask(2, false)} {
		t.Log(i)
		mustDecide(t, s, m.by(asked, "same principal", true), audit.DecisionRecorded)
		mustBe(t, s, asked, audit.ApprovalApproved)
	}
	mustDecide(t, s, m.by(own, "bob", true), audit.DecisionRecorded)
	mustBe(t, s, own, audit.ApprovalApproved)
	approvalExcludesDrafter(t, s, m, ask)
}

// approvalExcludesDrafter: whoever put the draft of a version counts as its author, even if an
// admin forced it, and so does whoever promoted it; earlier and later drafts have other authors.
func approvalExcludesDrafter(t *testing.T, s Subject, m members, ask func(version int, excludes bool) *spend.Check) {
	ctx := t.Context()
	const rules = `[{"rule_id":"cap","rule_type":"max_amount","parameters":{"limit":1,"currency":"USD"}}]`
	by := func(name string) audit.Actor {
		return audit.Actor{KeyID: m.keys[name].ID.Text(spend.PrefixKey), Principal: m.keys[name].Grants.Principal}
	}
	m.keys["drafter"] = m.key(t, spend.Grants{Principal: "Dora", Owner: "pay team"})
	m.keys["promoter"] = m.key(t, spend.Grants{Principal: "Paul"})
	for name, g := range map[string]spend.Grants{
		"Dora's other": {Principal: "DORA"}, "her team's": {Principal: "Pay Team"}, "Paul's other": {Principal: "paul"},
	} {
		m.keys[name] = m.key(t, g)
	}
	promote := func(base int, author, promoter audit.Actor) {
		d := newDraft("written-1", rules)
		if before, err := s.Draft(ctx, "written-1"); err == nil {
			d.Replaces = before.Generation
		}
		must(t, s.PutDraft(ctx, author, d, epochStart))
		_, err := s.PromoteDraft(ctx, promoter, audit.Promotion{PolicyID: "written-1", Generation: d.Generation, Version: base}, epochStart)
		must(t, err)
	}
	promote(3, by("eve"), by("bob"))
	must(t, s.PutDraft(ctx, by("eve"), newDraft("written-1", rules), epochStart)) // another replaces it
	promote(4, by("drafter"), by("promoter"))
	promote(5, by("drafter"), audit.Actor{Credential: "01234567"})
	must(t, s.CreatePolicy(ctx, by("eve"), newPolicy("written-1"), audit.NewBudgets{}, epochStart))
	promoted, forced, posted := ask(5, true), ask(6, true), ask(7, true)
	for _, name := range []string{"drafter", "Dora's other", "her team's"} {
		mustDecide(t, s, m.by(promoted, name, true), audit.DecisionAuthor)
		mustDecide(t, s, m.by(forced, name, false), audit.DecisionAuthor)
	}
	mustDecide(t, s, m.by(promoted, "promoter", true), audit.DecisionAuthor)
	mustDecide(t, s, m.by(promoted, "Paul's other", true), audit.DecisionAuthor)
	mustDecide(t, s, m.by(posted, "eve", true), audit.DecisionAuthor)
	mustDecide(t, s, m.by(promoted, "eve", true), audit.DecisionRecorded)
	mustDecide(t, s, m.by(forced, "promoter", true), audit.DecisionRecorded)
	mustDecide(t, s, m.by(posted, "drafter", true), audit.DecisionRecorded)
	page, err := s.PolicyVersions(ctx, audit.VersionQuery{PolicyID: "written-1", Limit: 4})
	must(t, err)
	for i, want := range [][2]audit.Actor{
		{by("eve"), {}}, {{Credential: "01234567"}, by("drafter")}, {by("promoter"), by("drafter")}, {by("bob"), by("eve")},
	} {
		if p := page.Policies[i]; p.Author != want[0] || p.Drafter != want[1] {
			t.Errorf("version %d: author %+v, drafted by %+v, want %+v", p.Version, p.Author, p.Drafter, want)
		}
	}
}

// approvalAuthorRace changes the author's key into the deciding party while that party decides.
func approvalAuthorRace(t *testing.T, s Subject) {
	f := fence(t, s)
	m := newMembers(t, s, map[string][]string{"bob": nil})
	for round := range 10 {
		author := m.key(t, spend.Grants{Role: spend.Author})
		id := author.ID.Text(spend.PrefixKey)
		p := newPolicy(fmt.Sprint("p-", round))
		must(t, s.CreatePolicy(t.Context(), audit.Actor{KeyID: id, Principal: id}, p, audit.NewBudgets{}, epochStart))
		asked := asking(f, 1)
		asked.Action.PolicyID, asked.Decision.PolicyVersion = p.PolicyID, 1
		asked.Approval.ExcludeAuthor, asked.Approval.ActionHash = true, spend.ActionHash(asked)
		mustCommit(t, s, asked)
		var wg sync.WaitGroup
		wg.Go(func() {
			change := audit.KeyChange{Grants: spend.GrantsChange{Grants: spend.Grants{Owner: "Bob"}, Named: []string{"owner"}}}
			if _, err := s.UpdateKey(t.Context(), actor(), author.ID, change); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if result, err := s.Decide(t.Context(), m.by(asked, "bob", true)); err != nil ||
				result != audit.DecisionRecorded && result != audit.DecisionAuthor {
				t.Error(result, err)
			}
		})
		wg.Wait()
		changes := get(s.Changes(t.Context(), audit.ChangeQuery{Limit: 1000}))(t)
		patched := false
		for _, c := range changes {
			patched = patched || c.Kind == audit.KeyChanged && c.Subject == id
			if patched && c.Kind == audit.ApprovalGiven && c.Subject == asked.ID.Text(spend.PrefixApproval) {
				t.Errorf("round %d: decided by the author", round)
			}
		}
	}
}
