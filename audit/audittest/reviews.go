package audittest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// change is a policy that asks people before it changes, and the people who change it.
type change struct {
	t *testing.T
	m members
	n int // policies so far
}

// govern creates a policy with such a requirement and a draft by ann, and returns the draft.
func (c *change) govern(asks string) *audit.Draft {
	c.t.Helper()
	c.n++
	p := newPolicy(fmt.Sprintf("governed-%d", c.n))
	p.Changes = asks
	must(c.t, c.m.s.CreatePolicy(c.t.Context(), audit.Actor{Principal: "setup"}, p, audit.NewBudgets{}, epochStart))
	return c.put(p.PolicyID)
}

func (c *change) by(name string) audit.Actor {
	return audit.Actor{KeyID: c.m.keys[name].ID.Text(spend.PrefixKey), Principal: c.m.keys[name].Grants.Principal}
}

func (c *change) put(policyID string) *audit.Draft {
	c.t.Helper()
	d := newDraft(policyID, `[]`)
	if before, err := c.m.s.Draft(c.t.Context(), policyID); err == nil {
		d.Replaces = before.Generation
	}
	must(c.t, c.m.s.PutDraft(c.t.Context(), c.by("ann"), d, epochStart))
	return d
}

func (c *change) approve(d *audit.Draft, name string, want audit.ApprovalDecisionResult, drop ...string) {
	c.t.Helper()
	got, err := c.m.s.DecideDraft(c.t.Context(), audit.DraftDecisionRequest{
		PolicyID: d.PolicyID, Hash: d.Hash, Note: "by " + name, Drop: drop, By: c.by(name),
	})
	if must(c.t, err); got != want {
		c.t.Errorf("%s approves %s: %q, want %q", name, d.PolicyID, got, want)
	}
}

// promote promotes a draft over a version, and checks whether that is refused because people are
// missing.
func (c *change) promote(d *audit.Draft, by audit.Actor, version int, refused bool, drop ...string) {
	c.t.Helper()
	_, err := c.m.s.PromoteDraft(c.t.Context(), by, audit.Promotion{
		PolicyID: d.PolicyID, Generation: d.Generation, Version: version, Budgets: audit.NewBudgets{Drop: drop},
	}, epochStart)
	asks, is := errors.AsType[*audit.ChangeNeedsApprovalError](err)
	if is != refused || err != nil && !is || is && (asks.PolicyID != d.PolicyID || asks.Version != version) {
		c.t.Errorf("promotion of %s: %v, want it refused: %t", d.PolicyID, err, refused)
	}
}

func (c *change) missing(d *audit.Draft, want int) {
	c.t.Helper()
	r, err := c.m.s.Review(c.t.Context(), d.PolicyID)
	if must(c.t, err); r.Missing(nil).People() != want {
		c.t.Errorf("of %s %+v are missing, want %d", d.PolicyID, r.Missing(nil), want)
	}
}

func (c *change) grant(name string, g spend.Grants, named ...string) {
	c.t.Helper()
	_, err := c.m.s.UpdateKey(c.t.Context(), actor(), c.m.keys[name].ID, audit.KeyChange{Grants: spend.GrantsChange{Grants: g, Named: named}})
	must(c.t, err)
}

func newChange(t *testing.T, s Subject) *change {
	c := &change{t: t, m: members{s, make(map[string]*audit.Key)}}
	for name, g := range map[string]spend.Grants{
		"ann": {}, "bob": {}, "cleo": {Groups: []string{"Risk"}}, "dan": {Groups: []string{"risk", "legal"}}, "eve": {},
		"eve2": {Principal: "Eve bis", Owner: "Eve GmbH"},
	} {
		if g.Role, g.Principal = spend.Approver, name; name == "eve" || name == "eve2" {
			g.Owner = "eve gmbh"
		}
		c.m.keys[name] = c.m.key(t, g)
	}
	return c
}

const asksOne = `{"required":1}`

