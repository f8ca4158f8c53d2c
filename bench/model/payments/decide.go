package payments

// The state machine of a payment: what a node decides by what it read.

// standing is a payment's state.
type standing uint8

const (
	isFree standing = iota
	isDenied
	isWaiting
	isOpen
	isRedeemed // or in doubt
	isReleasing
	isExecuted
)

// executedIn reports whether a check of a payment's round is executed.
func (s *store) executedIn(payment uint8) bool {
	for i := range s.checks {
		c := &s.checks[i]
		if c.of.has(payment) && c.outcome == executed && c.round == s.rows[payment].round {
			return true
		}
	}
	return false
}

// taken reports whether a check of any payment of a check is executed.
func (x *explorer) taken(s *store, of set) bool {
	for p := range uint8(payments) {
		if of.has(p) && s.executedIn(p) && !x.is(EarlierExecutedIgnored) {
			return true
		}
	}
	return false
}

// stateOf derives the state of the asker's payment.
func (x *explorer) stateOf(s *store) standing {
	r := &s.rows[askers]
	c := s.check(r.current)
	if c == nil {
		return isFree
	}
	if x.taken(s, 1<<askers) {
		if r.over || x.is(FreeTooSoon) {
			return isFree
		}
		return isExecuted
	}
	switch {
	case c.approval == pending, c.approval == approved:
		return isWaiting
	case c.approval == denied:
		return isDenied
	case c.verdict == asks:
		return isFree
	case c.outcome == executed:
		return isExecuted
	case c.outcome != noOutcome && !c.released && !x.is(FreeUnreleased):
		return isReleasing
	case c.outcome != noOutcome:
		return isFree
	case c.holder == 0:
		return isOpen
	}
	return isRedeemed
}

// usable finds an approval that a check for an action may use.
func (s *store) usable(action uint8) id {
	for i := range s.checks {
		if c := &s.checks[i]; c.approval == approved && c.action == action && c.of.has(askers) {
			return id(i + 1)
		}
	}
	return 0
}

// proceeds reports whether a nonce may carry out a check.
func (x *explorer) proceeds(s *store, i id, n nonce) bool {
	c := s.check(i)
	if c == nil || n == 0 || c.holder == 0 {
		return false
	}
	holds := c.holder == n || x.is(ProceedForAnybody) || x.is(ProceedOfFormer) && c.named&n.bit() != 0
	return holds && (c.outcome == noOutcome || x.is(ProceedAfterOutcome)) && (!c.doubt || x.is(ProceedAfterDoubt)) &&
		(!x.taken(s, c.of) || x.is(ProceedThoughExecuted))
}

// read lets a node read the payment and decide about a caller's request.
func (x *explorer) read(s *state, i int) {
	switch q := &s.requests[i]; q.kind {
	case asking:
		x.readAsking(s, i)
	case redeeming:
		x.readRedeeming(s, i)
	default:
		x.readReport(s, i, q.kind == doubting)
	}
}

// decide sets what the request is about to commit.
func (x *explorer) decide(s *state, i int, p plan, text string) {
	t := *s
	q := &t.requests[i]
	if c := t.store.check(p.check); c != nil {
		p.step = c.steps
	}
	if c := t.store.check(p.replaces); c != nil {
		p.voidStep = c.steps
	}
	q.pc, q.plan, q.fresh, q.seen = decided, p, 1<<payments-1, s.store.rows[askers].version
	x.emit(&t, q.caller, text)
}

// show answers without proceed: the call ends.
func (x *explorer) show(s *state, i int, text string) {
	t := *s
	who := t.requests[i].caller
	x.answer(&t, i, 0)
	x.emit(&t, who, text)
}

func (x *explorer) readAsking(s *state, i int) {
	q, r := &s.requests[i], &s.store.rows[askers]
	c, of := s.store.check(r.current), &x.Callers[q.caller-1]
	used := q.nonce != 0 && r.nonces&q.nonce.bit() != 0
	if !x.is(ActionNotCompared) && c != nil && c.action != of.Action {
		x.readOther(s, i, used)
		return
	}
	if x.proceeds(&s.store, r.current, q.nonce) {
		t := *s
		x.answer(&t, i, r.current)
		x.emit(&t, q.caller, "repeats its nonce: proceed")
		return
	}
	standing := x.stateOf(&s.store)
	takes := standing == isRedeemed || standing == isReleasing && x.is(TakenOverAfterReport)
	mayRedeem := q.nonce != 0 && (!used || x.is(NonceRedeemsAgain))
	switch {
	case used && !mayRedeem && !x.is(TakenBack):
		x.show(s, i, "its nonce is spent: is shown the payment")
	case standing == isFree && (mayRedeem || q.nonce == 0), standing <= isWaiting && s.store.usable(of.Action) != 0:
		x.judge(s, i, 0, mayRedeem)
	case standing == isOpen && mayRedeem:
		x.decide(s, i, plan{op: redeem, check: r.current}, "reads that it is open: redeems")
	case takes && x.mayTakeOver(s, i, used):
		x.decide(s, i, plan{op: takeOver, check: r.current}, "reads that it is redeemed: takes over")
	default:
		x.show(s, i, "is shown the payment")
	}
}

