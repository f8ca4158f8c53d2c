package model

// awaitFingerprint waits while f is another attempt's.
func (x *explorer) awaitFingerprint(s *state, i int) {
	t := *s
	a := &t.attempts[i]
	switch a.pc {
	case pcAwaitFingerprint:
		switch {
		case x.inFlight(s, i, a.met.check):
			if a.waited {
				return
			}
			a.waited = true
			x.emit(&t, "awaitFingerprint: waits for a claim in flight", i)
		case !t.recorded(a.met.check):
			a.pc = pcLookFingerprint
			x.emit(&t, "awaitFingerprint: the holder is not recorded", i)
		case a.waited:
			a.pc, a.met = pcSendClaims, value{}
			x.emit(&t, "awaitFingerprint: the holder was recorded meanwhile", i)
		default:
			text := x.meet(&t, i, x.passOf(&t, i, a.met.check))
			x.emit(&t, "awaitFingerprint: the holder is recorded; "+text, i)
		}
	case pcLookFingerprint:
		x.lookFingerprint(&t, i)
	case pcFenceFingerprint:
		if x.fenceNode(&t, a.met.node) {
			a.pc = pcAbsent
			x.emit(&t, "makeFinal: fences the holder's node", i)
		}
	default:
		if found := x.passOf(&t, i, a.met.check); found != absent {
			x.emit(&t, "the holder is recorded; "+x.meet(&t, i, found), i)
			return
		}
		a.pc = pcTakeStale
		x.emit(&t, "the holder is absent", i)
	}
}

func (x *explorer) lookFingerprint(t *state, i int) {
	a := &t.attempts[i]
	if !x.roundTrip(t, i) {
		return
	}
	switch {
	case x.fingerprint(t, i).value != a.met:
		a.pc, a.met = pcSendClaims, value{}
		x.emit(t, "look: f changed", i)
		return
	case x.inFlight(t, i, a.met.check):
		a.pc = pcAwaitFingerprint
		x.emit(t, "look: the holder is in flight", i)
		return
	}
	if x.isOwn(i, a.met.node) {
		a.pc = pcAbsent
		x.emit(t, "look: f was left behind", i)
		return
	}
	waits := *t
	waits.attempts[i].pc, waits.attempts[i].waited = pcAwaitFingerprint, true
	x.emit(&waits, "look: waits", i)
	x.suspect(t, i, pcFenceFingerprint)
}

// meetRecorded: f's holder is in the trail.
func (x *explorer) meetRecorded(t *state, i int) string {
	a, c := &t.attempts[i], x.Checks[i]
	h := a.met
	owner := h.check.owner()
	passes, older := x.passesUnallowed(t, i, h.check)
	if r := t.row(a.target); r != nil && h.since < r.since {
		a.pc = pcTakeAged
		return "it is older than the restored pass"
	}
	switch {
	case a.target != 0:
		x.releaseClaims(t, i)
		a.pc, a.met = pcReport, value{}
		return "somebody took the fingerprint"
	case int(t.now)-int(h.since) >= c.Window:
		a.pc = pcTakeAged
		return "it has aged out"
	case c.Key && t.key != 0:
		x.replay(t, i)
		return "my key's check is recorded"
	case !passes && h.state == orphan && !c.Key && owner < len(x.Checks) && x.Checks[owner].Request == c.Request:
		a.pc = pcAdoptOrphan
		return "it is an orphan"
	case !passes:
		return x.duplicate(t, i, h)
	case older.check != 0:
		return x.duplicate(t, i, passHolder(older))
	default:
		a.pc = pcTakeAged
		return "it was not allowed"
	}
}

// adoptOrphan answers the next equal request with the check that its client missed.
func (x *explorer) adoptOrphan(s *state, i int) {
	t := *s
	a := &t.attempts[i]
	if !x.roundTrip(&t, i) {
		return
	}
	f := x.fingerprint(&t, i)
	if f.value != a.met && !x.is(OrphanNotSwapped) {
		a.pc, a.met = pcSendClaims, value{}
		x.emit(&t, "adoptOrphan: f changed", i)
		return
	}
	x.loseSwap(s, &t, i, func(t *state) { x.fingerprint(t, i).state = committed })
	f.state = committed
	x.end(&t, i, answeredPass, a.met.check)
	x.emit(&t, "adoptOrphan: is answered the recorded check", i)
}

// takeFingerprint swaps f to this attempt.
func (x *explorer) takeFingerprint(s *state, i int) {
	t := *s
	a, c := &t.attempts[i], x.Checks[i]
	if !x.roundTrip(&t, i) {
		return
	}
	f := x.fingerprint(&t, i)
	if f.value != a.met {
		a.pc, a.met = pcSendClaims, value{}
		x.emit(&t, "takeFingerprint: f changed", i)
		return
	}
	check, ok := t.freshID(i)
	if !ok {
		x.cut = true
		return
	}
	aged, wasReleased, replaced, left := a.pc == pcTakeAged, a.pc == pcTakeReleased, a.met.as(committed), f.until
	mine := value{check, a.fence.node, t.now, pending}
	swap := func(t *state) {
		*x.fingerprint(t, i) = slot{mine, max(a.lives(t, x.Checks[i].Window), left)}
	}
	x.loseSwap(s, &t, i, swap)
	swap(&t)
	a.fingerprint = claim{mine: true, value: mine, until: f.until}
	a.met, a.verify = value{}, a.lazy && !x.is(NoLazyLookup)
	switch {
	case aged && (x.is(ReplacedNotRemembered) || (c.Uses || c.Again) && x.is(PassedHolderForgotten)):
	case aged:
		a.fingerprint.replaced, a.fingerprint.replacedUntil = replaced, left
	case !aged && !x.is(TakeoverTrusted):
		trusted := x.is(UnverifiedReleased) || wasReleased && x.is(ReleasedTakenTrusted)
		a.verify, a.fingerprint.unverified = true, !trusted
	}
	if a.pc = pcVerifyFresh; a.verify {
		x.emitStep(&t, step{text: "takeFingerprint: takes f from", who: i, found: replaced})
		return
	}
	x.pass(&t, i)
	x.emitStep(&t, step{text: "takeFingerprint: passes; takes f from", who: i, found: replaced})
}

