package stops

// stops reports whether a view stops a check that was judged by a stop.
func (x *explorer) stops(v view, judged uint8) bool {
	if !x.Key || x.is(RestoredByKey) {
		return v.stopped
	}
	return v.stops > judged
}

// refuses reports whether a view refuses what is asked for the first time: a frozen one is blocked, an inactive key is 401.
func (x *explorer) refuses(v view) bool { return v.stopped }

// request takes the next step of a request.
func (x *explorer) request(s *state, i int) {
	t := *s
	q, of := &t.requests[i], x.Requests[i]
	v := s.views[q.node]
	switch q.pc {
	case unborn:
		q.pc = begun
		x.emit(t, false, "request %d begins", i)
	case begun:
		x.judge(s, i)
	case judged:
		if q.stops != s.stops && !x.is(CommitUncompared) {
			t.reload(q.node)
			q.pc = begun
			if of == unread {
				q.pc = turnedOff // it is read, as another request that redeems
			}
			x.emit(t, false, "request %d: its commit is refused", i)
			return
		}
		q.pc = compared
		x.emit(t, false, "request %d: the store has compared its stops", i)
	case compared:
		q.pc = recorded
		switch {
		case of == asks && s.stopped:
			t.broken = allowedAfter
		case of != asks && s.stopped, of != asks && x.Key && s.stops > 0:
			t.broken = redeemedAfter
		}
		t.redeemed = t.redeemed || of != asks
		x.emit(t, false, "request %d is recorded", i)
	case recorded:
		x.answer(s, i, v)
	case answered, turnedOff:
	}
}

// judge reads the generation, and judges by the view that has it. A repeated request finds its check.
func (x *explorer) judge(s *state, i int) {
	t := *s
	q, of := &t.requests[i], x.Requests[i]
	v := s.views[q.node]
	if v.generation != s.generation && (of != repeats || !x.is(ReplayUnproved)) {
		return // the node loads first
	}
	judgedBy := uint8(0) // the check of before
	switch of {
	case asks:
		if x.refuses(v) {
			q.pc = turnedOff
			x.emit(t, false, "request %d is blocked", i)
			return
		}
		q.pc, q.stops = judged, v.stops
	case repeats:
		q.pc = recorded
		if x.stops(v, judgedBy) && !s.redeemed {
			q.pc = turnedOff
		}
	case redeems, unread:
		q.pc, q.stops = judged, v.stops
		if s.redeemed || x.stopsRedemption(v, of, judgedBy) {
			q.pc = turnedOff
		}
	}
	x.emit(t, false, "request %d is judged", i)
}

// stopsRedemption reports whether a redemption is refused, or has to read the check first.
func (x *explorer) stopsRedemption(v view, of kind, judgedBy uint8) bool {
	if of == unread {
		return v.stops > 0 && !x.is(UnreadAlways)
	}
	return x.stops(v, judgedBy)
}

// answer answers a request whose check, or redemption, is recorded. An old one proves the generation first.
func (x *explorer) answer(s *state, i int, v view) {
	t := *s
	q, of := &t.requests[i], x.Requests[i]
	if q.old && !x.is(AnsweredUnproved) {
		if v.generation != s.generation {
			return // the node loads first
		}
		q.old, q.before = false, s.stopper < raised
		x.emit(t, false, "request %d: the generation is proved", i)
		return
	}
	judgedBy := q.stops
	if of == repeats {
		judgedBy = 0
	}
	done := of == redeems || of == unread || of == repeats && s.redeemed
	if v.stopped && !x.Key || !done && x.stops(v, judgedBy) {
		q.pc = turnedOff
		x.emit(t, false, "request %d is refused", i)
		return
	}
	q.pc = answered
	inForce := s.stopper == told && s.stopped
	switch {
	case x.Key && done: // it was redeemed before, and is no secret
	case inForce && done:
		t.broken = toldRedemption
	case inForce:
		t.broken = toldAllow
	case x.Key && of == repeats && s.stopper == told && s.takenBack:
		t.broken = toldStopped
	}
	x.emit(t, false, "request %d is answered", i)
}