func (x *explorer) mayTakeOver(s *state, i int, used bool) bool {
	q, c := &s.requests[i], s.store.check(s.store.rows[askers].current)
	return x.Callers[q.caller-1].TakeOver && (!used || x.is(TakenBack)) && (!c.byID || x.is(TakeOverOfID))
}

// readOther decides about a request for another action than the current check's.
func (x *explorer) readOther(s *state, i int, used bool) {
	q, r := &s.requests[i], &s.store.rows[askers]
	switch standing := x.stateOf(&s.store); {
	case used:
		x.show(s, i, "its nonce is spent: is shown the payment")
	case standing == isFree, standing == isDenied:
		x.judge(s, i, 0, q.nonce != 0)
	case x.Callers[q.caller-1].Replace && (standing == isOpen || standing == isWaiting || standing == isRedeemed && x.is(ReplaceRedeemed)):
		x.judge(s, i, r.current, q.nonce != 0)
	default:
		x.show(s, i, "409 payment_differs")
	}
}

// judge decides to record a new check.
func (x *explorer) judge(s *state, i int, replaces id, redeems bool) {
	q := &s.requests[i]
	action := x.Callers[q.caller-1].Action
	uses := s.store.usable(action)
	verdicts, text := max(x.Asks, allowed), "judges"
	if uses != 0 {
		verdicts, text = max(x.Uses, allowed), "judges with the approval"
	}
	if replaces != 0 {
		text = "replaces, and " + text
	}
	current := s.store.check(s.store.rows[askers].current)
	for _, v := range []verdict{allowed, asks} {
		switch {
		case verdicts&v == 0:
		case v == asks && uses != 0 && current.verdict == asks && current.approval == pending && replaces == 0:
			x.show(s, i, "judges with the approval, which does not lift it: is shown the payment")
		case v == asks:
			x.decide(s, i, plan{op: insertCheck, verdict: v, uses: uses, replaces: replaces}, text+": asks people")
		default:
			x.decide(s, i, plan{op: insertCheck, verdict: v, uses: uses, replaces: replaces, redeems: redeems}, text+": allows")
		}
	}
}

// readRedeeming decides about a redemption by id.
func (x *explorer) readRedeeming(s *state, i int) {
	q, of := &s.requests[i], &x.Callers[s.requests[i].caller-1]
	c := s.store.check(q.check)
	switch {
	case x.proceeds(&s.store, q.check, q.nonce):
		t := *s
		x.answer(&t, i, q.check)
		x.emit(&t, q.caller, "repeats its redemption: proceed")
	case !c.open(), x.taken(&s.store, c.of), of.Own && !x.ownIsFree(&s.store), c.action != of.Action:
		x.show(s, i, "409: cannot redeem")
	default:
		x.decide(s, i, plan{op: redeem, check: q.check}, "reads that it is open: redeems by id")
	}
}

// ownIsFree reports whether the executor's own payment is free.
func (x *explorer) ownIsFree(s *store) bool {
	c := s.check(s.rows[executors].current)
	return c == nil || c.givenBack() && !x.taken(s, 1<<executors)
}

// readReport decides about a report, or a statement that the redemption is in doubt, by a caller.
func (x *explorer) readReport(s *state, i int, isDoubt bool) {
	q := &s.requests[i]
	c := s.store.check(q.check)
	switch {
	case c.named&q.nonce.bit() == 0, isDoubt && c.doubt, c.outcome != noOutcome && (isDoubt || c.outcome == executed || q.outcome != executed):
		x.show(s, i, "reports: has an outcome, or is unknown")
	case c.holder != q.nonce && (isDoubt || q.outcome != executed) && !x.is(FormerGivesBack):
		x.show(s, i, "reports: 409 check_taken_over")
	case isDoubt:
		x.decide(s, i, plan{op: doubt, check: q.check}, "says that it is in doubt")
	default:
		released := q.outcome != executed && !x.Callers[q.caller-1].Pending
		x.decide(s, i, x.reportOf(&s.store, q.check, q.outcome, released), "reports "+q.outcome.String())
	}
}

// reportOf is the plan of a report: that a check is executed voids an open one.
func (x *explorer) reportOf(s *store, i id, o outcome, released bool) plan {
	p, c := plan{op: report, check: i, outcome: o, released: released}, s.check(i)
	if o != executed {
		return p
	}
	for _, other := range s.beside(i) {
		p.twice = p.twice || other.outcome == executed
	}
	current := s.rows[askers].current
	if other := s.check(current); c.of.has(askers) && current != i && other.open() && other.round == c.round && !x.is(ExecutedKeepsOpen) {
		p.replaces = current
	}
	return p
}

func (o outcome) String() string { return [...]string{"none", "executed", "failed", "voided"}[o] }