// lives returns until when the attempt's claim lives.
func (a *attempt) lives(t *state, window int) tick {
	if r := t.row(a.target); r != nil {
		return r.until
	}
	return t.now + tick(window)
}

// loseSwap loses the reply to a swap, which was carried out or not.
func (x *explorer) loseSwap(before, t *state, i int, swap func(*state)) {
	if before.budgets.lostReplies == 0 {
		return
	}
	without := *t
	without.budgets.lostReplies--
	with := without
	swap(&with)
	x.end(&with, i, answeredError, 0)
	x.emitFault(&with, "a swap is carried out, its reply lost", i)
	x.end(&without, i, answeredError, 0)
	x.emitFault(&without, "a swap is lost", i)
}

// livePass returns the latest recorded pass of a fingerprint that is still in force.
func (x *explorer) livePass(s *state, fp int) (r row, ok bool) {
	for _, candidate := range s.rows {
		if x.isLivePass(s, candidate, fp, x.is(ReleasedStayLive)) && (!ok || candidate.since > r.since) {
			r, ok = candidate, true
		}
	}
	return r, ok
}

func (x *explorer) isLivePass(s *state, r row, fp int, evenReleased bool) bool {
	if x.hasExpired(s, &r) && !x.is(ExpiredStaysLive) {
		return false
	}
	return r.check != 0 && (!r.released() && !r.leavesNone() || evenReleased) && r.of == 0 && x.fingerprintOf(r.check) == fp && r.until > s.now
}

func (x *explorer) fingerprintOf(check id) int {
	if check.owner() < len(x.Checks) {
		return x.Checks[check.owner()].Fingerprint
	}
	return 0
}

func passHolder(r row) value { return value{check: r.check, since: r.since, state: committed} }

// verifyFresh: f is this attempt's as far as Redis knows; the store may know better.
func (x *explorer) verifyFresh(s *state, i int) {
	t := *s
	switch t.attempts[i].pc {
	case pcLengthen:
		x.lengthen(s, &t, i)
	case pcGiveBack:
		x.giveBack(s, &t, i)
	default:
		x.lose(s, i) // the store does not answer
		x.askPasses(&t, i)
	}
}

func (x *explorer) askPasses(t *state, i int) {
	a, window := &t.attempts[i], x.Checks[i].Window
	r, ok := x.livePass(t, x.Checks[i].Fingerprint)
	a.verify, a.fingerprint.unverified = false, false
	if !ok {
		x.pass(t, i)
		x.emit(t, "verifyFresh: no pass is in force; passes", i)
		return
	}
	aged := int(t.now)-int(r.since) >= window
	if restored := t.row(a.target); restored != nil {
		aged = r.since < restored.since
	}
	if passes, older := x.passesUnallowed(t, i, r.check); passes && older.check == 0 && !x.is(PassedHolderGivenBack) {
		aged = true // to this attempt
	}
	if aged || !x.is(GivenBackNotRemembered) {
		a.fingerprint.replaced, a.fingerprint.replacedUntil = passHolder(r), r.until
	}
	if !aged {
		a.pc, a.met = pcGiveBack, passHolder(r)
		x.emit(t, "verifyFresh: a pass is in force", i)
		return
	}
	a.fingerprint.until = max(a.fingerprint.until, r.until)
	if r.until <= a.lives(t, window) || x.is(LifeNotLengthened) {
		x.pass(t, i)
		x.emit(t, "verifyFresh: a pass has aged out; passes", i)
		return
	}
	a.pc, a.met = pcLengthen, passHolder(r)
	x.emit(t, "verifyFresh: a pass has aged out", i)
}

func (x *explorer) lengthen(s, t *state, i int) {
	if !x.roundTrip(t, i) {
		return
	}
	a, f := &t.attempts[i], x.fingerprint(t, i)
	if f.value != a.fingerprint.value {
		x.releaseClaim(t, i, &a.fingerprint, false)
		a.pc, a.met = pcSendClaims, value{}
		x.emit(t, "lengthen: f changed", i)
		return
	}
	until := a.fingerprint.replacedUntil
	swap := func(t *state) { f := x.fingerprint(t, i); f.until = max(f.until, until) }
	x.loseSwap(s, t, i, swap)
	swap(t)
	a.met = value{}
	x.pass(t, i)
	x.emit(t, "lengthen: keeps the longer life; passes", i)
}

func (x *explorer) giveBack(s, t *state, i int) {
	if !x.roundTrip(t, i) {
		return
	}
	a, f := &t.attempts[i], x.fingerprint(t, i)
	h, old := a.met, a.fingerprint.value
	r := t.row(h.check)
	if f.value != old || r == nil || r.until <= t.now {
		a.fingerprint.mine = false
		a.pc, a.met = pcSendClaims, value{}
		x.emit(t, "giveBack: f changed", i)
		return
	}
	until := r.until
	swap := func(t *state) { *x.fingerprint(t, i) = slot{h, until} }
	x.loseSwap(s, t, i, swap)
	swap(t)
	a.fingerprint.mine = false
	x.emit(t, "giveBack: gives f back; "+x.meetRecorded(t, i), i)
}
