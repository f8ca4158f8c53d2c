package verify_test

import (
	"slices"
	"strings"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// payer records a payment as nodes do, and otherwise where a test says so.
type payer struct {
	*redemptionTrail
	spend.Payment
	courses map[spend.ID]*spend.Course
	asked   *spend.Check // people, the last time
}

func (tr *redemptionTrail) newPayer(key string) *payer {
	return &payer{
		redemptionTrail: tr, Payment: spend.Payment{Namespace: "SHOP", Key: key + spend.NewID(time.Now()).Text("")},
		courses: make(map[spend.ID]*spend.Course),
	}
}

// asks makes a check of the payment, of that long ago.
func (p *payer) asks(effect spend.Effect, ago time.Duration) *spend.Check {
	c := checksOfAllSorts(p.fence)[2]
	c.ID, c.Decision.Effect, c.Action.PolicyID, c.Decision.PolicyVersion = spend.NewID(time.Now().Add(-ago)), effect, "paid", 1
	c.KeyID, c.Principal, c.Owner, c.Pass, c.Namespace = "key_of_shop", "shop", "ann", spend.Pass{}, p.Namespace
	seen := p.Version
	p.Payment, c.Payment = p.WithCheck(c, 1, spend.Hash{})
	c.Payments = []spend.PaymentChange{{Seen: seen, To: p.Payment}}
	p.courses[c.ID] = new(spend.Course)
	return c
}

// becomes makes the next step of a check: "status nonce", and what is in the flags.
func (p *payer) becomes(c *spend.Check, step string, ago time.Duration, flags ...spend.Flag) *spend.Outcome {
	course := p.courses[c.ID]
	status, nonce, _ := strings.Cut(step, " ")
	o := &spend.Outcome{
		ID: spend.NewOutcomeID(time.Now().Add(-ago)), CheckID: c.ID, Step: course.Next(), Status: spend.Status(status),
		Release: spend.ReleaseNone, KeyID: "key_of_shop", Principal: "shop", RequestID: "req_1", Fence: p.fence, Check: c,
		RedeemBy: time.Now().Add(time.Hour),
		Follows:  course.Last(),
	}
	o.Payment.Flags = flags
	switch o.Status {
	case spend.Redeemed, spend.TakenOver:
		o.Replay = spend.NonceHash("key_of_shop", nonce)
	case spend.Executed, spend.Failed, spend.Voided:
		o.Number = len(course.Reports) + 1
		if o.Status == spend.Executed {
			o.Amount = c.Action.Amount
		}
		o.SetRelease(o.Status != spend.Executed || o.Number > 1)
	}
	if slices.Contains(flags, spend.FlagLapsed) || slices.Contains(flags, spend.FlagReplaced) {
		o.KeyID, o.Principal, o.RequestID = spend.SystemKey, "", ""
	}
	if o.Status != spend.InDoubt {
		seen := p.Version
		if p.PaidTwice(o, c.Payment.Round) {
			o.Payment.Flags = append(o.Payment.Flags, spend.FlagPaidTwice)
		}
		var of spend.PaymentStep
		p.Payment, of = p.WithStep(o, c.Payment.Round, nonce != "")
		o.Payment.Of, o.Payments = []spend.PaymentStep{of}, []spend.PaymentChange{{Seen: seen, To: p.Payment}}
	}
	*course = course.With(o)
	return o
}

// commits records a check with steps in one commit, of which the last makes the payment's version.
func (p *payer) commits(c *spend.Check, with ...*spend.Outcome) *spend.Check {
	p.t.Helper()
	seen := int64(1 << 62)
	for _, change := range c.Payments {
		seen = min(seen, change.Seen)
	}
	for _, o := range with {
		for _, change := range o.Payments {
			seen = min(seen, change.Seen)
		}
		o.Payments = nil
	}
	c.Payments = []spend.PaymentChange{{Seen: seen, To: p.Payment}}
	must.Do(p.t, p.writer.Append(c, with...).Final())
	return c
}

// records records steps of a check, one after the other.
func (p *payer) records(c *spend.Check, steps ...string) (last *spend.Outcome) {
	p.t.Helper()
	for _, step := range steps {
		last = p.becomes(c, step, 0)
		must.Do(p.t, p.writer.AppendOutcome(last).Final())
	}
	return last
}

// allowed records an allowed check with steps.
func (p *payer) allowed(steps ...string) *spend.Check {
	p.t.Helper()
	c := p.commits(p.asks(spend.Allow, 0))
	p.records(c, steps...)
	return c
}

func paymentOf(kind string, p *payer) string {
	hash := p.Hash()
	return kind + " payment " + spend.ID(hash[:16]).Text("")
}

// under records a step of a check under the executor's payment and the asker's.
func (p *payer) under(own *payer, c *spend.Check, status spend.Status) *spend.Outcome {
	p.t.Helper()
	round := own.Round
	if of := p.courses[c.ID].Redeemed; of != nil {
		round = of.Payment.Step(own.Namespace, own.Key).Round
	}
	o, seen := p.becomes(c, string(status), 0), own.Version
	var of spend.PaymentStep
	own.Payment, of = own.WithStep(o, round, false)
	o.Payment.Of = append([]spend.PaymentStep{of}, o.Payment.Of...)
	o.Payments = append(o.Payments, spend.PaymentChange{Seen: seen, To: own.Payment})
	must.Do(p.t, p.writer.AppendOutcome(o).Final())
	return o
}

// agesAgo is long before payments are removed.
const agesAgo = 80 * 24 * time.Hour

// removal is the statement that removes the payment.
func (p *payer) removal() string {
	before := time.Now().Add(-spend.PaymentsKept - time.Hour)
	wanted := audit.RemovalOf([]*spend.Payment{&p.Payment}, before)
	return "UPDATE payments SET changed_at = '2020-01-01' WHERE payment_key = '" + p.Key + "'; SELECT remove_payments('" + wanted.Details() +
		"', ROW('system', NULL, 'spendgate', NULL, NULL, NULL)::actor)"
}

// leaves removes the payment.
func (p *payer) leaves() {
	p.t.Helper()
	p.exec("%s", p.removal())
	p.Payment = spend.Payment{Namespace: p.Namespace, Key: p.Key}
}

// corrects records a report of a check of a removed payment.
func (p *payer) corrects(c *spend.Check, status string) *spend.Outcome {
	p.t.Helper()
	present := p.Payment
	o := p.becomes(c, status, 0)
	p.Payment, o.Payments, o.Payment = present, nil, spend.OutcomePayment{}
	must.Do(p.t, p.writer.AppendOutcome(o).Final())
	return o
}

// ended records a payment that was carried out ages ago.
func (p *payer) ended(steps ...string) *spend.Check {
	p.t.Helper()
	c := p.asks(spend.Allow, agesAgo)
	p.commits(c, p.becomes(c, "redeemed n1", agesAgo))
	for _, step := range steps {
		must.Do(p.t, p.writer.AppendOutcome(p.becomes(c, step, agesAgo)).Final())
	}
	return c
}

// approves records an approved request to people about the payment.
func (p *payer) approves() *spend.Check {
	p.t.Helper()
	people := &approvalTrail{trail: p.trail, fence: p.fence}
	asked := p.asks(spend.Escalate, 0)
	asked.Decision.RuleID = "r"
	asked.Approval = &spend.ApprovalRequest{
		Required: 1, Expires: time.Hour, UseWithin: time.Hour, ActionHash: spend.ActionHash(asked), Rules: []spend.EscalatedRule{{RuleID: "r"}},
	}
	p.commits(asked)
	people.decide(asked, "bob", true)
	p.asked = asked
	return asked
}

// using is an allowed check that uses the approval.
func (p *payer) using(asked *spend.Check) *spend.Check {
	before := p.Payment
	c := p.asks(spend.Allow, 0)
	c.Action.ApprovalID = asked.ID
	p.Payment, c.Payment = before.WithCheck(c, 1, spend.Hash{})
	return c
}

// recordedPayments are payments that went all ways that nodes let them go.
func recordedPayments(tr *redemptionTrail) (all []*payer) {
	begin := func(key string) *payer {
		all = append(all, tr.newPayer(key))
		return all[len(all)-1]
	}
	p := begin("redeemed, taken over and executed")
	p.allowed("redeemed n1", "in_doubt", "taken_over n2", "taken_over n3", "executed")
	p = begin("given back, and asked for again")
	p.allowed("redeemed n1", "failed")
	p.allowed("voided")
	p.commits(p.asks(spend.Block, 0))
	p.allowed("redeemed n2", "executed", "failed")
	c := p.asks(spend.Allow, 0)
	p.commits(c, p.becomes(c, "redeemed n4", 0))
	p = begin("lapsed and replaced")
	c = p.commits(p.asks(spend.Allow, 30*time.Minute))
	must.Do(tr.t, tr.writer.AppendOutcome(p.becomes(c, "voided", 0, spend.FlagLapsed)).Final())
	open := p.allowed()
	voided := p.becomes(open, "voided", 0, spend.FlagReplaced)
	c = p.asks(spend.Allow, 0)
	p.commits(c, voided, p.becomes(c, "redeemed n1", 0))
	p = begin("a round after a round")
	c = p.asks(spend.Allow, 3*time.Hour)
	p.commits(c, p.becomes(c, "redeemed n1", 3*time.Hour))
	must.Do(tr.t, tr.writer.AppendOutcome(p.becomes(c, "executed", 2*time.Hour)).Final())
	p.allowed("redeemed n2", "executed")
	p = begin("executed again in a round before")
	c = p.asks(spend.Allow, 6*time.Hour)
	p.commits(c, p.becomes(c, "redeemed n1", 6*time.Hour))
	for i, status := range []string{"executed", "failed", "executed"} {
		must.Do(tr.t, tr.writer.AppendOutcome(p.becomes(c, status, 5*time.Hour-time.Duration(i)*time.Hour)).Final())
	}
	p.allowed("redeemed n2", "executed")
	p.records(c, "failed", "executed")
	p = begin("paid twice")
	c = p.allowed("redeemed n1", "failed")
	p.allowed("redeemed n2", "executed")
	p.records(c, "executed")
	p = begin("executed without a redemption")
	c = p.commits(p.asks(spend.Allow, 0))
	must.Do(tr.t, tr.writer.AppendOutcome(p.becomes(c, "executed", 0, spend.FlagUnredeemed)).Final())
	p = begin("escalated, executed nevertheless, and corrected")
	c = p.commits(p.asks(spend.Escalate, 0))
	for _, status := range []string{"executed", "voided"} {
		o := p.becomes(c, status, 0)
		o.MayRelease, o.Release = true, spend.ReleaseNone
		if status == "executed" {
			o.Payment.Flags = append(o.Payment.Flags, spend.FlagUnredeemed)
		}
		must.Do(tr.t, tr.writer.AppendOutcome(o).Final())
	}
	p.allowed("voided")
	p = begin("executed by who held it before, as another principal")
	c = p.allowed("redeemed n1")
	taken := p.becomes(c, "taken_over n2", 0)
	taken.KeyID = "key_2"
	must.Do(tr.t, tr.writer.AppendOutcome(taken).Final())
	former := p.becomes(c, "executed", 0)
	former.Principal = "renamed"
	must.Do(tr.t, tr.writer.AppendOutcome(former).Final())
	p = begin("lapsed early, since it is from before a restore")
	c = p.allowed()
	f, _, err := tr.store.CreateFreeze(tr.t.Context(), audit.Restorer(), audit.RestoreFreeze())
	must.Do(tr.t, err)
	tr.thaw(f.ID)
	p.fence.Stops = tr.lastStop()
	must.Do(tr.t, tr.writer.AppendOutcome(p.becomes(c, "voided", 0, spend.FlagLapsed)).Final())
	p, own := begin("under two payments"), begin("of an executor")
	own.Namespace = "PSP"
	for range 2 {
		c = p.allowed()
		p.under(own, c, spend.Redeemed)
		p.under(own, c, spend.Voided)
	}
	c = p.allowed()
	p.under(own, c, spend.Redeemed)
	p.under(own, c, spend.Executed)
	p = begin("removed, and begun anew")
	c = p.ended("failed")
	p.leaves()
	p.corrects(c, "executed")
	p.allowed("redeemed n1", "executed")
	p.corrects(c, "failed")
	p = begin("removed")
	p.ended("executed")
	p.leaves()
	all = all[:len(all)-1] // it has no row
	p = begin("approved, used and blocked, and used")
	c = p.approves()
	used := p.using(c)
	p.commits(used, p.becomes(used, "redeemed n1", 0))
	p.records(used, "executed")
	p = begin("approved, and replaced")
	c = p.approves()
	replacing := p.asks(spend.Allow, 0)
	replacing.Withdrawn = []spend.ID{c.ID}
	p.commits(replacing)
	return all
}
