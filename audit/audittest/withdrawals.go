package audittest

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// withdrawing makes a check of the payment that withdraws approvals.
func withdrawing(p *spend.Payment, f spend.Fence, asked ...*spend.Check) *spend.Check {
	c := of(p, newCheck(f))
	c.Withdrawn = idsOf(asked)
	return c
}

// mustRecordWithdrawals compares the recorded withdrawals with those expected of these checks' approvals, by the states
// before.
func mustRecordWithdrawals(t *testing.T, s Subject, by audit.Actor, was map[*spend.Check]audit.ApprovalStatus) {
	t.Helper()
	changes := get(s.Changes(t.Context(), audit.ChangeQuery{Limit: 10_000}))(t)
	for asked, before := range was {
		recorded := slices.DeleteFunc(slices.Clone(changes), func(c audit.Change) bool {
			return c.Kind != audit.ApprovalWithdrawal || c.Subject != asked.ID.Text(spend.PrefixApproval)
		})
		if len(recorded) != 1 {
			t.Fatalf("%d withdrawals of %s are recorded", len(recorded), asked.ID.Text(spend.PrefixApproval))
		}
		c := recorded[0]
		var details map[string]string
		err := json.Unmarshal([]byte(c.Details), &details)
		hash, payment := asked.Approval.ActionHash, asked.PaymentHash()
		want := map[string]string{
			"action_hash": hex.EncodeToString(hash[:]), "payment": hex.EncodeToString(payment[:]), "was": string(before),
		}
		if err != nil || !maps.Equal(details, want) || c.Hash != hash || c.By != by || now().Sub(c.At).Abs() > clockTolerance {
			t.Errorf("recorded %+v, %v", c, err)
		}
	}
	if n := s.Count(t, "SELECT count(*) FROM changes WHERE kind = 'approval.withdrawn'"); n != len(was) {
		t.Errorf("%d withdrawals are recorded, want %d", n, len(was))
	}
}

// mustBeWithdrawn demands that nobody decides about these approvals or uses them any more, and that the checks that
// asked hold nothing.
func mustBeWithdrawn(t *testing.T, s Subject, f spend.Fence, asked ...*spend.Check) {
	t.Helper()
	for _, c := range asked {
		mustBe(t, s, c, audit.ApprovalWithdrawn)
		mustRefuse(t, s, using(f, c), audit.ApprovalError{Status: audit.ApprovalWithdrawn})
		for _, approves := range []bool{true, false} {
			mustDecide(t, s, decision(c, "eve", approves), audit.ApprovalDecisionResult(audit.ApprovalWithdrawn))
		}
		states, err := s.PassStates(t.Context(), []spend.ID{c.ID})
		live, liveErr := s.LivePasses(t.Context(), []spend.Hash{c.Fingerprint}, spend.ID{}, now().UnixMilli(), spend.Block)
		if err = errors.Join(err, liveErr); err != nil || states[c.ID] != audit.PassReleased || len(live) > 0 {
			t.Errorf("state %v, live %v, %v", states, live, err)
		}
	}
}

// mustBeOpen demands that a payment has exactly these unused approvals, the newest first.
func mustBeOpen(t *testing.T, s Subject, p *spend.Payment, want ...*spend.Check) {
	t.Helper()
	got, err := s.PaymentApprovals(t.Context(), []spend.Hash{p.Hash()})
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d approvals, %v; want %d", len(got), err, len(want))
	}
	for i, a := range got {
		if a.Check.ID != want[i].ID || a.Status != mustBe(t, s, want[i], a.Status).Status {
			t.Errorf("approval %d is of %v, %s", i, a.Check.ID, a.Status)
		}
	}
}

// withdrawals: a check withdraws pending and approved approvals, on record (S84).
func withdrawals(t *testing.T, s Subject) {
	f := fence(t, s)
	p, other := newPayment(), newPayment()
	pending, approved := of(p, asking(f, 2)), of(p, asking(f, 1))
	mustCommit(t, s, pending)
	mustCommit(t, s, approved)
	foreign, plain := of(other, asking(f, 1)), asking(f, 1)
	mustCommit(t, s, foreign, plain)
	mustBeOpen(t, s, p, approved, pending)
	mustDecide(t, s, decision(approved, "bob", true), audit.DecisionRecorded)
	mustDecide(t, s, decision(pending, "bob", true), audit.DecisionRecorded)
	mustBeOpen(t, s, p, approved, pending)
	mustBeOpen(t, s, newPayment())

	c := withdrawing(p, f, pending, approved)
	c.Principal = "agent-team"
	o := moves(p, redemption(f, c))
	together(c, o)
	must(t, RecordAll(t.Context(), s, []*spend.Check{c}, o))
	mustHave(t, s, asRead(c))
	mustBePayment(t, s, p, other)
	mustBeWithdrawn(t, s, f, pending, approved)
	mustBeOpen(t, s, p)
	mustBeOpen(t, s, other, foreign)
	mustBe(t, s, plain, audit.ApprovalPending)
	mustRecordWithdrawals(t, s, audit.Actor{KeyID: c.KeyID, Principal: "agent-team", RequestID: c.RequestID},
		map[*spend.Check]audit.ApprovalStatus{pending: audit.ApprovalPending, approved: audit.ApprovalApproved})
	if n := s.Count(t, "SELECT count(*) FROM approval_deadlines"); n != 2 {
		t.Errorf("%d approvals may expire, want 2", n)
	}
}