// changesByTwo: a version that asks people can be followed only by what they approved (S80).
func changesByTwo(t *testing.T, s Subject) {
	c, ctx := newChange(t, s), t.Context()
	d := c.govern(asksOne)
	c.approve(d, "ann", audit.DecisionAuthor)
	c.promote(d, c.by("bob"), 1, true)
	c.missing(d, 1)
	direct := newPolicy(d.PolicyID) // without changes
	err := s.CreatePolicy(ctx, c.by("ann"), direct, audit.NewBudgets{}, epochStart)
	if asks, is := errors.AsType[*audit.ChangeNeedsApprovalError](err); !is || asks.PolicyID != d.PolicyID || asks.Version != 1 {
		t.Errorf("posted over a version that asks: %v", err)
	}
	stale := *d
	stale.Hash[0]++
	c.approve(&stale, "bob", audit.DecisionOtherDraft)
	c.approve(d, "bob", audit.DecisionRecorded)
	c.approve(d, "bob", audit.DecisionReplayed)
	c.missing(d, 0)
	r, err := s.Review(ctx, d.PolicyID)
	if must(t, err); len(r.Approvals) != 1 || r.Version != 1 || r.Draft.Hash != d.Hash || r.Approvals[0].Note != "by bob" ||
		r.Approvals[0].By.Principal != "bob" || r.Approvals[0].At.IsZero() {
		t.Errorf("the review is %+v", r)
	}

	// Nobody has approved another draft, even if it has the same text.
	again := c.put(d.PolicyID)
	c.missing(again, 1)
	c.promote(again, c.by("bob"), 1, true)
	c.approve(d, "cleo", audit.DecisionOtherDraft)
	c.approve(again, "cleo", audit.DecisionRecorded)
	c.promote(again, c.by("ann"), 1, false)
	p, err := s.Policy(ctx, d.PolicyID, 0)
	if must(t, err); p.Version != 2 || p.Changes != "" {
		t.Errorf("promoted to %+v", p)
	}
	must(t, s.CreatePolicy(ctx, c.by("ann"), newPolicy(d.PolicyID), audit.NewBudgets{}, epochStart)) // it asks nobody any more
	c.approve(c.put(d.PolicyID), "bob", audit.DecisionNotAsked)
	if _, err := s.DecideDraft(ctx, audit.DraftDecisionRequest{PolicyID: "none", By: c.by("bob")}); !errors.Is(err, audit.ErrNotFound) {
		t.Errorf("approved no draft: %v", err)
	}

	d = c.govern(`{"from":[{"group":"risk","required":1},{"group":"legal","required":1}]}`)
	c.approve(d, "bob", audit.DecisionNoGroup)
	c.approve(d, "dan", audit.DecisionRecorded)
	c.promote(d, c.by("ann"), 1, true)
	c.approve(d, "cleo", audit.DecisionRecorded) // for risk, so that dan is for legal
	c.promote(d, c.by("ann"), 1, false)

	d = c.govern(`{"required":3,"from":[{"group":"risk","required":1}]}`)
	c.approve(d, "bob", audit.DecisionRecorded)
	c.approve(d, "eve", audit.DecisionRecorded)
	c.approve(d, "eve2", audit.DecisionAgain)
	c.missing(d, 1)
	c.approve(d, "dan", audit.DecisionRecorded)
	c.missing(d, 0)
}

// changesForced: an admin needs no approvals, which is recorded; approvals are for the version that
// was in force.
func changesForced(t *testing.T, s Subject) {
	c, ctx := newChange(t, s), t.Context()
	admin := audit.Actor{Credential: "0123abcd"}
	d := c.govern(asksOne)
	c.approve(d, "bob", audit.DecisionRecorded)
	next := newPolicy(d.PolicyID)
	next.Changes = asksOne
	must(t, s.CreatePolicy(ctx, admin, next, audit.NewBudgets{}, epochStart))
	c.missing(d, 1) // bob approved it beside version 1
	c.promote(d, c.by("ann"), 2, true)
	c.promote(d, admin, 2, false)
	must(t, s.CreatePolicy(ctx, admin, next, audit.NewBudgets{}, epochStart)) // after one that asks nobody: not forced
	d = c.put(d.PolicyID)
	c.approve(d, "bob", audit.DecisionRecorded)
	c.promote(d, admin, 4, false) // an admin with enough approvals forces nothing
	changes, err := s.Changes(ctx, audit.ChangeQuery{PolicyID: d.PolicyID, Limit: 100})
	must(t, err)
	var kinds []string
	for i := range changes {
		kinds = append(kinds, fmt.Sprintf("%s %d", changes[i].Kind, changes[i].Version))
		if changes[i].Kind == audit.PolicyForced && (changes[i].By.Credential != admin.Credential || changes[i].Hash != changes[i-1].Hash) {
			t.Errorf("forced by %+v", changes[i])
		}
	}
	want := "policy.created 1, policy.draft_put 1, policy.draft_approved 1, policy.created 2, policy.forced 2, policy.draft_promoted 0, " +
		"policy.created 3, policy.forced 3, " +
		"policy.created 4, policy.draft_put 4, policy.draft_approved 4, policy.draft_promoted 0, policy.created 5"
	if got := strings.Join(kinds, ", "); got != want {
		t.Errorf("recorded %s\nwant %s", got, want)
	}
	versions, err := s.PolicyVersions(ctx, audit.VersionQuery{PolicyID: d.PolicyID, Limit: 100})
	must(t, err)
	var made []string
	for _, v := range versions.Policies {
		made = append(made, fmt.Sprintf("%d forced %t note %q by %d", v.Version, v.Forced, v.Note, len(v.ApprovedBy)))
	}
	if got := strings.Join(made, ", "); got != `5 forced false note "tighter" by 1, 4 forced false note "" by 0, `+
		`3 forced true note "tighter" by 0, 2 forced true note "" by 0, 1 forced false note "" by 0` ||
		versions.Policies[0].ApprovedBy[0].By.Principal != "bob" {
		t.Errorf("versions %s", got)
	}
	page, err := s.Events(ctx, audit.EventQuery{Limit: 100, Types: []audit.EventType{audit.EventPolicyForced, audit.EventDraftApproved}})
	if must(t, err); len(page.Events) != 4 || page.Events[0].PolicyID != d.PolicyID || page.Events[1].Type != audit.EventPolicyForced ||
		page.Events[1].Change.Version != 2 {
		t.Errorf("%d events: %+v", len(page.Events), page.Events)
	}
}

