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

// stepOf changes the payment by the step's commit.
func stepOf(p *spend.Payment, o *spend.Outcome, at time.Time) *spend.Outcome {
	seen := p.Version
	o.ID = spend.NewOutcomeID(at)
	after, said := p.WithStep(o, p.Round, false)
	*p = after
	o.Payment.Of = append(o.Payment.Of, said)
	o.Payments = append(o.Payments, spend.PaymentChange{Seen: seen, To: after})
	return o
}

// TestKeptChecks: what a payment shows of an archived day stays, with the references of its reports.
func TestKeptChecks(t *testing.T) {
	l := newLongChain(t)
	l.fence, l.writer = newFence(t, l.Store), audittest.NewWriter(t, l.Store)
	commit := func(c *spend.Check, at time.Time) *spend.Check {
		c.Action.PolicyID = "p"
		if c.Payment == nil {
			c.ID = spend.NewID(at)
		}
		must.Do(t, l.writer.Append(c).Final())
		return c
	}
	report := func(o *spend.Outcome) {
		o.Fence = l.fence
		must.Do(t, l.writer.AppendOutcome(o).Final())
	}
	p, own := &spend.Payment{Key: "order"}, &spend.Payment{Namespace: "executor", Key: "order"}
	at := l.first.Add(10 * time.Hour)
	blocked := minimal(l.fence)
	blocked.Decision.Effect, blocked.Decision.RuleID = spend.Block, "cap"
	commit(ofPayment(p, blocked, at), at)
	paid := commit(ofPayment(p, minimal(l.fence), at.Add(time.Second)), at)
	carried, plain := commit(minimal(l.fence), at.Add(2*time.Second)), l.checks[len(l.checks)-1]
	report(stepOf(p, redemption(paid), at.Add(3*time.Second)))
	report(stepOf(own, redemption(carried), at.Add(4*time.Second)))
	for i, c := range []*spend.Check{paid, carried} {
		o := &spend.Outcome{
			CheckID: c.ID, Check: c, Step: 2, Number: 1, Status: spend.Executed, Amount: c.Action.Amount, Release: spend.ReleaseNone,
			Reference: fmt.Sprint("psp-", i), Note: "seen", KeyID: "key_1", RequestID: "req_1",
		}
		report(stepOf([]*spend.Payment{p, own}[i], o, at.Add(5*time.Second)))
	}
	l.commit(t, time.Now())
	if _, found, err := l.fold(t, nil); err != nil || len(found) > 0 {
		t.Fatalf("%v, %v", found, err)
	}
	if n := count(t, l.Store, "checks WHERE check_id = '"+paid.ID.Text("")+"'"); n != 0 {
		t.Fatal("the day has not left")
	}
	got, err := l.Checks(t.Context(), []spend.ID{blocked.ID, paid.ID, l.recent.ID, carried.ID, plain.ID})
	var ids []spend.ID
	for _, c := range got {
		ids = append(ids, c.ID)
	}
	if want := []spend.ID{l.recent.ID, blocked.ID, paid.ID, carried.ID}; err != nil || len(ids) != len(want) ||
		slices.ContainsFunc(want, func(id spend.ID) bool { return !slices.Contains(ids, id) }) {
		t.Errorf("%v are left, %v, want %v", ids, err, want)
	}
	for payment, want := range map[*spend.Payment]*spend.Check{p: paid, own: carried} {
		page, err := l.ListChecks(t.Context(), audit.CheckQuery{Payment: payment.Hash(), Limit: 5, Examine: 10})
		if err != nil || len(page.Checks) == 0 || page.Checks[0].ID != want.ID {
			t.Errorf("listed: %+v, %v", page, err)
		}
	}
	steps, err := l.Outcomes(t.Context(), []spend.ID{paid.ID, carried.ID, l.reported.CheckID})
	texts := make(map[string]int)
	for _, o := range steps {
		texts[o.Reference+o.Note]++
	}
	if err != nil || len(steps) != 5 || texts["psp-0"] != 1 || texts["psp-1"] != 1 || texts[""] != 3 {
		t.Errorf("the texts are %v, %v", texts, err)
	}
	if summary, found := l.verified(t, l.dir); !summary.Clean() {
		t.Errorf("%+v: %q", summary, found)
	}
	conn := connect(t, l.url)
	for _, tampering := range []string{"UPDATE kept_checks SET message = 'x'", "DELETE FROM kept_checks", "TRUNCATE kept_checks"} {
		if _, err := conn.Exec(t.Context(), tampering); err == nil || !strings.Contains(err.Error(), "SG004") {
			t.Errorf("%s: %v", tampering, err)
		}
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
