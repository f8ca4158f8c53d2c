package model

// authorNode is where policies are posted.
const authorNode = 1

// loadOf is the catalogue's load on a node: one at a time, joined by the checks
// that asked before it began.
func (x *explorer) loadOf(s *state, n int) {
	waiting := func(t *state, from, to pc, done func(*attempt)) {
		for i := range x.Checks {
			if a := &t.attempts[i]; x.node(i) == n && a.pc == from {
				a.pc = to
				done(a)
			}
		}
	}
	node := &s.nodes[n]
	if node.loading {
		t := *s
		t.nodes[n].view, t.nodes[n].load, t.nodes[n].loading = node.load, view{}, false
		waiting(&t, pcLoading, pcHotBatch, func(a *attempt) { a.fresh = true })
		for i := range x.Checks {
			if x.node(i) == n && s.attempts[i].pc == pcLoading {
				x.prepare(&t, i)
			}
		}
		x.emit(&t, "catalog: the configuration is loaded", n)
	}
	for i := range x.Checks {
		a := &s.attempts[i]
		if x.node(i) != n || a.pc != pcLoad {
			continue
		}
		t := *s
		switch {
		case node.view.label == a.view:
			t.attempts[i].fresh = true
			x.prepare(&t, i)
			x.emit(&t, "catalog: the node has that generation", i)
		case !node.loading:
			t.nodes[n].load, t.nodes[n].loading = view{a.view, t.version}, true
			waiting(&t, pcLoad, pcLoading, func(*attempt) {})
			x.emit(&t, "catalog: a load begins", i)
		case x.is(JoinsEarlierLoad):
			t.attempts[i].pc = pcLoading
			x.emit(&t, "catalog: joins the load under way", i)
		}
	}
}

// authorOf posts a version: committed, the generation raised, answered.
func (x *explorer) authorOf(s *state) {
	node := &s.nodes[authorNode]
	if !node.alive {
		return
	}
	t := *s
	au, srv := &t.author, &t.servers[node.plain]
	switch au.pc {
	case authorIdle:
		if au.left == 0 {
			return
		}
		au.left--
		t.version++
		au.pc = authorRaise
		if x.is(AnswerBeforeRaise) {
			t.posted = t.version
		}
		x.emit(&t, "CreatePolicy: a version is committed", authorNode)
	case authorRaise:
		g, ok := t.freshNonce()
		if !ok {
			x.cut = true
			return
		}
		srv.generation = g
		au.pc, au.found, au.known = authorConfirm, srv.marker.epoch, node.windows
		if srv.marker.run != node.plain+1 && !x.is(RaiseOnCopy) && !x.is(NoRunID) {
			au.found = 0
		}
		x.emit(&t, "RaiseGeneration: sets a generation", authorNode)
	case authorConfirm:
		if au.found == t.epoch || x.is(RaiseNotConfirmed) {
			*au = author{left: au.left}
			t.posted = t.version
			x.emit(&t, "CreatePolicy: is answered 201", authorNode)
			return
		}
		if au.pc = authorRenew; node.windows != au.known {
			au.pc = authorRaise
		}
		x.emit(&t, "RaiseGeneration: this redis is not the store's epoch's", authorNode)
	case authorRenew:
	}
}
