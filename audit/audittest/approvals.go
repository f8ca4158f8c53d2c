package audittest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// asking returns an escalated check that asks for a number of approvals.
func asking(f spend.Fence, required int) *spend.Check {
	c := escalated(newCheck(f))
	c.Principal, c.Owner = "agent-team", "ann"
	c.Approval = &spend.ApprovalRequest{
		Required: required, Expires: time.Hour, UseWithin: time.Hour, ActionHash: spend.ActionHash(c),
		Rules: []spend.EscalatedRule{{RuleID: "ask", Identity: spend.Hash{1, 2}}, {RuleID: `"`, Identity: spend.Hash{3}}},
	}
	return c
}

// using returns an allowed check of the same action that uses the approval.
func using(f spend.Fence, asked *spend.Check) *spend.Check {
	c := newCheck(f)
	c.Action, c.Principal, c.Owner = asked.Action, asked.Principal, asked.Owner
	c.Action.ApprovalID = asked.ID
	return c
}

func decision(asked *spend.Check, principal string, approves bool) audit.ApprovalDecisionRequest {
	return audit.ApprovalDecisionRequest{
		ApprovalID: asked.ID, Approves: approves, ActionHash: asked.Approval.ActionHash, Note: "seen – ゼロ",
		By: audit.Actor{KeyID: "key_of_" + principal, Principal: principal, RequestID: "req_0123456789ab", Address: "192.0.2.1"},
	}
}

func mustDecide(t *testing.T, s Subject, d audit.ApprovalDecisionRequest, want audit.ApprovalDecisionResult) {
	t.Helper()
	if got, err := s.Decide(t.Context(), d); err != nil || got != want {
		t.Errorf("%s by %s: got %q, %v; want %q", map[bool]string{true: "approval", false: "denial"}[d.Approves], d.By.Principal, got, err, want)
	}
}

func mustBe(t *testing.T, s Subject, asked *spend.Check, want audit.ApprovalStatus) *audit.Approval {
	t.Helper()
	found, err := s.Approvals(t.Context(), []spend.ID{asked.ID, spend.NewID(now())})
	if err != nil || len(found) != 1 || found[0].Status != want {
		t.Fatalf("got %+v, %v; want %s", found, err, want)
	}
	mustBeHistory(t, s, found[0])
	return found[0]
}

// mustRefuse demands that a check is not recorded, because it may not use its approval.
func mustRefuse(t *testing.T, s Subject, c *spend.Check, want audit.ApprovalError) {
	t.Helper()
	err := Record(t.Context(), s, c)
	refused, ok := errors.AsType[*audit.ApprovalsError](err)
	if !ok || len(refused.Refused) != 1 || refused.Refused[c.ID] == nil || *refused.Refused[c.ID] != want {
		t.Errorf("got %v, want %+v", err, want)
	}
	if found, err := s.Checks(t.Context(), []spend.ID{c.ID}); err != nil || len(found) > 0 {
		t.Errorf("recorded %v, %v", found, err)
	}
}

