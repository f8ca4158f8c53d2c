package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath"
)

// judgePayments checks S84 and G16 against the record, in the order of the commits, and then what callers were told: only the
// nonce of a recorded redemption proceeds.
func (f *simulation) judgePayments(fail func(string, ...any)) {
	j := payments{
		fail: fail, of: make(map[string]*payment), courses: make(map[spend.ID]spend.Course), checks: make(map[spend.ID]*spend.Check),
		gone: make(map[spend.ID]bool),
	}
	for _, e := range f.record.all {
		switch {
		case e.change != nil && e.change.Kind == audit.PaymentsRemoved:
			j.remove(e.change)
		case e.check != nil && e.check.Payment != nil:
			j.check(e.check)
		case e.outcome != nil && j.checks[e.outcome.CheckID] != nil:
			j.step(e.outcome, e.at)
		}
	}
	j.judgeEnd()
	j.judgeCounter(f.record)
	page, err := f.store.Events(context.Background(), audit.EventQuery{Types: []audit.EventType{audit.EventPaymentPaidTwice}, Limit: 1000})
	if err != nil || len(page.Events) != j.twice {
		fail("S84: %d events of %d payments that were paid twice, %v", len(page.Events), j.twice, err)
	}
	for _, p := range f.paid {
		switch {
		case p.lost:
		case p.err != nil && !allowedError(p.err) && !f.differs(p):
			fail("S84: a payment failed with %v", p.err)
		case p.err == nil && p.answer.Payment.Proceed:
			id := p.answer.Payment.Redemption.ID
			o := f.record.redeemed[id]
			if o == nil || o.CheckID != p.answer.Check.ID || o.Replay != spend.NonceHash(f.payer.key.ID.Text(spend.PrefixKey), p.nonce) ||
				again(f.record.byID[o.CheckID]) != p.action {
				fail("G16: %s proceeds by %s; recorded is %+v", p.nonce, id.Text(spend.PrefixRedemption), o)
			}
		}
	}
}

// differs reports whether a request was refused since a recorded check of its payment has another action.
func (f *simulation) differs(p *paid) bool {
	refused, ok := errors.AsType[*hotpath.PaymentDiffersError](p.err)
	if !ok {
		return false
	}
	c := f.record.byID[refused.Check]
	return c != nil && c.Payment.Key == p.action.Counterparty && again(c) != p.action
}

// payments are what the record says of all payments.
type payments struct {
	fail    func(string, ...any)
	of      map[string]*payment // by key
	checks  map[spend.ID]*spend.Check
	courses map[spend.ID]spend.Course
	gone    map[spend.ID]bool // checks of payments that were removed
	twice   int               // reports of a second executed check
}

// payment is what the record says of a payment since it began.
type payment struct {
	version    int64
	attempt    int
	round      int
	current    *spend.Check
	executed   []execution     // by their first reports
	executions map[string]bool // ever given out
	nonces     map[spend.Hash]bool
	last       time.Time
}

// execution is a check that was executed.
type execution struct {
	check *spend.Check
	at    time.Time // of the first report that says so, again after one that says that it was not
	back  bool      // the last report says that it was not
}

// of returns the executed checks of a round.
func (p *payment) of(round int) (all []execution) {
	for _, e := range p.executed {
		if e.check.Payment.Round == round && !e.back {
			all = append(all, e)
		}
	}
	return all
}

func (j *payments) payment(key string, version int64) *payment {
	p := j.of[key]
	if p == nil {
		p = &payment{executions: make(map[string]bool), nonces: make(map[spend.Hash]bool)}
		j.of[key] = p
	}
	if p.version++; version != p.version {
		j.fail("G16: version %d of %q is recorded as %d", p.version, key, version)
	}
	return p
}

// free reports whether nothing of the payment's round was carried out, or can be, or the time of the round is over.
func (j *payments) free(p *payment, at time.Time) bool {
	if p.current == nil {
		return true
	}
	if executed := p.of(p.round); len(executed) > 0 {
		return p.current.Payment.Key == repeated && !at.Before(executed[0].at.Add(repeatedHours*time.Hour))
	}
	course := j.courses[p.current.ID]
	return p.current.Decision.Effect != spend.Allow || course.Last().Frees()
}

func (j *payments) check(c *spend.Check) {
	p := j.payment(c.Payment.Key, c.Payment.Version)
	if !j.free(p, c.Timestamp()) {
		j.fail("S84: %s comes while %s is current", c.ID.Text("chk_"), p.current.ID.Text("chk_"))
	}
	if len(p.of(p.round)) > 0 {
		p.round++
	}
	if c.Action.ApprovalID.IsZero() {
		p.attempt++
	}
	if c.Payment.Attempt != p.attempt || c.Payment.Round != p.round {
		j.fail("S84: attempt %d of %q, round %d, is recorded as %d, round %d",
			p.attempt, c.Payment.Key, p.round, c.Payment.Attempt, c.Payment.Round)
	}
	p.current, p.last, j.checks[c.ID] = c, c.Timestamp(), c
}

