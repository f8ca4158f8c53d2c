package payments

// promise is one that a step has broken.
type promise uint8

const (
	kept promise = iota
	redeemedTwice
	redeemedThoughExecuted
	redeemedForOther
	nonceTwice
	executionAgain
	executionChanged
	tookReported
	tookByID
	proceedOfNobody
	twoBodies
	lateBody
	lapsedRedeemed
	doubtBehindReport
	formerGaveBack
	unflagged
	checkedThoughExecuted
	usedUnapproved
	usedBehindDenial
	usedInAnotherRound
	usedForAnotherAction
)

var promises = [...]string{
	redeemedTwice:          "G16: a check is redeemed beside one that was redeemed and not given back",
	redeemedThoughExecuted: "S84: a check is redeemed in a round that has an executed one",
	redeemedForOther:       "G16: a check of another action is redeemed",
	nonceTwice:             "S84: a nonce redeems or takes over a second time",
	executionAgain:         "S84: an attempt has the execution_id of one that was executed or declined",
	executionChanged:       "S84: two bodies of an attempt have two execution_ids",
	tookReported:           "S84: a check is taken over that has an outcome",
	tookByID:               "S84: a check is taken over that was redeemed by its id",
	proceedOfNobody:        "S84: proceed is true for a nonce that does not hold the current check, or no longer",
	twoBodies:              "G16: two bodies begin for one check",
	lateBody:               "G16: a body begins whose check was given back",
	lapsedRedeemed:         "S84: a redeemed check lapses",
	doubtBehindReport:      "S74: a check is in doubt that has an outcome",
	formerGaveBack:         "S84: who was taken over gives back",
	unflagged:              "S84: two checks of a round are executed, and neither is flagged",
	checkedThoughExecuted:  "S84: a check is recorded in a round that is executed and not over",
	usedUnapproved:         "G13: an approval is used that is not approved",
	usedBehindDenial:       "S84: an approval is used though people denied the payment since",
	usedInAnotherRound:     "S84: an approval of another round is used",
	usedForAnotherAction:   "G13: an approval of another action is used",
}

// Broken names the promise that a state breaks, if any.
func (x *explorer) Broken(s *state) string {
	if s.broken != kept {
		return promises[s.broken]
	}
	for round := range uint8(maxAttempts) {
		for p := range payments + 1 {
			times := uint8(0)
			for _, c := range s.charges[p*maxAttempts : (p+1)*maxAttempts] {
				if c.round == round && p < payments {
					times += c.times
				} else if p == payments {
					times = max(times, c.times)
				}
			}
			if times > 1 && x.Claims == 0 {
				return "the money moved twice"
			}
		}
	}
	for i := range s.store.checks {
		if c := &s.store.checks[i]; c.open() && c.of.has(askers) && s.store.rows[askers].current != id(i+1) {
			return "S84: a check is open that is not the payment's current one"
		}
	}
	return ""
}

func (s *state) breaks(p promise, broken bool) {
	if broken && s.broken == kept {
		s.broken = p
	}
}

// beside returns the other checks of the payments and round of a check.
func (s *store) beside(i id) (others []*check) {
	c := s.check(i)
	for n := range s.checks {
		if o := &s.checks[n]; id(n+1) != i && o.of&c.of != 0 && o.round == c.round {
			others = append(others, o)
		}
	}
	return others
}

func (x *explorer) observeRedemption(t *state, q *request, i id) {
	c := t.store.check(i)
	for _, o := range t.store.beside(i) {
		t.breaks(redeemedThoughExecuted, o.outcome == executed)
		t.breaks(redeemedTwice, o.holder != 0 && !o.givenBack())
	}
	t.breaks(redeemedTwice, c.holder != 0 || c.outcome != noOutcome)
	t.breaks(redeemedForOther, c.action != x.Callers[q.caller-1].Action)
	t.breaks(nonceTwice, c.of.has(askers) && q.kind == asking && t.store.rows[askers].nonces&q.nonce.bit() != 0)
}

// observeExecution: a restore forgets attempts, whose execution_ids then come again.
func (x *explorer) observeExecution(t *state, e execution) {
	if t.restored {
		return
	}
	for i := range t.store.checks {
		c := &t.store.checks[i]
		t.breaks(executionAgain, c.exec == e && c.settled)
	}
}

func (x *explorer) observeTakeOver(t *state, q *request, c *check) {
	t.breaks(tookReported, c.outcome != noOutcome)
	t.breaks(tookByID, c.byID)
	t.breaks(nonceTwice, t.store.rows[askers].nonces&q.nonce.bit() != 0)
	t.breaks(redeemedThoughExecuted, t.store.executedIn(askers))
}

func (x *explorer) observeProceed(t *state, i id, n nonce) {
	c := t.store.check(i)
	stale := c.holder != n || c.outcome != noOutcome || c.doubt
	for p := range uint8(payments) {
		if c.of.has(p) {
			stale = stale || t.store.rows[p].current != i || t.store.executedIn(p)
		}
	}
	t.breaks(proceedOfNobody, stale)
}

// observeBody: a check has one body, which begins before the check is given back. Where the provider takes the
// execution_id, a body may begin later, and after a take-over others begin with the same one. What a restore has forgotten
// is for the provider to refuse.
func (x *explorer) observeBody(t *state, q *request, c *check) {
	if t.restored {
		return
	}
	for i := range x.Callers {
		if o := &t.callers[i]; o.body != noBody && o.check == q.check && uint8(i+1) != q.caller {
			t.breaks(executionChanged, o.exec != c.exec)
		}
	}
	ignores := x.ignored()
	t.breaks(twoBodies, t.begun.has(uint8(q.check)) && (x.Callers[q.caller-1].IgnoresID || c.named == q.nonce.bit()))
	t.breaks(lateBody, ignores && c.givenBack())
	t.begun |= 1 << q.check
}

func (x *explorer) observeLapse(t *state, c *check) { t.breaks(lapsedRedeemed, c.holder != 0) }

func (x *explorer) observeDoubt(t *state, c *check) {
	t.breaks(doubtBehindReport, c.outcome != noOutcome)
}

func (x *explorer) observeReport(t *state, q *request, c *check) {
	p := q.plan
	t.breaks(formerGaveBack, q.caller != 0 && p.outcome != executed && c.holder != q.nonce)
	second := false
	for _, o := range t.store.beside(p.check) {
		second = second || o.outcome == executed
	}
	t.breaks(unflagged, p.outcome == executed && second && !p.twice)
}

func (x *explorer) observeCheck(t *state, uses id, action uint8) {
	r := &t.store.rows[askers]
	t.breaks(checkedThoughExecuted, t.store.executedIn(askers) && !r.over)
	c := t.store.check(uses)
	if c == nil {
		return
	}
	t.breaks(usedUnapproved, c.approval != approved && c.approval != withdrawn)
	t.breaks(usedForAnotherAction, c.action != action)
	round := r.round
	if t.store.executedIn(askers) {
		round++
	}
	t.breaks(usedInAnotherRound, c.round != round)
	for i := range t.store.checks {
		t.breaks(usedBehindDenial, id(i+1) > uses && t.store.checks[i].approval == denied)
	}
}
