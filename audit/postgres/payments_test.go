package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// ofPayment makes a check one of the payment, which its commit changes.
func ofPayment(p *spend.Payment, c *spend.Check, at time.Time) *spend.Check {
	seen := p.Version
	c.ID = spend.NewID(at)
	c.Namespace = p.Namespace
	*p, c.Payment = p.WithCheck(c, 0, spend.Hash{})
	c.Payments = append(c.Payments, spend.PaymentChange{Seen: seen, To: *p})
	return c
}

// TestLapsesAreForgotten: a redemption does not look for its note that a check is open. Lapses forgets the note, of however
// many, and a day with an open check does not close.
func TestLapsesAreForgotten(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	redeemed, left := minimal(f), minimal(f)
	left.ID = spend.NewID(time.Now().AddDate(0, 0, -7))
	day := left.ID.Time().UTC().Format(time.DateOnly)
	statement(t, url, "SELECT make_partition('"+day+"')")
	for _, c := range []*spend.Check{redeemed, left} {
		c.RedeemBy = time.Now().Add(-time.Second)
		must.Do(t, audittest.Record(t.Context(), s, c))
	}
	must.Do(t, audittest.RecordAll(t.Context(), s, nil, redemption(redeemed)))
	statement(t, url, `INSERT INTO outcomes (outcome_id, check_id, node, epoch, step, number, status, release, key_id, request_id, may_release)
		SELECT gen_random_uuid(), ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, gen_random_uuid(), gen_random_uuid(), 1, 0,
			'r', 'n', 'k', 'r', false
		FROM generate_series(1, 2500) AS i`)
	statement(t, url, "INSERT INTO allows_open SELECT check_id, now() - interval '1 hour' FROM outcomes ON CONFLICT DO NOTHING")
	if n := count(t, s, "allows_open"); n != 2502 {
		t.Errorf("%d notes, want 2502", n)
	}
	if ids, err := s.Lapses(t.Context(), 5); err != nil || !slices.Equal(ids, []spend.ID{left.ID}) {
		t.Errorf("%v lapse, %v", ids, err)
	}
	if n := count(t, s, "allows_open"); n != 1 {
		t.Errorf("%d notes are left, want 1", n)
	}
	if _, err := connect(t, url).Exec(t.Context(), "SELECT close_day('"+day+"')"); err == nil || !strings.Contains(err.Error(), "nor voided") {
		t.Errorf("the day closes: %v", err)
	}
}

// TestPaymentsInOneOrder: commits lock payments in one order, and approvals, so that none waits for another that waits for it.
func TestPaymentsInOneOrder(t *testing.T) {
	for round := range 3 {
		url := migrated(t)
		s, other := open(t, url, true), open(t, url, false)
		stores := []*Store{s, other}
		fences := []spend.Fence{newFence(t, s), newFence(t, other)}
		payments := []*spend.Payment{{Key: fmt.Sprint("a", round)}, {Key: fmt.Sprint("b", round)}}
		asked := make([]*spend.Check, 2)
		for i, p := range payments {
			c := minimal(fences[0])
			c.Decision.Effect, c.Decision.RuleID, c.Decision.RuleDescription = spend.Escalate, "people", "people"
			c.Approval = &spend.ApprovalRequest{Required: 1, Expires: time.Hour, UseWithin: time.Hour}
			c.Approval.ActionHash = spend.ActionHash(c)
			asked[i] = ofPayment(p, c, time.Now())
			must.Do(t, audittest.Record(t.Context(), s, c))
			result, err := s.Decide(t.Context(), audit.ApprovalDecisionRequest{
				ApprovalID: c.ID, Approves: true, ActionHash: c.Approval.ActionHash, By: audit.Actor{KeyID: "k", Principal: "bob"},
			})
			if err != nil || result != audit.DecisionRecorded {
				t.Fatal(result, err)
			}
		}
		commits := make([][]*spend.Check, 2)
		for i := range commits {
			for k := range 2 { // approvals and payments in opposite orders
				c := minimal(fences[i])
				c.Action, c.ActionType = asked[(i+k)%2].Action, asked[(i+k)%2].ActionType
				if k == 0 {
					c.Action.ApprovalID = asked[i].ID
				} else {
					c.Withdrawn = []spend.ID{asked[1-i].ID}
				}
				if round%3 > 0 { // else only the approvals meet
					p := *payments[(i+k)%2]
					ofPayment(&p, c, time.Now())
				}
				commits[i] = append(commits[i], c)
			}
		}
		first := "SELECT FROM payments ORDER BY payment_hash LIMIT 1 FOR UPDATE"
		if round%3 == 0 {
			first = "SELECT FROM approvals ORDER BY id LIMIT 1 FOR UPDATE"
		}
		hold, err := connect(t, url).Begin(t.Context()) // until both wait for the first, and hold nothing
		must.Do(t, err)
		must.Get(hold.Exec(t.Context(), first))(t)
		errs := make([]error, 2)
		var both sync.WaitGroup
		for i := range commits {
			both.Go(func() { errs[i] = audittest.Record(t.Context(), stores[i], commits[i]...) })
		}
		time.Sleep(300 * time.Millisecond)
		must.Do(t, hold.Rollback(t.Context()))
		both.Wait()
		recorded := 0
		for _, err := range errs {
			_, moved := errors.AsType[*audit.PaymentsMovedError](err)
			_, refused := errors.AsType[*audit.ApprovalsError](err)
			if err == nil {
				recorded++
			} else if !moved && !refused {
				t.Errorf("round %d: %v", round, err)
			}
		}
		if recorded != 1 {
			t.Errorf("round %d: %d are recorded, %v", round, recorded, errs)
		}
	}
}

