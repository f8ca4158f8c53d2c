package payments

// Guards, and the providers that move the money.

func (x *explorer) nonceOf(who int, calls uint8) nonce { return nonce(who*maxCalls) + nonce(calls) }

// callerOf takes the next step of a caller.
func (x *explorer) callerOf(s *state, i int) {
	c := &s.callers[i]
	who := uint8(i + 1)
	switch c.pc {
	case idle:
		if c.calls < x.Callers[i].Calls {
			t := *s
			t.callers[i].pc = waits
			t.callers[i].calls++
			x.ask(&t, i)
			x.emit(&t, who, "asks")
		}
	case waits, reports:
		if s.heard(who) {
			break
		}
		t := *s
		if c.pc == waits {
			x.ask(&t, i)
			x.emit(&t, who, "asks again with the same nonce")
		} else {
			x.sayAgain(&t, i)
		}
		u := *s
		u.callers[i] = caller{calls: c.calls}
		x.emit(&u, who, "gives up")
	case carriesOut:
		x.provider(s, i)
		x.say(s, i)
	case dead:
		x.provider(s, i)
	}
}

func (s *state) heard(who uint8) bool {
	for i := range s.requests {
		if q := &s.requests[i]; q.caller == who && q.heard {
			return true
		}
	}
	return false
}

func (x *explorer) ask(t *state, i int) {
	of := &x.Callers[i]
	q := request{kind: asking, caller: uint8(i + 1), heard: true, check: of.ByID}
	if of.ByID != 0 {
		q.kind = redeeming
	}
	if !of.Plain {
		q.nonce = x.nonceOf(i, t.callers[i].calls)
	}
	x.send(t, q)
}

// deliver gives an answer with proceed true to its caller, which begins the body unless the answer is old.
func (x *explorer) deliver(s *state, i int) {
	t := *s
	q := t.requests[i]
	t.requests[i] = request{}
	c := &t.callers[q.caller-1]
	if c.old && !x.is(OldAnswerTaken) {
		*c = caller{calls: c.calls}
		x.emit(&t, q.caller, "gets proceed too late, and runs nothing")
		return
	}
	k := t.store.check(q.check)
	*c = caller{pc: carriesOut, calls: c.calls, body: begun, check: q.check, exec: k.exec}
	x.observeBody(&t, &q, k)
	t.charge(k.exec).round = k.round
	x.emit(&t, q.caller, "gets proceed: its body begins")
}

// provider takes the next step of a body.
func (x *explorer) provider(s *state, i int) {
	c := &s.callers[i]
	if c.body != begun {
		return
	}
	for _, said := range []body{moved, declined, unsent} {
		t := *s
		charge := t.charge(c.exec)
		known := charge.outcome != noBody && !x.Callers[i].IgnoresID
		if known && said != unsent {
			said = charge.outcome
		}
		switch {
		case said == unsent:
		case said == moved && !known:
			charge.times++
			charge.outcome = moved
		case charge.outcome == noBody && !x.is(DeclineForgotten):
			charge.outcome = declined
		}
		if t.callers[i].body = said; c.pc == dead {
			t.callers[i] = caller{pc: dead}
		}
		x.emit(&t, uint8(i+1), "its body: "+said.String())
		if known && said != unsent {
			u := *s
			if u.callers[i].body = unsent; c.pc == dead {
				u.callers[i] = caller{pc: dead}
			}
			x.emit(&u, uint8(i+1), "its body: "+unsent.String())
			return
		}
	}
}

func (b body) String() string {
	return [...]string{"none", "goes on", "the money moved", "the provider declines", "reaches no provider"}[b]
}

// say reports what became of the body: failed is what the provider declined, voided what did not reach it.
func (x *explorer) say(s *state, i int) {
	c := &s.callers[i]
	if x.Callers[i].Doubts {
		t := *s
		x.tell(&t, i, doubting, noOutcome)
		x.emit(&t, uint8(i+1), "says: in doubt")
	}
	if c.body == begun {
		return
	}
	t := *s
	x.tell(&t, i, reporting, x.says(c))
	x.emit(&t, uint8(i+1), "says: "+x.says(c).String())
}

func (x *explorer) says(c *caller) outcome {
	switch {
	case c.body == moved:
		return executed
	case c.body == unsent && !x.is(UnsentIsFailed):
		return voided
	}
	return failed
}

func (x *explorer) tell(t *state, i int, k kind, o outcome) {
	c := &t.callers[i]
	if c.check == 0 { // unknown since a restore
		*c = caller{calls: c.calls}
		return
	}
	q := request{kind: k, caller: uint8(i + 1), nonce: x.nonceOf(i, c.calls), heard: true, check: c.check, outcome: o}
	if x.send(t, q) {
		c.pc = reports
	}
}

func (x *explorer) sayAgain(t *state, i int) {
	c := &t.callers[i]
	if c.body == begun {
		x.tell(t, i, doubting, noOutcome)
	} else {
		x.tell(t, i, reporting, x.says(c))
	}
	x.emit(t, uint8(i+1), "says it again")
}
