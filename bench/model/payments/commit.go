package payments

import "cmp"

// Commits: all rows of a request, or none. A commit is refused if a payment that it changes has another
// version than was read, or if one of its steps has another number.

// requestOf takes the next step of a request.
func (x *explorer) requestOf(s *state, i int) {
	q := &s.requests[i]
	switch {
	case q.kind == noRequest:
	case q.pc == sent:
		x.read(s, i)
	case q.pc == decided:
		x.commit(s, i)
	default:
		x.deliver(s, i)
	}
}

// answer ends a request. Its caller waits no longer, or gets proceed for a check.
func (x *explorer) answer(t *state, i int, proceed id) {
	q := &t.requests[i]
	if proceed != 0 && q.nonce != 0 {
		x.observeProceed(t, proceed, q.nonce)
	}
	switch {
	case !q.heard:
		*q = request{}
	case proceed != 0 && q.nonce != 0:
		q.pc, q.plan, q.fresh, q.seen, q.check = answered, plan{}, 0, 0, proceed
	default:
		c := &t.callers[q.caller-1]
		*c = caller{calls: c.calls}
		*q = request{}
	}
}

// uncompared is the mutation that leaves out the comparison of versions for an operation.
func (o operation) uncompared() Mutation { return CheckUncompared << (o - insertCheck) }

// changes returns the payments that a request's commit changes.
func (x *explorer) changes(s *state, q *request) set {
	if q.plan.op == insertCheck {
		return 1 << askers
	}
	of := s.store.check(q.plan.check).of
	if q.kind == redeeming && x.Callers[q.caller-1].Own {
		of |= 1 << executors
	}
	return of
}

// commit records what a request has decided, if nothing changed since it read.
func (x *explorer) commit(s *state, i int) {
	x.loseCommit(s, i)
	t := *s
	q, who := &t.requests[i], s.requests[i].caller
	changes, p := x.changes(&t, q), q.plan
	compared := changes
	if x.is(p.op.uncompared()) {
		compared = 0
	}
	if x.is(OwnUncompared) {
		compared &^= 1 << executors
	}
	fresh := q.fresh
	if x.is(LifeUncompared) && q.seen == t.store.rows[askers].version {
		fresh |= 1 << askers
	}
	if compared&^fresh != 0 || !x.proved(&t, p) {
		if q.pc, q.plan, q.fresh, q.seen = sent, (plan{}), 0, 0; q.txn || q.caller == 0 {
			*q = request{}
		}
		x.emit(&t, who, "commits: refused")
		return
	}
	made, ok := x.record(&t, q)
	if !ok {
		x.cut = true
		return
	}
	for n := range t.requests {
		t.requests[n].fresh &^= changes
	}
	x.count(&t, changes, p)
	switch {
	case q.caller == 0:
		*q = request{}
	case p.op == insertCheck && !p.redeems, p.op == report, p.op == doubt:
		x.answer(&t, i, 0)
	default:
		x.answer(&t, i, made)
	}
	x.emit(&t, who, "commits: "+p.op.String())
}

func (o operation) String() string {
	return [...]string{"nothing", "the check", "the redemption", "the take-over", "the report", "the lapse", "the doubt"}[o]
}

// loseCommit loses the connection in COMMIT: the node reads again, and the transaction may still come.
func (x *explorer) loseCommit(s *state, i int) {
	if s.faults.lostCommits == 0 || s.requests[i].txn || s.requests[i].caller == 0 {
		return
	}
	t := *s
	t.faults.lostCommits--
	q := &t.requests[i]
	if p := q.plan; x.is(LostCommitTrusted) && p.check != 0 {
		x.answer(&t, i, p.check)
		x.emitFault(&t, s.requests[i].caller, "loses the connection in COMMIT, and proceeds")
		return
	}
	late := *q
	late.heard, late.txn = false, true
	q.pc, q.plan, q.fresh, q.seen = sent, plan{}, 0, 0
	if x.send(&t, late) {
		x.emitFault(&t, s.requests[i].caller, "loses the connection in COMMIT")
	}
}

// proved reports whether what a commit compares beside versions is as it was: use_approvals, and the numbers
// of steps.
func (x *explorer) proved(t *state, p plan) bool {
	if p.uses != 0 && t.store.check(p.uses).approval != approved && !x.is(UseNotProved) {
		return false
	}
	if x.is(StepsNotUnique) {
		return true
	}
	if c := t.store.check(p.replaces); c != nil && c.steps != p.voidStep {
		return false
	}
	return p.op == insertCheck || t.store.check(p.check).steps == p.step
}

// record writes what a request has decided.
func (x *explorer) record(t *state, q *request) (made id, ok bool) {
	p := q.plan
	x.replace(t, p.replaces, p.op == report)
	if p.op == insertCheck {
		return x.recordCheck(t, q)
	}
	c := t.store.check(p.check)
	switch p.op {
	case redeem:
		x.redeem(t, q, p.check)
	case takeOver:
		x.takeOver(t, q, p.check)
	case lapse:
		x.observeLapse(t, c)
		c.outcome, c.released, c.steps = voided, true, c.steps+1
	case doubt:
		x.observeDoubt(t, c)
		c.doubt, c.steps = true, c.steps+1
		if q.caller == 0 {
			x.age(t, c.holder)
		}
	default:
		x.report(t, q, c)
	}
	return p.check, true
}

// replace voids an open check, or withdraws the approval of one that waits.
func (x *explorer) replace(t *state, i id, byReport bool) {
	c := t.store.check(i)
	switch {
	case c == nil, x.is(ReplaceKeepsOpen) && !byReport:
	case c.verdict == allowed:
		c.outcome, c.released, c.steps = voided, true, c.steps+1
	case c.approval == pending, c.approval == approved:
		c.approval = withdrawn
	}
}