// approvalStates: an approval is pending, then approved, then used once, by exactly this action.
func approvalStates(t *testing.T, s Subject) {
	f := fence(t, s)
	asked := asking(f, 2)
	mustCommit(t, s, asked)
	a := mustBe(t, s, asked, audit.ApprovalPending)
	if got := a.Check; !reflect.DeepEqual(got, asked) {
		t.Errorf("got %+v\nwant %+v", got, asked)
	}
	if since := now().Sub(a.CreatedAt).Abs(); since > clockTolerance || a.ExpiresAt.Sub(a.CreatedAt) != time.Hour {
		t.Errorf("made at %s, expires at %s", a.CreatedAt, a.ExpiresAt)
	}
	mustRefuse(t, s, using(f, asked), audit.ApprovalError{Status: audit.ApprovalPending})
	other := decision(asked, "bob", true)
	other.ActionHash[0]++
	mustDecide(t, s, other, audit.ApprovalDecisionResult(audit.ApprovalMismatch))
	other.ApprovalID = spend.NewID(now())
	mustDecide(t, s, other, audit.ApprovalDecisionResult(audit.ApprovalAbsent))
	mustDecide(t, s, decision(asked, "bob", true), audit.DecisionRecorded)
	mustDecide(t, s, decision(asked, "bob", true), audit.DecisionReplayed)
	mustBe(t, s, asked, audit.ApprovalPending)
	mustDecide(t, s, decision(asked, "cleo", true), audit.DecisionRecorded)
	a = mustBe(t, s, asked, audit.ApprovalApproved)
	if n := len(a.Decisions); n != 2 || a.Decisions[0].Principal != "bob" || a.Decisions[0].KeyID != "key_of_bob" ||
		!a.Decisions[0].Approves ||
		a.Decisions[0].Note != "seen – ゼロ" || !a.ApprovedAt.Equal(a.Decisions[1].At) || !a.UseBy().Equal(a.ApprovedAt.Add(time.Hour)) {
		t.Errorf("decided %+v", a)
	}
	mustDecide(t, s, decision(asked, "dora", true), audit.ApprovalDecisionResult(audit.ApprovalApproved))

	larger := using(f, asked)
	larger.Action.Amount = amount("1255")
	mustRefuse(t, s, larger, audit.ApprovalError{Status: audit.ApprovalMismatch})
	absent := using(f, asked)
	absent.Action.ApprovalID = spend.NewID(now())
	mustRefuse(t, s, absent, audit.ApprovalError{Status: audit.ApprovalAbsent})
	// A block leaves it unused.
	mustCommit(t, s, blocked(using(f, asked)))
	mustBe(t, s, asked, audit.ApprovalApproved)
	use := using(f, asked)
	use.Action.ReasonText = "another reason"
	mustCommit(t, s, use)
	mustHave(t, s, use)
	if a := mustBe(t, s, asked, audit.ApprovalUsed); a.UsedBy != use.ID {
		t.Errorf("used by %s", a.UsedBy.Text(""))
	}
	mustRefuse(t, s, using(f, asked), audit.ApprovalError{Status: audit.ApprovalUsed, UsedBy: use.ID})
	mustDecide(t, s, decision(asked, "dora", false), audit.ApprovalDecisionResult(audit.ApprovalUsed))

	// A denial ends a pending approval, and revokes an approved one.
	for _, approved := range []bool{false, true} {
		denied := asking(f, 1)
		mustCommit(t, s, denied)
		if approved {
			mustDecide(t, s, decision(denied, "bob", true), audit.DecisionRecorded)
		}
		mustDecide(t, s, decision(denied, "bob", false), audit.DecisionRecorded)
		mustBe(t, s, denied, audit.ApprovalDenied)
		mustDecide(t, s, decision(denied, "cleo", true), audit.ApprovalDecisionResult(audit.ApprovalDenied))
		mustRefuse(t, s, using(f, denied), audit.ApprovalError{Status: audit.ApprovalDenied})
	}
	changes, err := s.Changes(t.Context(), audit.ChangeQuery{Limit: 100})
	if err != nil || len(changes) != 5 || changes[0].Kind != audit.ApprovalGiven || changes[0].Subject != asked.ID.Text(spend.PrefixApproval) {
		t.Errorf("recorded %+v, %v", changes, err)
	}
}

// approvalSeparation: the requester never decides, nor does anybody on the requester's behalf
// (S44).
func approvalSeparation(t *testing.T, s Subject) {
	f := fence(t, s)
	asked := asking(f, 1)
	mustCommit(t, s, asked)
	for _, d := range []struct{ principal, owner string }{
		{"agent-team", ""},
		{"agent-team", "zoe"},
		{"ann", ""},
		{"bob", "ann"},
		{"bob", "agent-team"},
		{"AGENT-Team", ""},
		{"bob", "Ann"},
		{"bob", asked.KeyID},
		{"bob", "\uff41nn"},
	} {
		for _, approves := range []bool{true, false} {
			request := decision(asked, d.principal, approves)
			request.Owner = d.owner
			mustDecide(t, s, request, audit.DecisionOwn)
		}
	}
	if a := mustBe(t, s, asked, audit.ApprovalPending); a.Decisions != nil {
		t.Errorf("recorded %+v", a.Decisions)
	}
	request := decision(asked, "bob", true)
	request.Owner = "zoe"
	mustDecide(t, s, request, audit.DecisionRecorded)
	mustBe(t, s, asked, audit.ApprovalApproved)
}

