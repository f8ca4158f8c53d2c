package grants

// window is the window of the counter in which a request counts.
func (q *request) window() uint8 { return q.stamp / windowed }

// request takes the next step of a check.
func (x *explorer) request(s *state, i int) {
	t := *s
	q := &t.requests[i]
	v := s.views[q.node]
	switch q.pc {
	case unborn:
		if v.generation != s.generation {
			return // the node loads first
		}
		q.pc, q.stamp, q.version = judged, s.now, s.version(v.seq)
		for g := range s.grants {
			if s.grants[g].pc == told {
				q.told |= 1 << g
			}
		}
		x.judge(&t, q, v.seq)
		x.emit(t, false, "request %d is judged", i)
	case judged, refusing:
		x.commit(s, i)
		if q.pc == judged && !x.fits(s, q) { // the node remembers the counter as exhausted, and reads it first
			q.pc = refusing
			x.emit(t, false, "request %d is refused before its commit", i)
		}
	case compared:
		x.take(s, i)
	case recorded, blocked:
	}
}

// judge has a check judged by the changes up to a number.
func (x *explorer) judge(t *state, q *request, seq uint8) {
	at := q.stamp
	if x.is(EndByNow) {
		at = t.now
	}
	q.stops, q.granted = t.lastStop(seq), x.adds(t, q.version, at, seq, x.Mutation)
}

// fits reports whether the counter has room for a check, by what judged it.
func (x *explorer) fits(s *state, q *request) bool {
	return s.used[x.counter(q.version)][q.window()]+1 <= x.Limits[q.version]+q.granted
}

// commit has the store compare the last stop. A check that budgets refused stays refused.
func (x *explorer) commit(s *state, i int) {
	t := *s
	q := &t.requests[i]
	switch {
	case q.stops != s.lastStop(s.seq) && !x.is(StopsUncompared):
		t.views[q.node].seq = s.seq // it reads the configuration again
		granted := q.granted
		if x.judge(&t, q, s.seq); q.pc == refusing || x.is(GrantsKept) {
			q.granted = granted
		}
		x.emit(t, false, "request %d: its commit is refused", i)
	case q.pc == refusing:
		if q.pc = blocked; !q.full {
			t.broken = refusedInVain
		}
		x.emit(t, false, "request %d is recorded as blocked", i)
	default:
		q.pc = compared
		x.emit(t, false, "request %d: the store has compared its stop", i)
	}
}

// take has the store take from the counter, or refuse.
func (x *explorer) take(s *state, i int) {
	t := *s
	q := &t.requests[i]
	if !x.fits(s, q) {
		q.pc = refusing
		x.emit(t, false, "request %d finds no room", i)
		return
	}
	q.pc = recorded
	used := &t.used[x.counter(q.version)][q.window()]
	*used++
	switch {
	case *used > x.Limits[q.version]+x.adds(s, q.version, q.stamp, s.seq, 0):
		t.broken = passedAbove
	case q.granted != x.adds(s, q.version, q.stamp, q.stops, 0):
		t.broken = derivedOtherwise
	}
	x.emit(t, false, "request %d is recorded", i)
}