// withdrawalsRefused: what is no unused approval is not withdrawn. The check is refused, and nothing is written.
func withdrawalsRefused(t *testing.T, s Subject) {
	f := fence(t, s)
	p := newPayment()
	pending, used, denied, withdrawn := of(p, asking(f, 1)), of(p, asking(f, 1)), of(newPayment(), asking(f, 1)), of(p, asking(f, 1))
	expired, overdue := of(p, asking(f, 1)), of(p, asking(f, 1))
	expired.Approval.Expires, overdue.Approval.Expires = 500*time.Millisecond, time.Second
	for _, c := range []*spend.Check{pending, used, denied, withdrawn, expired, overdue} {
		mustCommit(t, s, c)
	}
	mustDecide(t, s, decision(denied, "bob", false), audit.DecisionRecorded)
	mustDecide(t, s, decision(used, "bob", true), audit.DecisionRecorded)
	use := of(p, using(f, used))
	mustCommit(t, s, use)
	by := withdrawing(p, f, withdrawn)
	mustCommit(t, s, by)
	time.Sleep(600 * time.Millisecond)
	mustExpire(t, s)
	time.Sleep(500 * time.Millisecond)
	mustBeOpen(t, s, p, pending)
	before := *p
	for asked, want := range map[*spend.Check]audit.ApprovalError{
		used: {Status: audit.ApprovalUsed, UsedBy: use.ID}, denied: {Status: audit.ApprovalDenied}, expired: {Status: audit.ApprovalExpired},
		overdue: {Status: audit.ApprovalExpired}, withdrawn: {Status: audit.ApprovalWithdrawn}, newCheck(f): {Status: audit.ApprovalAbsent},
	} {
		after := before
		mustRefuse(t, s, withdrawing(&after, f, pending, asked), want)
		mustBe(t, s, pending, audit.ApprovalPending)
		mustBePayment(t, s, &before)
	}

	// Of the checks of one commit, those are named that may not use or withdraw theirs.
	asked := asking(f, 1)
	mustCommit(t, s, asked)
	after, fits := before, newPayment()
	uses, withdraws, good := using(f, asked), withdrawing(&after, f, used), of(fits, newCheck(f))
	refused, ok := errors.AsType[*audit.ApprovalsError](Record(t.Context(), s, uses, good, withdraws))
	if !ok || len(refused.Refused) != 2 || refused.Refused[uses.ID].Status != audit.ApprovalPending ||
		refused.Refused[withdraws.ID].Status != audit.ApprovalUsed {
		t.Errorf("got %+v", refused)
	}
	mustLack(t, s, uses, withdraws, good)
	mustRecordWithdrawals(t, s, audit.Actor{KeyID: by.KeyID, Principal: by.KeyID, RequestID: by.RequestID},
		map[*spend.Check]audit.ApprovalStatus{withdrawn: audit.ApprovalPending})
}

// withdrawalsRace: an approval is used or withdrawn, and a denial does not come between.
func withdrawalsRace(t *testing.T, s Subject) {
	for range 10 {
		f := fence(t, s)
		asked := of(newPayment(), asking(f, 1))
		mustCommit(t, s, asked)
		mustDecide(t, s, decision(asked, "bob", true), audit.DecisionRecorded)
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			f := fence(t, s) // and payments of their own, so that only the approval decides
			c := of(newPayment(), using(f, asked))
			if i%2 == 1 {
				c = withdrawing(newPayment(), f, asked)
			}
			wg.Go(func() { errs[i] = Record(t.Context(), s, c) })
		}
		wg.Wait()
		won := slices.IndexFunc(errs, func(err error) bool { return err == nil })
		if won < 0 {
			t.Fatalf("none of %v", errs)
		}
		for i, err := range errs {
			if _, refused := errors.AsType[*audit.ApprovalsError](err); i != won && !refused {
				t.Errorf("%d: %v after %d", i, err, won)
			}
		}
		mustBe(t, s, asked, [...]audit.ApprovalStatus{audit.ApprovalUsed, audit.ApprovalWithdrawn}[won%2])
	}
}