// approvalParties: the requester is its API key, principal and owner, both as of the check and as
// of now, and two approvers share none of these (S62).
func approvalParties(t *testing.T, s Subject) {
	f := fence(t, s)
	owned := func(g spend.Grants) *audit.Key {
		k := newKey()
		k.Grants = g
		must(t, s.CreateKey(t.Context(), actor(), k))
		return k
	}
	patch := func(k *audit.Key, g spend.Grants) {
		t.Helper()
		change := audit.KeyChange{Grants: spend.GrantsChange{Grants: g, Named: []string{"principal", "owner"}}}
		get(s.UpdateKey(t.Context(), actor(), k.ID, change))(t)
	}
	by := func(asked *spend.Check, k *audit.Key, approves bool) audit.ApprovalDecisionRequest {
		d := decision(asked, "as the node remembers it", approves)
		d.By.KeyID = k.ID.Text(spend.PrefixKey)
		return d
	}
	asker := owned(spend.Grants{Principal: "bot", Owner: "ann"})
	asked := asking(f, 2)
	asked.KeyID, asked.Principal, asked.Owner = asker.ID.Text(spend.PrefixKey), "bot", "ann"
	asked.Approval.ActionHash = spend.ActionHash(asked)
	mustCommit(t, s, asked)
	patch(asker, spend.Grants{Principal: "person", Owner: "zoe"})
	for name, g := range map[string]spend.Grants{
		"principal then": {Principal: "Bot"}, "owner then": {Principal: "x", Owner: "ANN"},
		"principal now": {Principal: "PERSON"}, "owner now": {Principal: "x", Owner: "Zoe"}, "owner now as principal": {Principal: "zoe"},
	} {
		t.Log(name)
		mustDecide(t, s, by(asked, owned(g), true), audit.DecisionOwn)
		mustDecide(t, s, by(asked, owned(g), false), audit.DecisionOwn)
	}
	patch(asker, spend.Grants{Principal: "nobody", Owner: "none"})
	mustDecide(t, s, by(asked, asker, true), audit.DecisionOwn) // the key itself

	first := owned(spend.Grants{Principal: "Bob", Owner: "support"})
	mustDecide(t, s, by(asked, first, true), audit.DecisionRecorded)
	mustDecide(t, s, by(asked, first, true), audit.DecisionReplayed)
	mustDecide(t, s, by(asked, owned(spend.Grants{Principal: "bob"}), true), audit.DecisionReplayed)
	mustDecide(t, s, by(asked, owned(spend.Grants{Principal: "cleo", Owner: "Support"}), true), audit.DecisionAgain)
	patch(first, spend.Grants{Principal: "dora", Owner: "sales"})
	mustDecide(t, s, by(asked, first, true), audit.DecisionReplayed)
	if d := mustBe(t, s, asked, audit.ApprovalPending).Decisions; len(d) != 1 || d[0].Principal != "Bob" || d[0].Owner != "support" {
		t.Errorf("decided %+v", d)
	}
	mustDecide(t, s, by(asked, owned(spend.Grants{Principal: "cleo", Owner: "legal"}), true), audit.DecisionRecorded)
	mustBe(t, s, asked, audit.ApprovalApproved)
	mustDecide(t, s, by(asked, owned(spend.Grants{Principal: "eve", Owner: "legal"}), false), audit.DecisionRecorded)
}

