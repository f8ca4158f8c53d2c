package detach

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/audittest"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

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

// ofPayment makes a check one of the payment, which its commit changes.
func ofPayment(p *spend.Payment, c *spend.Check, at time.Time) *spend.Check {
	seen := p.Version
	c.ID = spend.NewID(at)
	c.Namespace = p.Namespace
	*p, c.Payment = p.WithCheck(c, 0, spend.Hash{})
	c.Payments = append(c.Payments, spend.PaymentChange{Seen: seen, To: *p})
	return c
}

// redemption is the first step of a check, which may be redeemed for a minute.
func redemption(of *spend.Check) *spend.Outcome {
	return &spend.Outcome{
		ID: spend.NewOutcomeID(time.Now()), CheckID: of.ID, Step: 1, Status: spend.Redeemed, Release: spend.ReleaseNone, KeyID: "key_1",
		RequestID: "req_1", Fence: of.Fence, Check: of, RedeemBy: time.Now().Add(time.Minute),
	}
}