func (x *explorer) recordCheck(t *state, q *request) (made id, ok bool) {
	r, p := &t.store.rows[askers], q.plan
	n := 0
	for n < maxChecks && t.store.checks[n].present() {
		n++
	}
	if n == maxChecks {
		return 0, false
	}
	made = id(n + 1)
	x.observeCheck(t, p.uses, x.Callers[q.caller-1].Action)
	if t.store.executedIn(askers) && r.over {
		r.round, r.over = r.round+1, false
	}
	c := &t.store.checks[n]
	*c = check{of: 1 << askers, action: x.Callers[q.caller-1].Action, round: r.round, verdict: p.verdict}
	if r.current = made; p.verdict == asks {
		c.approval = pending
		return made, true
	}
	if p.uses != 0 {
		t.store.check(p.uses).approval = used
	}
	if p.redeems {
		x.redeem(t, q, made)
	}
	return made, true
}

// redeem makes a request's nonce the holder of a check.
func (x *explorer) redeem(t *state, q *request, i id) {
	c := t.store.check(i)
	of := &x.Callers[q.caller-1]
	byID := q.kind == redeeming
	if byID && of.Own {
		c.of |= 1 << executors
		t.store.rows[executors].current = i
	}
	x.observeRedemption(t, q, i)
	c.exec = x.executionOf(t, c, i, byID && of.Own)
	x.observeExecution(t, c.exec)
	for p := range uint8(payments) {
		if r := &t.store.rows[p]; c.of.has(p) {
			r.nonces |= q.nonce.bit()
		}
	}
	c.first, c.holder, c.named, c.byID = q.nonce, q.nonce, c.named|q.nonce.bit(), byID
	c.steps++
}

// executionOf identifies the attempt that begins.
func (x *explorer) executionOf(t *state, c *check, i id, own bool) execution {
	payment, earlier := uint8(askers), t.store.rows[askers].settled
	switch {
	case own:
		payment, earlier = executors, t.store.rows[executors].settled
	case c.of == 0: // by the check's identifier
		payment, earlier = payments, uint8(i-1)
	}
	if x.is(ExecutionByAttempt) {
		earlier = uint8(i - 1)
	}
	if x.is(ExecutionByRedemption) && payment != payments {
		earlier = 0
		for n := range t.store.checks {
			if o := &t.store.checks[n]; o.of.has(payment) && o.holder != 0 && id(n+1) != i {
				earlier++
			}
		}
	}
	if x.is(ExecutionByRound) {
		earlier = c.round
	}
	if earlier >= maxAttempts {
		x.cut = true
		earlier = maxAttempts - 1
	}
	return execution(payment*maxAttempts + earlier + 1)
}

func (x *explorer) takeOver(t *state, q *request, i id) {
	c := t.store.check(i)
	x.observeTakeOver(t, q, c)
	if x.is(ExecutionAnew) {
		c.exec = x.executionOf(t, c, i, false)
	}
	t.store.rows[askers].nonces |= q.nonce.bit()
	c.holder, c.named, c.doubt, c.steps = q.nonce, c.named|q.nonce.bit(), false, c.steps+1
}

// report records an outcome. A round that is executed needs no approvals.
func (x *explorer) report(t *state, q *request, c *check) {
	p := q.plan
	x.observeReport(t, q, c)
	if p.outcome != voided && !c.settled {
		c.settled = true
		for n := range uint8(payments) {
			if c.of.has(n) {
				t.store.rows[n].settled++
			}
		}
	}
	c.outcome, c.released, c.steps, c.twice = p.outcome, p.released, c.steps+1, p.twice
	if p.outcome != executed || !c.of.has(askers) || c.round != t.store.rows[askers].round || x.is(ExecutedKeepsApprovals) {
		return
	}
	t.store.withdraw(0)
}

// withdraw withdraws the asker's unused approvals.
func (s *store) withdraw(but id) {
	for i := range s.checks {
		if c := &s.checks[i]; id(i+1) != but && (c.approval == pending || c.approval == approved) {
			c.approval = withdrawn
		}
	}
}

// age: the call that redeemed a check before it was in doubt by the clock is older than guards take.
func (x *explorer) age(t *state, n nonce) {
	for i := range x.Callers {
		if c := &t.callers[i]; c.pc == waits && x.ignored() && x.nonceOf(i, c.calls) == n {
			c.old = true
		}
	}
}

func compareRequests(a, b request) int { return cmp.Compare(a.order(), b.order()) }

// order makes states equal that differ in nothing but the places of requests.
func (q request) order() (n uint64) {
	flag := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	if q.kind == noRequest {
		return 1 << 63
	}
	n = uint64(q.kind)<<60 | uint64(q.pc)<<58 | uint64(q.caller)<<55 | uint64(q.nonce)<<51 | flag(q.heard)<<50 | flag(q.txn)<<49 |
		uint64(q.fresh)<<45 | uint64(q.check)<<42 | uint64(q.outcome)<<40
	p := q.plan
	return n | uint64(p.op)<<37 | uint64(p.check)<<34 | uint64(p.step)<<30 | uint64(p.verdict)<<28 | uint64(p.uses)<<25 |
		uint64(p.replaces)<<22 | uint64(p.voidStep)<<18 | flag(p.redeems)<<17 | uint64(p.outcome)<<15 | flag(p.released)<<14 | flag(p.twice)<<13 |
		uint64(q.seen)
}
