package model

// faults are the possible faults, as often as the model allows, and the passing of time.
func (x *explorer) faults(s *state) {
	if b := s.budgets; b.crashes > 0 && s.nodes[0].alive {
		t := *s
		t.budgets.crashes--
		x.crash(&t, 0)
		x.emitFault(&t, "crashes", 0)
	}
	if s.budgets.flushes > 0 {
		t := *s
		t.budgets.flushes--
		t.servers[0] = server{}
		x.emitFault(&t, "FLUSHALL", -1)
	}
	if s.budgets.ticks > 0 {
		t := *s
		t.budgets.ticks--
		t.now++
		t.approval.clock++
		for i := range t.servers {
			t.servers[i].expire(t.now)
		}
		x.emitFault(&t, "time passes", -1)
	}
	if s.budgets.setBacks > 0 && s.approval.clock > 0 {
		t := *s
		t.budgets.setBacks--
		t.approval.clock--
		x.emitFault(&t, "the store's clock goes back", -1)
	}
	x.failover(s)
}

func (x *explorer) crash(t *state, n int) {
	t.nodes[n] = node{}
	for i := range x.Checks {
		if a := &t.attempts[i]; x.node(i) == n && a.pc != pcEnd {
			*a = attempt{pc: pcDead}
		}
	}
	for i := range t.deferred {
		if c := &t.deferred[i]; c.kind != deferredLateSet && int(c.node) == n {
			*c = deferred{}
		}
	}
}

func (srv *server) expire(now tick) {
	for e := range srv.f {
		for fp := range srv.f[e] {
			if f := &srv.f[e][fp]; f.check != 0 && f.until <= now {
				*f = slot{}
			}
		}
	}
}

// failover promotes a replica that has everything, or lacks the claims, or lacks them and has an
// older generation. The old server goes on for those connected to it.
func (x *explorer) failover(s *state) {
	if s.budgets.failovers == 0 {
		return
	}
	t := *s
	t.budgets.failovers--
	t.servers[1] = t.servers[0]
	x.emitFault(&t, "a replica with everything is promoted", -1)
	u := *s
	u.budgets.failovers--
	u.servers[1] = server{marker: s.servers[0].marker, generation: s.servers[0].generation}
	x.emitFault(&u, "a replica without the last claims is promoted", -1)
	if l := s.nodes[0].view.label; l.nonce != s.servers[0].generation && l.nonce != 0 {
		v := *s
		v.budgets.failovers--
		v.servers[1] = server{marker: s.servers[0].marker, generation: l.nonce}
		x.emitFault(&v, "a replica with an older generation is promoted", -1)
	}
}

// connectionsOf moves a node's connections to the promoted server, each at any time, but not during
// a batch: its replies would be lost, which is another fault.
func (x *explorer) connectionsOf(s *state, n int) {
	if x.Failovers == 0 || s.budgets.failovers > 0 {
		return
	}
	busy := false
	for i := range x.Checks {
		pc := s.attempts[i].pc
		busy = busy || x.node(i) == n && (pc == pcClaimFingerprint || pc == pcReadMarker)
	}
	if s.nodes[n].hot == 0 && !busy {
		t := *s
		t.nodes[n].hot, t.nodes[n].vetted = 1, false
		x.emit(&t, "claims connect to the promoted server", n)
	}
	if s.nodes[n].plain == 0 {
		t := *s
		t.nodes[n].plain = 1
		x.emit(&t, "markers go to the promoted server", n)
	}
}