// step adds a step, which is of no payment if that was removed.
func (j *payments) step(o *spend.Outcome, at time.Time) {
	c, course := j.checks[o.CheckID], j.courses[o.CheckID]
	j.courses[o.CheckID] = course.With(o)
	removed := j.gone[c.ID]
	if o.Status == spend.InDoubt || removed {
		if removed && len(o.Payment.Of) > 0 {
			j.fail("S84: %s of %s changes a payment that was removed", o.Status, c.ID.Text("chk_"))
		}
		return
	}
	p := j.payment(c.Payment.Key, o.Payment.Of[0].Version)
	p.last = at
	late := at.After(c.Timestamp().Add(lapseAfter + time.Millisecond))
	why := ""
	switch o.Status {
	case spend.Redeemed:
		open := course.Redeemed == nil && course.Reports == nil && c.Decision.Effect == spend.Allow
		if !open || late || p.current != c || len(p.of(p.round)) > 0 {
			why = "it is not open"
		}
		if p.executions[o.Payment.ExecutionID] {
			why = "its execution_id is that of an earlier attempt"
		}
		p.executions[o.Payment.ExecutionID] = true
	case spend.TakenOver:
		if p.current != c || course.Redeemed == nil || course.Reports != nil || len(p.of(p.round)) > 0 {
			why = "it is not redeemed"
		}
	default:
		why = j.report(p, o, &course, late)
	}
	if !o.Status.Known() && !o.Replay.IsZero() {
		if p.nonces[o.Replay] {
			why = "its nonce was used before"
		}
		p.nonces[o.Replay] = true
	}
	if why != "" {
		j.fail("S84: %s of %s of %q is recorded: %s", o.Status, c.ID.Text("chk_"), c.Payment.Key, why)
	}
}

// report adds a report, and says why it may not be recorded.
func (j *payments) report(p *payment, o *spend.Outcome, course *spend.Course, late bool) string {
	has := func(flag spend.Flag) bool { return slices.Contains(o.Payment.Flags, flag) }
	c := j.checks[o.CheckID]
	known := slices.IndexFunc(p.executed, func(e execution) bool { return e.check == c })
	others := slices.DeleteFunc(p.of(c.Payment.Round), func(e execution) bool { return e.check == c })
	was := known >= 0 && !p.executed[known].back
	twice := o.Status == spend.Executed && !was && len(others) > 0
	switch {
	case o.Status == spend.Executed && known < 0:
		p.executed = append(p.executed, execution{check: c, at: o.ID.Time()})
	case o.Status == spend.Executed && !was:
		p.executed[known] = execution{check: c, at: o.ID.Time()}
	case o.Status != spend.Executed && was:
		p.executed[known].back = true
	}
	open := course.Redeemed == nil && course.Reports == nil
	switch {
	case has(spend.FlagLapsed) && (!open || !late || !o.Frees() || o.KeyID != spend.SystemKey):
		return "it did not lapse, or gives nothing back"
	case has(spend.FlagReplaced) && (!open || p.current != c || !o.Frees() || o.KeyID != spend.SystemKey):
		return "it was not open, or gives nothing back"
	case has(spend.FlagSuperseded) && (!open || len(others) == 0):
		return "no other check is executed"
	case has(spend.FlagPaidTwice) != twice:
		return fmt.Sprintf("executed are %d others; its flags are %v", len(others), o.Payment.Flags)
	case twice:
		j.twice++
	}
	return ""
}

// remove forgets payments that ended long enough ago.
func (j *payments) remove(ch *audit.Change) {
	removal, err := audit.ParsePaymentsRemoval(ch.Details)
	if err != nil {
		j.fail("S84: %v", err)
	}
	for key, p := range j.of {
		version, gone := removal.Versions[p.current.PaymentHash()]
		if !gone {
			continue
		}
		if version != p.version || !j.free(p, ch.At) && len(p.executed) == 0 || !p.last.Before(removal.Before) ||
			removal.Before.After(ch.At.Add(-spend.PaymentsKept)) {
			j.fail("S84: %q is removed at version %d of %d, last changed at %s", key, version, p.version, p.last)
		}
		delete(j.of, key)
		for _, c := range j.checks {
			if c.Payment.Key == key {
				j.gone[c.ID] = true
			}
		}
	}
}

// judgeEnd checks that nothing is open any more.
func (j *payments) judgeEnd() {
	for key, p := range j.of {
		course := j.courses[p.current.ID]
		if p.current.Decision.Effect == spend.Allow && course.Next() == 1 {
			j.fail("S84: %s of %q does not lapse", p.current.ID.Text("chk_"), key)
		}
	}
}

// judgeCounter checks that the budget holds what was not given back.
func (j *payments) judgeCounter(r *record) {
	var want spend.Usage
	for id, c := range j.checks {
		course := j.courses[id]
		if c.Decision.Effect != spend.Allow || course.Last().Frees() {
			continue
		}
		want.Used, want.Count = want.Used.Plus(course.Last().Moved(c).Total()), want.Count+1
	}
	name := fmt.Sprint(paying+" all", "[]", int64(0))
	if r.counters[name] != want {
		j.fail("G12: the budget of payments has %+v, not given back are %+v", r.counters[name], want)
	}
	delete(r.counters, name)
}
