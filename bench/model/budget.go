package model

// Budgets: counters in the store, from which a check's commit takes in the check's own transaction
// if all of them have room.

// usage is what was taken from each counter in each of its windows.
type usage [maxCounters][maxPeriods]uint8

// period is the window of the counters in which a check counts, by its own timestamp.
func (x *explorer) period(since tick) int {
	if x.Period == 0 {
		return 0
	}
	return min(int(since)/x.Period, maxPeriods-1)
}

// charges are what a check takes if it is allowed.
func (x *explorer) charges(owner int) [maxCounters]uint8 {
	if owner < len(x.Checks) {
		return x.Checks[owner].Charges
	}
	return [maxCounters]uint8{}
}

// taken is what a recorded check has taken, less what was released.
func (x *explorer) taken(r *row) [maxCounters]uint8 {
	if r.check == 0 || r.of != 0 || r.verdict != allowed || r.released() {
		return [maxCounters]uint8{}
	}
	return x.charges(r.check.owner())
}

// exhausted returns the counters, one bit each, that have no room for a check.
func (x *explorer) exhausted(s *state, owner, period int) (bits uint8) {
	for c, amount := range x.charges(owner) {
		if amount > 0 && s.used[c][period]+amount > x.Limits[c] {
			bits |= hintOf(c, period)
		}
	}
	return bits
}

// hintOf is the bit of a counter's window among those that nodes remember.
func hintOf(counter, period int) uint8 { return 1 << (counter*maxPeriods + period) }

// hints are the bits of all counters that a check takes from.
func (x *explorer) hints(owner, period int) (bits uint8) {
	for c, amount := range x.charges(owner) {
		if amount > 0 {
			bits |= hintOf(c, period)
		}
	}
	return bits
}

// observe notes, for each check in progress, the windows in which it does not fit: a block as
// exceeded is true only if that held at some moment of its request.
func (x *explorer) observe(t *state) {
	for i := range x.Checks {
		a := &t.attempts[i]
		if a.pc == pcUnused || a.pc == pcBegin || a.pc == pcEnd || a.pc == pcDead {
			continue
		}
		for period := range maxPeriods {
			if x.exhausted(t, i, period) != 0 {
				a.full |= 1 << period
			}
		}
	}
}

// pass judges an attempt that the guard lets through as allowed, which its commit verifies. The
// counters are read first only where the node remembers one of them as exhausted.
func (x *explorer) pass(t *state, i int) {
	switch c := x.Checks[i]; {
	case c.Restores > 0:
		a := &t.attempts[i]
		a.pc, a.lazy, a.met, a.waited = pcReport, false, value{}, false
		return
	case c.Uses || c.Escalates || c.Blocks:
		x.passJudged(t, i)
		return
	}
	a, n := &t.attempts[i], &t.nodes[x.node(i)]
	hints := x.hints(i, x.period(a.fingerprint.value.since))
	switch {
	case n.exhausted&hints != 0 && x.is(HintTrusted):
		x.appendPass(t, i, exceeded)
	case n.exhausted&hints != 0, hints != 0 && x.is(CountersReadBeforeCommit):
		a.pc, a.lazy, a.met, a.waited = pcReadCounters, false, value{}, false
	default:
		x.appendPass(t, i, allowed)
	}
}

// passJudged is pass for a check that is escalated, or would be without the approval.
func (x *explorer) passJudged(t *state, i int) {
	if c := x.Checks[i]; c.Escalates || c.Blocks {
		v := escalated
		if c.Blocks {
			v = blocked
		}
		x.appendPass(t, i, v)
		return
	}
	if v, ok := x.judgeUse(t, i); ok {
		x.appendPass(t, i, v)
	}
}

// appendPass appends the attempt's check to the writer's queue, under the ID in
// its fingerprint's claim.
func (x *explorer) appendPass(t *state, i int, v verdict) {
	a := &t.attempts[i]
	f := &a.fingerprint
	x.append(t, i, row{check: f.value.check, since: f.value.since, until: f.until, version: a.version, verdict: v, uses: x.Checks[i].Uses &&
		v == allowed})
}

// readCounters reads the counters, because one is remembered as exhausted. The result decides a
// block; an allow is still verified by the commit.
func (x *explorer) readCounters(s *state, i int) {
	x.lose(s, i) // the store does not answer
	t := *s
	a := &t.attempts[i]
	period := x.period(a.fingerprint.value.since)
	if x.exhausted(&t, i, period) != 0 {
		x.appendPass(&t, i, exceeded)
		x.emit(&t, "readCounters: no room; commits a block", i)
		return
	}
	t.nodes[x.node(i)].exhausted &^= x.hints(i, period)
	x.appendPass(&t, i, allowed)
	x.emit(&t, "readCounters: there is room; commits a pass", i)
}

// take takes a check's charges. If one of the counters has no room, it takes nothing and returns
// false.
func (x *explorer) take(t *state, r *row) bool {
	owner, period := r.check.owner(), x.period(r.since)
	if r.of != 0 || r.verdict != allowed {
		return true
	}
	if x.exhausted(t, owner, period) != 0 && !x.is(CountersReadBeforeCommit) {
		if x.is(PartlyTaken) {
			for c, amount := range x.charges(owner) {
				if t.used[c][period]+amount <= x.Limits[c] {
					t.used[c][period] += amount
				}
			}
		}
		return false
	}
	for c, amount := range x.charges(owner) {
		t.used[c][period] += amount
	}
	return true
}

// refused handles a commit that found no room. The check is judged again, by the usage in the
// refusal, and appended again under its ID and with its claims.
func (x *explorer) refused(t *state, i int) string {
	a := &t.attempts[i]
	period := x.period(a.fingerprint.value.since)
	x.forget(t, i)
	if a.settling {
		x.end(t, i, answeredError, 0)
		return "is released: its client was refused already"
	}
	if x.is(RefusedAllowed) {
		x.write(t, row{check: a.txn, since: a.fingerprint.value.since, until: a.fingerprint.until, version: a.version})
		for c, amount := range x.charges(i) {
			t.used[c][period] += amount
		}
		x.committed(t, i)
		return "commits the pass without asking"
	}
	t.nodes[x.node(i)].exhausted |= x.exhausted(t, i, period)
	x.appendPass(t, i, exceeded)
	return "commits a block"
}

// forget removes the transaction of an attempt's check, whose outcome was received.
func (x *explorer) forget(t *state, i int) {
	for n := range t.txns {
		if c := &t.txns[n]; c.present && c.by == 0 && c.row.check == t.attempts[i].txn {
			*c = txn{}
		}
	}
}

// refusedForOthers is what no commit does: it refuses a check because of what others of its batch
// would take, which may not be recorded in the end.
func (x *explorer) refusedForOthers(t *state, c *txn) bool {
	owner, period := c.row.check.owner(), x.period(c.row.since)
	if !x.is(RefusedForOthers) || c.by > 0 || c.row.of != 0 || c.row.verdict != allowed {
		return false
	}
	u := *t
	for n := range t.txns {
		if o := &t.txns[n]; o.present && o.by == 0 && o.state <= txnEntered && o.row.check != c.row.check && o.fence == c.fence {
			x.take(&u, &o.row)
		}
	}
	return x.exhausted(&u, owner, period) != 0
}

// write inserts a row.
func (x *explorer) write(t *state, r row) {
	for n := range t.rows {
		if t.rows[n].check == 0 {
			t.rows[n] = r
			return
		}
	}
	x.cut = true
}
