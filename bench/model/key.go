package model

// inFlight reports whether a claim belongs to another attempt of the same living node, which is
// waited for.
func (x *explorer) inFlight(s *state, i int, check id) bool {
	if check == 0 || check.owner() >= len(x.Checks) || check.owner() == i {
		return false
	}
	o := check.owner()
	a := &s.attempts[o]
	if x.node(o) != x.node(i) || a.pc == pcEnd || a.pc == pcDead {
		return false
	}
	return a.fingerprint.value.check == check || a.key.value.check == check || a.txn == check
}

// suspect treats the claim that was met as stale.
func (x *explorer) suspect(t *state, i int, next pc) {
	a := &t.attempts[i]
	a.pc = next
	if o := a.met.check.owner(); o < len(x.Checks) && x.inFlightOn(t, x.node(o), a.met.check) {
		if t.budgets.suspicions == 0 {
			return
		}
		t.budgets.suspicions--
		x.emitFault(t, "look: takes a claim for stale whose holder is at work", i)
		return
	}
	x.emit(t, "look: the claim is stale", i)
}

// isOwn reports whether an incarnation is or was the attempt's own process.
func (x *explorer) isOwn(i int, n incarnation) bool { return n != 0 && n.process() == x.node(i) }

// awaitKey waits while k is another attempt's.
func (x *explorer) awaitKey(s *state, i int) {
	t := *s
	a := &t.attempts[i]
	switch a.pc {
	case pcAwaitKey:
		if x.inFlight(s, i, a.met.check) {
			return
		}
		if t.key != 0 {
			x.replay(&t, i)
			x.emit(&t, "awaitKey: is recorded", i)
			return
		}
		a.pc = pcLookKey
		x.emit(&t, "awaitKey: is not recorded", i)
	case pcLookKey:
		if !x.roundTrip(&t, i) {
			return
		}
		if *x.key(&t, i) != a.met {
			a.pc, a.met = pcSendClaims, value{}
			x.emit(&t, "awaitKey: k changed", i)
			return
		}
		switch {
		case x.inFlight(s, i, a.met.check):
			a.pc = pcAwaitKey
			x.emit(&t, "awaitKey: the holder is in flight", i)
		case x.isOwn(i, a.met.node):
			a.pc = pcAbsentUnderKey
			x.emit(&t, "awaitKey: k was left behind", i)
		default:
			a.pc = pcAwaitKey
			x.emit(&t, "awaitKey: waits", i)
			x.suspect(&t, i, pcFenceKey)
		}
	case pcFenceKey:
		if x.fenceNode(&t, a.met.node) {
			a.pc = pcAbsentUnderKey
			x.emit(&t, "awaitKey: fences the holder's node", i)
		}
	case pcAbsentUnderKey:
		if t.key != 0 {
			x.replay(&t, i)
			x.emit(&t, "absentUnderKey: is recorded", i)
			return
		}
		a.pc = pcTakeKey
		x.emit(&t, "absentUnderKey: is absent", i)
	default:
		x.takeKey(&t, i)
	}
}

// takeKey swaps k; the claims are sent next, whether it worked or not.
func (x *explorer) takeKey(t *state, i int) {
	a := &t.attempts[i]
	if !x.roundTrip(t, i) {
		return
	}
	old := a.met
	a.met, a.pc = value{}, pcSendClaims
	if *x.key(t, i) != old {
		x.emit(t, "takeKey: k changed", i)
		return
	}
	check, ok := t.freshID(i)
	if !ok {
		x.cut = true
		return
	}
	a.key = claim{mine: true, value: value{check, a.fence.node, t.now, pending}}
	*x.key(t, i) = a.key.value
	x.emit(t, "takeKey: takes k", i)
}

// roundTrip is a batch of one command and the marker. It returns false if the batch is void; it
// then emits what follows.
func (x *explorer) roundTrip(t *state, i int) bool {
	a := &t.attempts[i]
	if !x.vet(t, x.node(i)) {
		x.renew(t, i)
		a.met = value{}
		x.emit(t, "is connected to a foreign server", i)
		return false
	}
	found := x.server(t, i).marker
	known := marker{a.fence.epoch, a.run, false}
	if x.certifies(found, known) || x.is(NoRecheck) {
		if a.pc == pcTakeAged {
			a.lazy = !t.nodes[x.node(i)].windows.full || !found.full
		}
		return true
	}
	x.lostRoundTrip(t, i)
	x.emit(t, "the marker is another", i)
	return false
}

// lostRoundTrip: the epoch has changed, so what was met in the old one means nothing.
func (x *explorer) lostRoundTrip(t *state, i int) {
	a := &t.attempts[i]
	switch a.pc {
	case pcGiveBack:
		a.fingerprint.mine = false
	case pcLengthen:
		x.releaseClaim(t, i, &a.fingerprint, false)
	default:
	}
	a.met = value{}
	x.renew(t, i)
}

// replay answers with the check recorded under the key, if it is for the same request.
func (x *explorer) replay(t *state, i int) {
	if o := t.key.owner(); o < len(x.Checks) && x.Checks[o].Request != x.Checks[i].Request {
		x.end(t, i, answeredReused, 0)
		return
	}
	x.end(t, i, answeredReplay, t.key)
}