// denialsWithdraw: a denial withdraws the other unused approvals of the payment, and nothing else (S84).
func denialsWithdraw(t *testing.T, s Subject) {
	f := fence(t, s)
	p := newPayment()
	var asked []*spend.Check
	for range 5 {
		c := of(p, asking(f, 1))
		mustCommit(t, s, c)
		asked = append(asked, c)
	}
	denied, pending, approved, used, expired := asked[0], asked[1], asked[2], asked[3], of(p, asking(f, 1))
	expired.Approval.Expires = 10 * time.Millisecond
	mustCommit(t, s, expired)
	foreign, plain, another := of(newPayment(), asking(f, 1)), asking(f, 1), asking(f, 1)
	mustCommit(t, s, foreign, plain, another)
	for _, c := range []*spend.Check{approved, used, denied} {
		mustDecide(t, s, decision(c, "bob", true), audit.DecisionRecorded)
	}
	mustCommit(t, s, of(p, using(f, used)))
	time.Sleep(20 * time.Millisecond)
	mustDecide(t, s, decision(another, "cleo", false), audit.DecisionRecorded)
	mustBeOpen(t, s, p, asked[4], approved, pending, denied)
	mustDecide(t, s, decision(denied, "cleo", false), audit.DecisionRecorded)
	mustBe(t, s, denied, audit.ApprovalDenied)
	mustBe(t, s, used, audit.ApprovalUsed)
	mustBe(t, s, expired, audit.ApprovalExpired)
	mustBe(t, s, foreign, audit.ApprovalPending)
	mustBe(t, s, plain, audit.ApprovalPending)
	mustBeWithdrawn(t, s, f, asked[4], approved, pending)
	mustBeOpen(t, s, p)
	mustRecordWithdrawals(t, s, decision(denied, "cleo", false).By, map[*spend.Check]audit.ApprovalStatus{
		pending: audit.ApprovalPending, asked[4]: audit.ApprovalPending, approved: audit.ApprovalApproved,
	})
}

// denialsEnd: what asks people again, or is blocked, in spite of an approval is not recorded once that was denied (S84).
func denialsEnd(t *testing.T, s Subject) {
	f := fence(t, s)
	p := newPayment()
	asked := of(p, asking(f, 1))
	mustCommit(t, s, asked)
	inSpiteOf := func(p *spend.Payment, decided *spend.Check) *spend.Check {
		c := of(p, using(f, asked))
		c.Decision, c.Approval = decided.Decision, decided.Approval
		return c
	}
	mustDecide(t, s, decision(asked, "bob", true), audit.DecisionRecorded)
	again := inSpiteOf(p, asking(f, 1))
	mustCommit(t, s, again)
	mustBe(t, s, asked, audit.ApprovalApproved)
	mustDecide(t, s, decision(asked, "cleo", false), audit.DecisionRecorded)
	mustBe(t, s, again, audit.ApprovalWithdrawn)
	for _, c := range []*spend.Check{asking(f, 1), blocked(newCheck(f))} {
		after := *p
		mustRefuse(t, s, inSpiteOf(&after, c), audit.ApprovalError{Status: audit.ApprovalDenied})
	}
	mustBePayment(t, s, p)
	mustBeOpen(t, s, p)
}

// denialsRace: an approval of the payment is used before the denial of another, or withdrawn by it.
func denialsRace(t *testing.T, s Subject) {
	for range 10 {
		f := fence(t, s)
		p := newPayment()
		approved, denied := of(p, asking(f, 1)), of(p, asking(f, 1))
		mustCommit(t, s, approved)
		mustCommit(t, s, denied)
		mustDecide(t, s, decision(approved, "bob", true), audit.DecisionRecorded)
		var wg sync.WaitGroup
		for range 2 {
			other := of(newPayment(), asking(f, 1)) // whose decision records changes meanwhile
			mustCommit(t, s, other)
			wg.Go(func() { mustDecide(t, s, decision(other, "cleo", false), audit.DecisionRecorded) })
		}
		wg.Go(func() { mustDecide(t, s, decision(denied, "cleo", false), audit.DecisionRecorded) })
		var err error
		wg.Go(func() { err = Record(t.Context(), s, of(p, using(f, approved))) })
		wg.Wait()
		want := audit.ApprovalUsed
		if err != nil {
			if _, refused := errors.AsType[*audit.ApprovalsError](err); !refused {
				t.Error(err)
			}
			want = audit.ApprovalWithdrawn
		}
		mustBe(t, s, approved, want)
	}
}

// paymentListing lists the checks of a payment: its own, and those redeemed under it.
func paymentListing(t *testing.T, s Subject) {
	f := fence(t, s)
	p := newPayment()
	same := &spend.Payment{Namespace: "", Key: p.Key} // in another namespace
	own := &spend.Payment{Namespace: `executor's "own"`, Key: `<&> "` + p.Key}
	want := make(map[*spend.Payment][]*spend.Check)
	for range 3 {
		for _, payment := range []*spend.Payment{p, same, nil} {
			c := newCheck(f)
			if payment != nil {
				c = of(payment, c)
			}
			mustCommit(t, s, c)
			want[payment] = slices.Insert(want[payment], 0, asRead(c))
		}
	}
	for _, c := range []*spend.Check{want[p][1], want[nil][0]} {
		o := redemption(f, c)
		if c.Payment != nil {
			moves(p, o)
		}
		mustReport(t, s, moves(own, o))
		want[own] = append(want[own], c)
	}
	slices.SortFunc(want[own], newestFirst)
	for payment, checks := range want {
		if payment != nil {
			mustWalk(t, s, audit.CheckQuery{Payment: payment.Hash(), Limit: 2, Examine: 5}, checks)
		}
	}
	mustWalk(t, s, audit.CheckQuery{Payment: spend.Hash{1}, Limit: 2, Examine: 5}, nil)
}
