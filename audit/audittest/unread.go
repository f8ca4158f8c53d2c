package audittest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// unread returns the redemption of a check of which the request says what the check has.
func unread(f spend.Fence, of *spend.Check) *spend.Outcome {
	o := redemption(f, of)
	o.Unread, o.Check = true, &spend.Check{
		ID: of.ID, Action: of.Action, ActionType: of.ActionType, Decision: spend.Decision{PolicyVersion: of.Decision.PolicyVersion},
	}
	a := &o.Check.Action
	a.Type, a.ReasonText, a.IdempotencyKey, a.ApprovalID = of.ActionType, "", "", spend.ID{}
	return o
}

// unsaid is what a request does not say of the check that it redeems.
func unsaid(c *spend.Check) [6]string {
	a := &c.Action
	return [...]string{c.KeyID, c.Principal, a.ReasonText, a.IdempotencyKey, a.ApprovalID.Text(""), a.AgentID}
}

// unreadRedemptions: a redemption whose check was not read is recorded as any other, beside
// others and beside checks, and has the check then (F136).
func unreadRedemptions(t *testing.T, s Subject) {
	f := fence(t, s)
	plain, bare := newCheck(f), newCheck(f)
	asked := asking(f, 1)
	mustCommit(t, s, asked)
	mustDecide(t, s, decision(asked, "approver", true), audit.DecisionRecorded)
	approved := using(f, asked)
	bare.Action.PaymentMethod, bare.Action.Metadata = "", spend.Metadata{}
	bare.Fingerprint, bare.RequestSHA = spend.FingerprintOf(&bare.Action, bare.ActionType), spend.RequestSHA(&bare.Action)
	plain.Principal, plain.Action.IdempotencyKey = "payments", "key-"+plain.ID.Text("")
	plain.RequestSHA = spend.RequestSHA(&plain.Action)
	read, voided := newCheck(f), newCheck(f)
	mustCommit(t, s, plain, bare, read, voided, approved)
	alone, ofApproved := unread(f, plain), unread(f, approved)
	mustReport(t, s, alone)
	mustReport(t, s, ofApproved)
	together, beside := unread(f, bare), newCheck(f)
	together.Check.Action.AgentID = ""
	released := report(f, voided, 1, spend.Voided, true)
	must(t, RecordAll(t.Context(), s, []*spend.Check{beside}, redemption(f, read), together, released))
	for o, c := range map[*spend.Outcome]*spend.Check{alone: plain, together: bare, ofApproved: approved} {
		if o.Unread || !c.Carries(o.Check) || spend.ActionHash(o.Check) != spend.ActionHash(c) || unsaid(o.Check) != unsaid(c) {
			t.Errorf("the check is %+v, unread %t, want %+v", o.Check, o.Unread, c)
		}
		o.Check, o.RedeemBy = nil, time.Time{}
		if steps := reported(t, s, []*spend.Outcome{o}); len(steps) != 1 || !reflect.DeepEqual(steps[0], o) {
			t.Errorf("recorded are %+v, want %+v", steps, o)
		}
	}
	mustRefuseReport(t, s, nil, []*spend.Outcome{unread(f, plain)}, plain)
	mustRefuseReport(t, s, nil, []*spend.Outcome{unread(f, voided)}, voided)
	late := unread(f, beside)
	late.RedeemBy = now().Add(-time.Minute)
	refused, ok := errors.AsType[*audit.ReportedError](RecordAll(t.Context(), s, nil, late))
	if !ok || !slices.Equal(refused.Late, []spend.ID{beside.ID}) || !late.Unread {
		t.Errorf("a late one: %+v", refused)
	}
	if n := s.Count(t, "SELECT count(*) FROM redemptions_open"); n != 4 {
		t.Errorf("%d are noted to be without an outcome, want 4", n)
	}
}

// unreadRedemptionsDiffer: whatever differs from the check refuses the redemption, and everything
// that is committed with it (F136).
func unreadRedemptionsDiffer(t *testing.T, s Subject) {
	f := fence(t, s)
	check, other, stopped := newCheck(f), newCheck(f), blocked(newCheck(f))
	waits := newCheck(f)
	waits.Decision.Effect = spend.Escalate
	mustCommit(t, s, check, other, stopped, waits)
	lacking := newCheck(f)
	paid := of(newPayment(), newCheck(f)) // the redemption would have to change the payment
	mustCommit(t, s, paid)
	differing := []*spend.Outcome{unread(f, stopped), unread(f, waits), unread(f, lacking), unread(f, paid)}
	for _, differ := range []func(c *spend.Check, a *spend.Action){
		func(c *spend.Check, _ *spend.Action) { c.Decision.PolicyVersion++ },
		func(c *spend.Check, _ *spend.Action) { c.ActionType = spend.Credit },
		func(_ *spend.Check, a *spend.Action) { a.Amount = amount("125.51") },
		func(_ *spend.Check, a *spend.Action) { a.Currency = "EUR" },
		func(_ *spend.Check, a *spend.Action) { a.AgentID = "agent-2" },
		func(_ *spend.Check, a *spend.Action) { a.PolicyID = "Refunds" },
		func(_ *spend.Check, a *spend.Action) { a.Counterparty += " " },
		func(_ *spend.Check, a *spend.Action) { a.PaymentMethod = "" },
		func(_ *spend.Check, a *spend.Action) { a.MerchantOrVendor = "m" },
		func(_ *spend.Check, a *spend.Action) {
			a.Metadata = metadata(`{"days_since_purchase":13,"country":"de","order":"A-1009"}`)
		},
		func(_ *spend.Check, a *spend.Action) { a.Metadata = spend.Metadata{} },
	} {
		o := unread(f, check)
		differ(o.Check, &o.Check.Action)
		differing = append(differing, o)
	}
	for _, o := range differing {
		said := *o.Check
		err := RecordAll(t.Context(), s, nil, unread(f, other), o)
		refused, ok := errors.AsType[*audit.ReportedError](err)
		if !ok || !slices.Equal(refused.CheckIDs, []spend.ID{o.CheckID}) || refused.Late != nil {
			t.Errorf("%+v: %+v, %v", said, refused, err)
		}
		if !o.Unread || !reflect.DeepEqual(*o.Check, said) {
			t.Errorf("a refused one has the check %+v", o.Check)
		}
	}
	mustBeUntouched(t, s, []*spend.Check{check, other}, []*spend.Check{check, other})
	mustReport(t, s, unread(f, check), unread(f, other))
}
