package hotpath_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
	"spendgate/hotpath"
)

const asksOne = `[{"rule_id":"ask","rule_type":"escalate_if","parameters":{"amount_above":100,"approval":{}}}]`

// person is somebody who decides with an API key.
type person struct {
	*fleet
	key    hotpath.Caller
	access hotpath.Access
	id     spend.ID
}

func (f *fleet) person(principal string) person {
	f.t.Helper()
	raw, k, err := f.nodes[0].CreateKey(f.t.Context(), audit.Actor{},
		hotpath.NewKey{Name: principal, RateLimitRPM: 1000, Grants: spend.Grants{Role: spend.Approver, Principal: principal}})
	must.Do(f.t, err)
	caller := hotpath.KeyCaller([]byte(raw))
	access, _, err := f.nodes[0].Admit(f.t.Context(), caller, spend.ApprovalsDecide, false)
	must.Do(f.t, err)
	return person{f, caller, access, k.ID}
}

func (p person) approve(a *audit.Approval) {
	p.t.Helper()
	_, replayed, err := p.nodes[0].DecideApproval(p.t.Context(), p.access, audit.Actor{}, audit.ApprovalDecisionRequest{
		ApprovalID: a.Check.ID, Approves: true, ActionHash: a.Check.Approval.ActionHash,
	})
	if err != nil || replayed {
		p.t.Fatal(replayed, err)
	}
}

// patch changes the person's key. It is called while a commit waits, too.
func (p person) patch(node int, change audit.KeyChange) {
	p.t.Helper()
	if _, _, err := p.nodes[node].UpdateKey(context.Background(), audit.Actor{}, p.id, change); err != nil {
		p.t.Error(err)
	}
}

// mustBeApproval demands a state of an approval.
func (f *fleet) mustBeApproval(what string, a *audit.Approval, want audit.ApprovalStatus, missing int) {
	f.t.Helper()
	got, err := f.nodes[0].Approval(f.t.Context(), hotpath.Access{}, a.Check.ID)
	if err != nil || got.Status != want || got.Missing().People() != missing {
		f.t.Errorf("%s: %+v, %v; want %s with %d missing", what, got, err, want, missing)
	}
}

// ends are the changes that end that a person's decisions count, each with the change that mends it.
func ends() map[string][2]audit.KeyChange {
	var none spend.Grants
	return map[string][2]audit.KeyChange{
		"deactivated": {{Active: new(false)}, {Active: new(true)}},
		"expired":     {named(spend.Grants{ExpiresAt: time.Now().Add(-time.Second)}, spend.MemberExpiresAt), named(none, spend.MemberExpiresAt)},
		"no scope":    {named(spend.Grants{Role: spend.Auditor}, spend.MemberRole), named(spend.Grants{Role: spend.Approver}, spend.MemberRole)},
		"bound":       {named(spend.Grants{PolicyIDs: []string{"other"}}, spend.MemberPolicyIDs), named(none, spend.MemberPolicyIDs)},
		"no agent":    {named(spend.Grants{AgentIDs: []string{"other"}}, spend.MemberAgentIDs), named(none, spend.MemberAgentIDs)},
	}
}

// S92: an approval is not used with a decision that counts no more, whatever was in flight, and people are asked anew.
func TestReopenedApproval(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		f.post(0, "e", asksOne)
		for what, change := range ends() {
			for _, flying := range []bool{false, true} {
				what := fmt.Sprintf("%s, in flight %t", what, flying)
				p, a := f.person(what), under(refundOf(t, "101", what), "e")
				approval := f.asked(a)
				p.approve(approval)
				if flying {
					held, release := f.nodes[0].holdCommit(nil)
					result := make(chan outcome, 1)
					go func() { result <- f.check(0, with(approval, a)) }()
					<-held
					p.patch(1, change[0])
					release()
					if o := <-result; !refusedAs(o, audit.ApprovalPending) {
						t.Errorf("%s: %s", what, o)
					}
				} else {
					p.patch(1, change[0])
					if change[0].Active != nil {
						f.mustBeApproval(what+", unused", approval, audit.ApprovalPending, 1)
					} else {
						f.mustBeApproval(what+", unused", approval, audit.ApprovalApproved, 0)
					}
					if o := f.check(0, with(approval, a)); !refusedAs(o, audit.ApprovalPending) {
						t.Errorf("%s: %s", what, o)
					}
				}
				f.mustBeApproval(what, approval, audit.ApprovalPending, 1)
				p.patch(0, change[1])
				if o := f.check(1, with(approval, a)); !refusedAs(o, audit.ApprovalPending) {
					t.Errorf("%s, and mended: %s", what, o)
				}
				p.approve(approval)
				if o := f.check(1, with(approval, a)); o.err != nil || o.answer.Check.Decision.Effect != spend.Allow {
					t.Errorf("%s, and approved again: %s", what, o)
				}
			}
		}
	})
}

