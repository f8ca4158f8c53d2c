package model

import "slices"

// renewalOf brings a node into the epoch in force, or begins one.
func (x *explorer) renewalOf(s *state, n int) {
	t := *s
	node := &t.nodes[n]
	r := &node.renewal
	srv := &t.servers[node.plain]
	switch r.pc {
	case renewalIdle:
		if !x.wantsRenewal(s, n) {
			return
		}
		node.foreign = false
		*r = renewal{pc: renewalServer, epoch: t.epoch}
		x.emit(&t, "renewal: reads the store's epoch", n)
	case renewalServer:
		r.run = node.plain + 1
		x.enterEpoch(&t, n)
	case renewalRotate:
		x.rotate(&t, n)
	case renewalGeneration:
		g, ok := t.freshNonce()
		if !ok {
			x.cut = true
			return
		}
		srv.generation = g
		r.pc = renewalSwap
		x.emit(&t, "beginEpoch: sets a generation", n)
	case renewalSwap:
		if srv.marker != r.seen && !x.is(MarkerOverwritten) {
			*r = renewal{}
			x.emit(&t, "beginEpoch: the marker moved", n)
			return
		}
		srv.marker = marker{epoch: r.next, run: r.run, full: x.is(NoLazyEpoch)}
		x.enterWindows(&t, n, srv.marker)
		x.emit(&t, "beginEpoch: publishes the epoch", n)
	}
}

func (x *explorer) wantsRenewal(s *state, n int) bool {
	if s.author.pc == authorRenew && n == authorNode {
		return true
	}
	for i := range x.Checks {
		if x.node(i) == n && s.attempts[i].pc == pcRenew {
			return true
		}
	}
	return false
}

// enterEpoch adopts the epoch that Redis and the store agree on, or begins one.
func (x *explorer) enterEpoch(t *state, n int) {
	node := &t.nodes[n]
	r, srv := &node.renewal, &t.servers[node.plain]
	if found := srv.marker; found.epoch == r.epoch && (found.run == r.run || x.is(NoRunID)) {
		if srv.generation == 0 {
			g, ok := t.freshNonce()
			if !ok {
				x.cut = true
				return
			}
			srv.generation = g
		}
		x.enterWindows(t, n, found)
		x.emit(t, "enterEpoch: adopts the epoch", n)
		return
	}
	r.seen, r.pc = srv.marker, renewalRotate
	x.emit(t, "enterEpoch: the windows are lost", n)
}

// rotate is Store.RotateEpoch: it waits for the commits in progress and refuses
// later ones of older epochs.
func (x *explorer) rotate(t *state, n int) {
	r := &t.nodes[n].renewal
	if t.entered(func(fence) bool { return true }) && !x.is(RotationDoesNotWait) && !x.is(NoEpochFence) {
		return
	}
	if t.epoch != r.epoch {
		*r = renewal{}
		x.emit(t, "beginEpoch: another node was faster", n)
		return
	}
	next, ok := t.freshEpoch()
	if !ok {
		x.cut = true
		return
	}
	t.epoch, r.next, r.pc = next, next, renewalGeneration
	x.emit(t, "beginEpoch: rotates the epoch", n)
}

// enterWindows ends the renewal and wakes the attempts that waited for it.
func (x *explorer) enterWindows(t *state, n int, m marker) {
	node := &t.nodes[n]
	node.windows, node.renewal, node.loader = m, renewal{}, loader{}
	for i := range x.Checks {
		if x.node(i) == n && t.attempts[i].pc == pcRenew {
			x.renewed(t, i)
		}
	}
	if t.author.pc == authorRenew && n == authorNode {
		t.author.pc, t.author.known = authorRaise, marker{}
	}
}

// loaderOf copies the live passes of the store into lazy windows.
func (x *explorer) loaderOf(s *state, n int) {
	t := *s
	node := &t.nodes[n]
	l := &node.loader
	switch {
	case x.Loader != n+1 || node.windows.full || node.windows.epoch == 0:
	case l.pc == loaderIdle:
		*l = loader{pc: loaderPasses, windows: node.windows}
		for k, r := range t.rows {
			if r.check != 0 && x.isLivePass(&t, r, x.fingerprintOf(r.check), x.is(ReleasedAreLoaded)) {
				l.passes[k] = r.check
			}
		}
		x.emit(&t, "loadWindows: pages the passes", n)
	case l.pc == loaderFenced:
		x.resolveStale(&t, n)
	case l.passes == [maxRows]id{}:
		srv := &t.servers[node.plain]
		if srv.marker == l.windows {
			srv.marker.full = true
			node.windows.full = true
		}
		*l = loader{}
		x.emit(&t, "loadWindows: certifies the windows as full", n)
	default:
		x.loadPasses(s, &t, n)
	}
}

// loadPasses writes passes under free names, newest first, and keeps the passes whose name is held
// by a claim without a record.
func (x *explorer) loadPasses(s, t *state, n int) {
	node := &t.nodes[n]
	l := &node.loader
	names := &t.servers[node.plain].f[x.name(l.windows.epoch)]
	var contested []row
	for since := int(t.now); since >= 0; since-- {
		for _, r := range t.rows {
			k := slices.Index(l.passes[:], r.check)
			if r.check == 0 || k < 0 || int(r.since) != since {
				continue
			}
			f := &names[x.fingerprintOf(r.check)]
			if r.until > t.now && f.check == 0 {
				*f = slot{passHolder(r), r.until}
			} else if r.until > t.now && f.state != committed && !t.recorded(f.check) && !x.is(LoaderDoesNotWait) {
				contested = append(contested, r)
				continue
			}
			l.passes[k] = 0
		}
	}
	if *t != *s {
		x.emit(t, "loadPasses: writes what is free", n)
	}
	for _, r := range contested {
		u := *s
		held := names[x.fingerprintOf(r.check)].value
		if x.inFlightOn(&u, n, held.check) {
			continue
		}
		if held.node.process() != n && !x.fenceNode(&u, held.node) {
			continue
		}
		u.nodes[n].loader.pc, u.nodes[n].loader.stale, u.nodes[n].loader.pass = loaderFenced, held, r.check
		x.emit(&u, "resolveContested: makes a stale claim final", n)
	}
}

func (x *explorer) inFlightOn(s *state, n int, check id) bool {
	if check == 0 || check.owner() >= len(x.Checks) || x.node(check.owner()) != n {
		return false
	}
	a := &s.attempts[check.owner()]
	return a.pc != pcEnd && a.pc != pcDead && (a.fingerprint.value.check == check || a.key.value.check == check || a.txn == check)
}

// resolveStale replaces a claim that will never be recorded by the pass.
func (x *explorer) resolveStale(t *state, n int) {
	node := &t.nodes[n]
	l := &node.loader
	f := &t.servers[node.plain].f[x.name(l.windows.epoch)][x.fingerprintOf(l.pass)]
	r := t.row(l.pass)
	taken := r != nil && f.value == l.stale
	if resolved := taken || t.recorded(l.stale.check); !resolved && !x.is(ContestedSwapTrusted) {
		l.pc, l.stale, l.pass = loaderPasses, value{}, 0
		x.emit(t, "resolveContested: the name changed", n)
		return
	}
	if taken && !t.recorded(l.stale.check) {
		*f = slot{passHolder(*r), max(t.now+1, r.until)}
	}
	if k := slices.Index(l.passes[:], l.pass); k >= 0 {
		l.passes[k] = 0
	}
	l.pc, l.stale, l.pass = loaderPasses, value{}, 0
	x.emit(t, "resolveContested: takes its place", n)
}