// TestDenialBesideQuestion: a denial that is decided while a commit asks people again withdraws that question, too.
func TestDenialBesideQuestion(t *testing.T) {
	url := migrated(t)
	s := open(t, url, true)
	f := newFence(t, s)
	p := &spend.Payment{Key: "k"}
	asks := func() *spend.Check {
		c := minimal(f)
		c.Decision.Effect, c.Decision.RuleID, c.Decision.RuleDescription = spend.Escalate, "people", "people"
		c.Approval = &spend.ApprovalRequest{Required: 1, Expires: time.Hour, UseWithin: time.Hour, ActionHash: spend.ActionHash(c)}
		return ofPayment(p, c, time.Now())
	}
	decide := func(c *spend.Check, approves bool) error {
		result, err := s.Decide(t.Context(), audit.ApprovalDecisionRequest{
			ApprovalID: c.ID, Approves: approves, ActionHash: c.Approval.ActionHash, By: audit.Actor{KeyID: "k", Principal: "bob"},
		})
		if result != audit.DecisionRecorded {
			return fmt.Errorf("%s, %w", result, err)
		}
		return err
	}
	first := asks()
	must.Do(t, audittest.Record(t.Context(), s, first))
	must.Do(t, decide(first, true))
	second := asks()
	second.Action.ApprovalID = first.ID
	hold := must.Get(connect(t, url).Begin(t.Context()))(t)
	must.Get(hold.Exec(t.Context(), "SELECT FROM approvals FOR UPDATE"))(t)
	errs := make(chan error, 2)
	for waiting, do := range []func() error{
		func() error { return audittest.Record(t.Context(), s, second) },
		func() error { return decide(first, false) },
	} {
		go func() { errs <- do() }()
		waitFor(t, url, "the lock", fmt.Sprintf(
			"SELECT count(*) > %d FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'", waiting))
	}
	must.Do(t, hold.Rollback(t.Context()))
	must.Do(t, errors.Join(<-errs, <-errs))
	if open, err := s.PaymentApprovals(t.Context(), []spend.Hash{p.Hash()}); err != nil || len(open) > 0 {
		t.Errorf("%d questions are left, %v", len(open), err)
	}
}

// What commits lock is sorted, so that two commits do not deadlock.
func TestPaymentsAreSorted(t *testing.T) {
	var checks []*spend.Check
	var redemptions []*spend.Outcome
	for i := range 20 {
		c := minimal(spend.Fence{})
		c.Payments = []spend.PaymentChange{{To: spend.Payment{Key: fmt.Sprint(i)}}}
		checks = append(checks, c)
		redemptions = append(redemptions, &spend.Outcome{Status: spend.Redeemed, CheckID: c.ID})
	}
	slices.Reverse(redemptions)
	e := paymentExtraOf(checks, redemptions)
	if len(e.changes) != 20 || !slices.IsSortedFunc(e.changes, func(a, b paymentChange) int { return bytes.Compare(a.hash[:], b.hash[:]) }) {
		t.Errorf("%d changes, not sorted", len(e.changes))
	}
	if len(e.redeemed) != 20 || !slices.IsSortedFunc(e.redeemed, func(a, b *spend.Outcome) int { return a.CheckID.Compare(b.CheckID) }) {
		t.Errorf("%d redemptions, not sorted", len(e.redeemed))
	}
}
