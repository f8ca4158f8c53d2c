package payments

// Removals: a payment that has ended leaves, and begins anew with the next request. What belonged to it is over long before: bodies,
// reports and approvals, and the provider has forgotten its execution_ids. Only requests that have read it may still be on their way.

// remove removes the askers' payment.
func (x *explorer) remove(s *state) {
	if s.faults.removals == 0 || s.store.rows[askers].current == 0 || x.stateOf(&s.store) != isFree || x.underWay(s) {
		return
	}
	t := *s
	t.faults.removals--
	t.store.rows[askers] = row{}
	for i := range t.store.checks {
		c := &t.store.checks[i]
		c.of &^= 1 << askers
		c.exec = 0
	}
	clear(t.charges[askers*maxAttempts : (askers+1)*maxAttempts])
	for i := range t.requests {
		t.requests[i].fresh &^= 1 << askers
	}
	x.emitFault(&t, 0, "removes the payment, which ended long ago")
}

// underWay reports whether a caller, or a request about a check, has to do with the payment's checks.
func (x *explorer) underWay(s *state) bool {
	for i := range s.callers {
		if c := &s.callers[i]; c.body != noBody || c.pc == carriesOut || c.pc == reports {
			return true
		}
	}
	for i := range s.requests {
		if q := &s.requests[i]; q.kind != noRequest && (q.kind != asking || q.pc == answered) {
			return true
		}
	}
	return false
}

// count makes the versions that a commit makes, where they matter.
func (x *explorer) count(t *state, changes set, p plan) {
	if x.Removals == 0 || !changes.has(askers) {
		return
	}
	if t.store.rows[askers].version++; p.redeems {
		t.store.rows[askers].version++
	}
}
