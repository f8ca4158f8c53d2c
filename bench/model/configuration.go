package model

// authorNode is where policies are posted.
const authorNode = 1

// loadOf is the catalogue's load on a node: one at a time, which checks join if they asked before
// it began.
func (x *explorer) loadOf(s *state, n int) {
	if s.nodes[n].loading {
		x.loaded(*s, n)
	}
	for i := range x.Checks {
		a := &s.attempts[i]
		if x.node(i) != n || a.pc != pcLoad {
			continue
		}
		t := *s
		node := &t.nodes[n]
		switch {
		case node.view.label == a.view:
			t.attempts[i].fresh = true
			x.prepare(&t, i)
			x.emit(&t, "catalog: the node has that generation", i)
		case !node.loading:
			node.load, node.loading = view{a.view, t.version}, true
			for j := range x.Checks {
				if b := &t.attempts[j]; x.node(j) == n && b.pc == pcLoad {
					b.pc = pcLoading
				}
			}
			x.emit(&t, "catalog: a load begins", i)
		case x.is(JoinsEarlierLoad):
			t.attempts[i].pc = pcLoading
			x.emit(&t, "catalog: joins the load in progress", i)
		}
	}
}

// loaded ends a load, and the wait of the checks that joined it.
func (x *explorer) loaded(t state, n int) {
	node := &t.nodes[n]
	node.view, node.load, node.loading = node.load, view{}, false
	for i := range x.Checks {
		if a := &t.attempts[i]; x.node(i) == n && a.pc == pcLoading {
			a.fresh = true
			x.prepare(&t, i)
		}
	}
	x.emit(&t, "catalog: the configuration is loaded", n)
}

// authorOf posts a version: it commits, raises the generation, and answers.
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