// approvalPartyRace changes the requesting key into the deciding party while that party decides:
// the decision is recorded before the change, or not at all.
func approvalPartyRace(t *testing.T, s Subject) {
	f := fence(t, s)
	for round := range 10 {
		asker := newKey()
		must(t, s.CreateKey(t.Context(), actor(), asker))
		asked := asking(f, 1)
		asked.KeyID = asker.ID.Text(spend.PrefixKey)
		mustCommit(t, s, asked)
		var wg sync.WaitGroup
		wg.Go(func() {
			change := audit.KeyChange{Grants: spend.GrantsChange{Grants: spend.Grants{Owner: "Bob"}, Named: []string{"owner"}}}
			if _, err := s.UpdateKey(t.Context(), actor(), asker.ID, change); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if outcome, err := s.Decide(t.Context(), decision(asked, "bob", true)); err != nil ||
				outcome != audit.DecisionRecorded && outcome != audit.DecisionOwn {
				t.Error(outcome, err)
			}
		})
		wg.Wait()
		changes := get(s.Changes(t.Context(), audit.ChangeQuery{Limit: 100}))(t)
		patched := int64(0)
		for _, c := range changes {
			switch {
			case c.Kind == audit.KeyChanged && c.Subject == asked.KeyID:
				patched = c.Seq
			case c.Kind == audit.ApprovalGiven && c.Subject == asked.ID.Text(spend.PrefixApproval) && patched > 0:
				t.Errorf("round %d: decided by who asked: change %d after the patch %d", round, c.Seq, patched)
			}
		}
	}
}