// S92: an approver who has become the asker since does not count, nor does one who signed in; a session that ended does.
func TestReopenedApprovalOfAsker(t *testing.T) {
	eachBackend(t, 1, func(t *testing.T, f *fleet) {
		f.post(0, "e", asksOne)
		a, b := under(refundOf(t, "101", "asker"), "e"), under(refundOf(t, "101", "owner"), "e")
		p, asked, owned := f.person("ann"), f.asked(a), f.asked(b)
		p.approve(asked)
		p.patch(0, named(spend.Grants{Owner: f.keyID.Text(spend.PrefixKey)}, spend.MemberOwner))
		if o := f.check(0, with(asked, a)); !refusedAs(o, audit.ApprovalPending) {
			t.Errorf("the approver has become the asker: %s", o)
		}
		token, session := f.signedIn(0, "bo", spend.Grants{Scopes: spend.ApprovalsDecide})
		access, _, err := f.nodes[0].Admit(t.Context(), f.caller(0, token), spend.ApprovalsDecide, false)
		must.Do(t, err)
		bo := person{fleet: f, access: access}
		bo.approve(asked)
		bo.approve(owned)
		must.Do(t, f.nodes[0].EndSession(t.Context(), audit.Actor{}, session.ID))
		if o := f.check(0, with(asked, a)); o.err != nil || o.answer.Check.Decision.Effect != spend.Allow {
			t.Errorf("the session has ended: %s", o)
		}
		f.change(named(spend.Grants{Owner: "bo@example.com"}, spend.MemberOwner))
		if o := f.check(0, with(owned, b)); o.err == nil {
			t.Errorf("the asker has become who signed in: %s", o)
		}
		f.mustBeApproval("of the asker", owned, audit.ApprovalPending, 1)
	})
}

// S92, S84: a payment whose approval counts on somebody who may not decide any more waits for people.
func TestReopenedPayment(t *testing.T) {
	eachBackend(t, 2, func(t *testing.T, f *fleet) {
		p := newPayer(f)
		f.post(0, "p", asksOne)
		n := 0
		for what, change := range ends() {
			for _, flying := range []bool{false, true} {
				what := fmt.Sprintf("%s, in flight %t", what, flying)
				ask := func() hotpath.PaymentRequest {
					n++
					asked := nonce(n)
					asked.Key = what
					return asked
				}
				who, a := f.person(what), refundOf(t, "101", what)
				approval := p.must(what, a, ask(), audit.PaymentWaiting, false).Payment.Approval
				who.approve(approval)
				if flying {
					held, release := f.nodes[0].holdCommit(nil)
					result := make(chan error, 1)
					go func() {
						answer, err := p.pay(0, a, ask())
						if err == nil && (answer.Payment.Proceed || answer.Payment.Status != audit.PaymentWaiting) {
							err = fmt.Errorf("%+v", answer.Payment)
						}
						result <- err
					}()
					<-held
					who.patch(1, change[0])
					release()
					if err := <-result; err != nil {
						t.Errorf("%s: %v", what, err)
					}
				} else {
					who.patch(1, change[0])
				}
				p.must(what, a, ask(), audit.PaymentWaiting, false)
				f.mustBeApproval(what, approval, audit.ApprovalPending, 1)
				who.patch(0, change[1])
				who.approve(approval)
				p.must(what+", and approved again", a, ask(), audit.PaymentRedeemed, true)
			}
		}
	})
}