// changesByWhom: the author and the approvers are compared as of then and as of now, and a person
// who may no longer approve does not count.
func changesByWhom(t *testing.T, s Subject) {
	c := newChange(t, s)
	approved := func(asks, by string) *audit.Draft {
		t.Helper()
		d := c.govern(asks)
		c.approve(d, by, audit.DecisionRecorded)
		return d
	}
	d, legal := approved(asksOne, "bob"), approved(`{"from":[{"group":"legal","required":1}]}`, "dan")
	off, idle, dropped := approved(asksOne, "cleo"), approved(asksOne, "eve"), c.govern(asksOne)

	c.grant("bob", spend.Grants{Principal: "ANN"}, "principal")
	c.promote(d, c.by("cleo"), 1, true)
	c.grant("bob", spend.Grants{Principal: "bob"}, "principal")
	c.grant("ann", spend.Grants{Principal: "anna"}, "principal")
	c.grant("bob", spend.Grants{Principal: "anna"}, "principal")
	c.promote(d, c.by("cleo"), 1, true)
	c.grant("bob", spend.Grants{Principal: "ann"}, "principal") // the author's principal when the draft was put
	c.promote(d, c.by("cleo"), 1, true)
	c.grant("bob", spend.Grants{Principal: "bob"}, "principal")
	c.promote(d, c.by("cleo"), 1, false)

	c.grant("dan", spend.Grants{Groups: []string{"risk"}}, "groups")
	c.promote(legal, c.by("cleo"), 1, true)
	c.grant("dan", spend.Grants{Groups: []string{"legal"}}, "groups")
	c.promote(legal, c.by("cleo"), 1, false)

	inactive := false
	_, err := s.UpdateKey(t.Context(), actor(), c.m.keys["cleo"].ID, audit.KeyChange{Active: &inactive})
	must(t, err)
	c.promote(off, c.by("bob"), 1, true)
	c.grant("eve", spend.Grants{Role: spend.Auditor}, "role")
	c.promote(idle, c.by("bob"), 1, true)

	// Two approvers who have become one person count once.
	two := c.govern(`{"required":2}`)
	c.approve(two, "bob", audit.DecisionRecorded)
	c.approve(two, "dan", audit.DecisionRecorded)
	c.grant("dan", spend.Grants{Owner: "BOB"}, "owner")
	c.missing(two, 1)
	c.promote(two, c.by("ann"), 1, true)
	c.grant("dan", spend.Grants{}, "owner")

	// People also approve which budgets end.
	c.approve(dropped, "bob", audit.DecisionRecorded)
	c.promote(dropped, c.by("dan"), 1, true, "day")
	c.approve(dropped, "bob", audit.DecisionOtherDrop, "day")
	dropped = c.put(dropped.PolicyID)
	c.approve(dropped, "bob", audit.DecisionRecorded, "day", "week")
	c.approve(dropped, "bob", audit.DecisionReplayed, "week")
	c.approve(dropped, "bob", audit.DecisionReplayed)
	c.promote(dropped, c.by("dan"), 1, false)
}

// changesBounded: a person approves a draft once, with any key, and once more after joining a
// group; the total is bounded.
func changesBounded(t *testing.T, s Subject) {
	c := newChange(t, s)
	c.m.keys["bob2"] = c.m.key(t, spend.Grants{Role: spend.Approver, Principal: "BOB"})
	d := c.govern(`{"from":[{"group":"risk","required":1},{"group":"legal","required":1}],"required":3}`)
	c.approve(d, "bob", audit.DecisionRecorded)
	for _, drop := range [][]string{{"a"}, {"b"}, {"a", "b"}} {
		c.approve(d, "bob", audit.DecisionOtherDrop, drop...)
		c.approve(d, "bob2", audit.DecisionOtherDrop, drop...)
	}
	c.approve(d, "bob2", audit.DecisionReplayed)
	c.grant("bob", spend.Grants{Groups: []string{"risk"}}, "groups")
	c.approve(d, "bob", audit.DecisionRecorded)
	c.approve(d, "bob", audit.DecisionReplayed)
	c.approve(d, "dan", audit.DecisionRecorded)
	c.missing(d, 1)
	for n := 3; n < audit.MaxDraftApprovals; n++ {
		name := fmt.Sprint("one-", n)
		c.m.keys[name] = c.m.key(t, spend.Grants{Role: spend.Approver, Principal: name})
		c.approve(d, name, audit.DecisionRecorded)
	}
	c.approve(d, "cleo", audit.DecisionFull)
	c.approve(d, "one-3", audit.DecisionReplayed)
	c.approve(c.put(d.PolicyID), "cleo", audit.DecisionRecorded)
}

func isRefusal(err error) bool {
	_, asks := errors.AsType[*audit.ChangeNeedsApprovalError](err)
	_, other := errors.AsType[*audit.VersionError](err)
	return asks || other
}
