package payments

// The service by itself, approvers, and whoever compares the provider's ledger.

// system appends a request that the service makes, decided at once, unless it has made one of its kind.
func (x *explorer) system(s *state, k kind, p plan, text string) {
	for i := range s.requests {
		if q := &s.requests[i]; q.caller == 0 && q.kind != noRequest {
			return
		}
	}
	t := *s
	p.step = t.store.check(p.check).steps
	if c := t.store.check(p.replaces); c != nil {
		p.voidStep = c.steps
	}
	if x.send(&t, request{kind: k, pc: decided, fresh: 1<<payments - 1, plan: p}) {
		x.emit(&t, 0, text)
	}
}

// service voids what nobody redeemed in time, and says what is in doubt. Both may come at any time: no promise
// rests on how long it waits, except that guards take no older answers.
func (x *explorer) service(s *state) {
	for i := range s.store.checks {
		switch c := &s.store.checks[i]; {
		case c.open() && !x.is(NothingLapses):
			x.system(s, lapsing, plan{op: lapse, check: id(i + 1)}, "the service finds a check that lapsed")
		case c.holder != 0 && c.outcome == noOutcome && !c.doubt && !x.is(NoDoubtByClock):
			x.system(s, doubting, plan{op: doubt, check: id(i + 1)}, "the service finds a check in doubt")
		}
	}
}

// approvers decide about approvals, which expire. No decision changes the payment's version.
func (x *explorer) approvers(s *state) {
	for i := range s.store.checks {
		c := &s.store.checks[i]
		if c.approval == pending {
			x.approval(s, i, approved, "an approval is given")
			x.approval(s, i, denied, "an approval is denied")
		}
		if c.approval == pending || c.approval == approved {
			x.approval(s, i, expired, "an approval expires")
		}
	}
}

func (x *explorer) approval(s *state, i int, to approval, text string) {
	t := *s
	if t.store.checks[i].approval = to; to == denied && !x.is(DenialKeepsOthers) {
		t.store.withdraw(0)
	}
	x.emit(&t, 0, text)
}

// treasury compares the provider's ledger once the check is in doubt, or was not given back, and reports what it
// says: voided where the money did not move, since the next attempt then has the same execution_id. Where the provider
// does not take it, treasury must know that no body is still running.
func (x *explorer) treasury(s *state) {
	for i := range s.store.checks {
		c := &s.store.checks[i]
		if c.verdict != allowed {
			continue
		}
		at := id(i + 1)
		stays := c.holder != 0 && (c.outcome == noOutcome && c.doubt || c.outcome >= failed && !c.released)
		if stays && !x.mayMove(s, c.exec, at) {
			o := voided
			if s.charge(c.exec).times > 0 {
				o = executed
			} else if x.is(ReleasedAsFailed) {
				o = failed
			}
			x.system(s, reporting, x.reportOf(&s.store, at, o, o != executed), "treasury reports "+o.String())
		}
		if s.faults.claims > 0 && (stays || c.outcome != noOutcome || c.holder == 0) {
			for _, o := range []outcome{executed, voided} {
				t := *s
				if t.faults.claims--; c.outcome != o {
					x.system(&t, reporting, x.reportOf(&s.store, at, o, o == voided), "somebody claims "+o.String())
				}
			}
		}
	}
}

// mayMove reports whether a body may still move money that a later attempt would move again.
func (x *explorer) mayMove(s *state, e execution, i id) bool {
	if !x.ignored() {
		return false
	}
	for n := range x.Callers {
		if c := &s.callers[n]; c.exec == e && c.body == begun {
			return true
		}
	}
	for n := range s.requests {
		q := &s.requests[n]
		if q.pc == answered && q.check == i && !s.callers[q.caller-1].old {
			return true
		}
	}
	return false
}

// faultsOf are the possible faults, as often as the model allows.
func (x *explorer) faultsOf(s *state) {
	for i := range s.requests {
		if q := &s.requests[i]; s.faults.lostAnswers > 0 && q.heard {
			t := *s
			t.faults.lostAnswers--
			if t.requests[i].heard = false; q.pc == answered {
				t.requests[i] = request{}
			}
			x.emitFault(&t, q.caller, "hears no answer")
		}
	}
	for i := range x.Callers {
		if c := &s.callers[i]; s.faults.deaths > 0 && c.pc != idle && c.pc != dead {
			t := *s
			t.faults.deaths--
			x.kill(&t, i)
			x.emitFault(&t, uint8(i+1), "dies")
		}
	}
	if s.faults.rounds > 0 && !s.store.rows[askers].over && s.store.executedIn(askers) {
		t := *s
		t.faults.rounds--
		t.store.rows[askers].over = true
		x.emitFault(&t, 0, "the payment's hours are over")
	}
	x.restore(s)
	x.remove(s)
}

func (x *explorer) kill(t *state, i int) {
	for n := range t.requests {
		if q := &t.requests[n]; q.caller == uint8(i+1) && q.heard {
			if q.heard = false; q.pc == answered {
				*q = request{}
			}
		}
	}
	c := &t.callers[i]
	if *c = (caller{pc: dead, body: c.body, exec: c.exec}); c.body != begun {
		*c = caller{pc: dead}
	}
}

// restore makes a backup, and restores it: no request outlives that, but callers do.
func (x *explorer) restore(s *state) {
	if s.faults.restores == 0 {
		return
	}
	if t := *s; !t.backedUp {
		t.backup, t.backedUp = t.store, true
		x.emitFault(&t, 0, "a backup is made")
		return
	}
	t := *s
	t.faults.restores--
	t.store, t.backup, t.restored, t.requests = t.backup, store{}, true, [maxRequests]request{}
	for i := range t.callers {
		if c := t.store.check(t.callers[i].check); c != nil && !c.present() {
			t.callers[i].check = 0
		}
	}
	x.emitFault(&t, 0, "the backup is restored")
}