// approvalUseRace lets many checks use one approval while people decide.
func approvalUseRace(t *testing.T, s Subject) {
	for round := range 5 {
		asked := asking(fence(t, s), 2)
		mustCommit(t, s, asked)
		var wg sync.WaitGroup
		decided := make([]audit.ApprovalDecisionResult, 8)
		for i := range decided {
			wg.Go(func() {
				var err error
				if decided[i], err = s.Decide(t.Context(), decision(asked, fmt.Sprint("approver-", i), true)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(mustBe(t, s, asked, audit.ApprovalApproved).Decisions); n != 2 {
			t.Errorf("round %d: %d decided: %v", round, n, decided)
		}
		var mu sync.Mutex
		var used []spend.ID
		denied := false
		for node := range 8 {
			w, f := NewWriter(t, s), fence(t, s)
			wg.Go(func() {
				c := using(f, asked)
				err := w.Append(c).Wait(time.Now().Add(time.Minute))
				_, refused := errors.AsType[*audit.ApprovalError](err)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					used = append(used, c.ID)
				} else if !refused {
					t.Error(err)
				}
			})
			if node == 3 && round%2 == 1 {
				wg.Go(func() {
					outcome, err := s.Decide(t.Context(), decision(asked, "denier", false))
					if err != nil {
						t.Error(err)
					}
					denied = outcome == audit.DecisionRecorded
				})
			}
		}
		wg.Wait()
		if want := map[bool]int{false: 1, true: 0}[denied]; len(used) != want {
			t.Errorf("round %d: used by %d, denied: %t", round, len(used), denied)
		}
	}
}

// mustPendLongest demands that this approval is the longest pending one.
func mustPendLongest(t *testing.T, s Subject, asked *spend.Check) {
	t.Helper()
	want := mustBe(t, s, asked, audit.ApprovalPending).CreatedAt
	if got, err := s.ExpireApprovals(t.Context()); err != nil || !got.Equal(want) {
		t.Errorf("pending since %v, %v; want %v", got, err, want)
	}
}

// approvalListing pages and filters, newest first or soonest to expire first.
func approvalListing(t *testing.T, s Subject) {
	f := fence(t, s)
	var all []*spend.Check
	amounts := [...]spend.Amount{amount("9.5"), amount("10"), amount("10.5"), amount("100"), amount("1000")} // as texts in another order
	for i := range 5 {
		c := asking(f, 1)
		c.Action.AgentID, c.Action.PolicyID = fmt.Sprint("agent-", i%2), fmt.Sprint("policy-", i/4)
		c.Principal = fmt.Sprint("team-", i%2)
		c.Action.Counterparty, c.Action.Amount = fmt.Sprint("customer-", i/2), amounts[i]
		c.Approval.Expires -= time.Duration(i%2) * time.Minute
		c.Approval.UseWithin = time.Minute
		c.Approval.ActionHash = spend.ActionHash(c)
		mustCommit(t, s, c)
		all = append([]*spend.Check{c}, all...)
	}
	mustDecide(t, s, decision(all[1], "bob", true), audit.DecisionRecorded)
	mustPendLongest(t, s, all[4])
	lists := func(q audit.ApprovalQuery, want ...*spend.Check) {
		t.Helper()
		var got []*spend.Check
		q.Limit = 2
		for more := true; more; {
			var page []*audit.Approval
			var err error
			if page, more, err = s.ListApprovals(t.Context(), q); err != nil || len(page) > 2 || more && len(page) != 2 {
				t.Fatalf("%+v: %d, %v", q, len(page), err)
			}
			for _, a := range page {
				got, q.Before, q.After = append(got, a.Check), a.Check.ID, a.Place()
			}
		}
		if !slices.EqualFunc(got, want, func(a, b *spend.Check) bool { return a.ID == b.ID }) {
			t.Errorf("%+v: got %d, want %d", q, len(got), len(want))
		}
	}
	filtered := func(f audit.ApprovalFilter, want ...*spend.Check) {
		t.Helper()
		lists(audit.ApprovalQuery{ApprovalFilter: f}, want...)
	}
	lists(audit.ApprovalQuery{}, all...)
	lists(audit.ApprovalQuery{Status: audit.ApprovalApproved}, all[1])
	lists(audit.ApprovalQuery{Status: audit.ApprovalPending}, all[0], all[2], all[3], all[4])
	soonest := audit.ApprovalQuery{Status: audit.ApprovalPending, Soonest: true}
	lists(soonest, all[3], all[4], all[2], all[0])
	lists(audit.ApprovalQuery{AgentID: "agent-1"}, all[1], all[3])
	lists(audit.ApprovalQuery{PolicyID: "policy-1"}, all[0])
	lists(audit.ApprovalQuery{Bounds: audit.Bounds{PolicyIDs: []string{"policy-0", "x"}, AgentIDs: []string{"agent-0"}}}, all[2], all[4])
	lists(audit.ApprovalQuery{Bounds: audit.Bounds{Principal: "team-1"}}, all[1], all[3])
	lists(audit.ApprovalQuery{Bounds: audit.Bounds{Principal: "nobody"}})
	filtered(audit.ApprovalFilter{Counterparty: "customer-1"}, all[1:3]...)
	filtered(audit.ApprovalFilter{Amounts: audit.Amounts{AmountFrom: &amounts[1], AmountTo: &amounts[3]}}, all[1:4]...)
	filtered(audit.ApprovalFilter{Amounts: audit.Amounts{AmountFrom: &amounts[2]}, Counterparty: "customer-1"}, all[1:3]...)
	moment := all[2].ID.Time() // at which others may have been asked, too
	filtered(audit.ApprovalFilter{From: moment, Until: moment.Add(time.Millisecond)},
		slices.DeleteFunc(slices.Clone(all), func(c *spend.Check) bool { return !c.ID.Time().Equal(moment) })...)
	filtered(audit.ApprovalFilter{DecidedBy: "bob"}, all[1])
	filtered(audit.ApprovalFilter{DecidedBy: "bo"})
	for _, c := range all[3:] { // so that most are approved, whose deadline is another than their end
		mustDecide(t, s, decision(c, "bob", true), audit.DecisionRecorded)
	}
	lists(soonest, all[2], all[0])
	soonest.Counterparty = "customer-1"
	lists(soonest, all[2])
}
