package model

// duplicate appends a check that names the one it met. The appended check has an ID of its own and
// leaves no window.
func (x *explorer) duplicate(t *state, i int, h value) string {
	if x.Checks[i].Uses && x.approvalStatus(t) != approvalApproved {
		x.end(t, i, answeredRefused, 0)
		return "the approval cannot be used"
	}
	check, ok := t.freshID(i)
	if !ok {
		x.cut = true
	}
	x.append(t, i, row{check: check, of: h.check, since: t.now, version: t.attempts[i].version})
	return "commits a duplicate"
}

func (x *explorer) append(t *state, i int, r row) {
	a := &t.attempts[i]
	r.judged = t.now
	a.pc, a.txn, a.met, a.waited, a.lazy, a.verify = pcCommit, r.check, value{}, false, false, false
	x.appendTxn(t, txn{row: r, fence: a.fence, present: true})
}

func (x *explorer) appendTxn(t *state, c txn) {
	for n := range t.txns {
		if !t.txns[n].present {
			t.txns[n] = c
			return
		}
	}
	x.cut = true
}

// commits are the transactions in progress at the store, as in Trail.Commit.
func (x *explorer) commits(s *state) {
	for n := range s.txns {
		if !s.txns[n].present {
			continue
		}
		t := *s
		c := &t.txns[n]
		owner := c.row.check.owner()
		var text string
		switch {
		case c.state == txnSent && c.by > 0:
			text, owner = x.commitReport(&t, c), int(c.by)-1
		case c.state == txnSent:
			x.usedBefore(&t, c)
			text = x.enter(&t, c)
		case c.state == txnEntered:
			text = x.commit(&t, c)
		default:
			if x.isAwaited(&t, c) {
				continue
			}
			*c = txn{}
			text = "nobody waits for the outcome"
		}
		x.emit(&t, "commit: "+text, owner)
	}
}

// isAwaited reports whether the outcome of a transaction is still to be read.
func (x *explorer) isAwaited(t *state, c *txn) bool {
	if c.by > 0 {
		return !c.unread && t.attempts[c.by-1].pc == pcReporting
	}
	return t.attempts[c.row.check.owner()].txn == c.row.check
}

// enter is the fence at the beginning of each commit.
func (x *explorer) enter(t *state, c *txn) string {
	switch {
	case c.fence.epoch != t.epoch && !x.is(NoEpochFence):
		c.state = txnStaleEpoch
		return "refused, its epoch is over"
	case t.isFenced(c.fence.node) && !x.is(NoNodeFence):
		c.state = txnFenced
		return "refused, its node is fenced"
	case c.by == 0 && x.is(CountersInAnotherTransaction) && !x.take(t, &c.row):
		c.state = txnExceeded
		return "refused, there is no room"
	case x.refusedForOthers(t, c):
		c.state = txnExceeded
		return "refused, there is no room beside its batch"
	default:
		c.state = txnEntered
		return "enters"
	}
}

func (x *explorer) commit(t *state, c *txn) string {
	keyed := x.Checks[c.row.check.owner()].Key
	if keyed && t.key != 0 && !x.is(KeysNotUnique) {
		c.state = txnKeyTaken
		return "refused, its key is taken"
	}
	if !x.mayUse(t, c) {
		c.state = txnUnapproved
		return "refused, the approval cannot be used"
	}
	if !x.is(CountersInAnotherTransaction) && !x.take(t, &c.row) {
		c.state = txnExceeded
		return "refused, there is no room"
	}
	if !x.markUsed(t, c) {
		c.state = txnUnapproved
		return "refused, another check has used the approval"
	}
	x.write(t, c.row)
	if keyed {
		t.key = c.row.check
	}
	c.state = txnCommitted
	return "is recorded"
}

// fenceNode is Store.Fence: it waits for the commits in progress and refuses later ones.
func (x *explorer) fenceNode(t *state, n incarnation) bool {
	if x.is(NoNodeFence) || n == 0 {
		return true
	}
	if t.entered(func(f fence) bool { return f.node == n }) && !x.is(FenceDoesNotWait) {
		return false
	}
	t.fenced[n.process()] |= n.bit()
	return true
}

// record waits for the commit and acts on its outcome.
func (x *explorer) record(s *state, i int) {
	a := &s.attempts[i]
	x.abandon(s, i)
	var c txn
	for n := range s.txns {
		if s.txns[n].present && s.txns[n].by == 0 && s.txns[n].row.check == a.txn {
			c = s.txns[n]
		}
	}
	if s.budgets.lostCommits > 0 {
		t := *s
		t.budgets.lostCommits--
		t.attempts[i].pc = pcResolve
		x.retire(&t, i)
		x.emitFault(&t, "the connection is lost in COMMIT", i)
	}
	t := *s
	switch c.state {
	case txnSent, txnEntered, txnOvertaken: // the last is of reports
		return
	case txnCommitted:
		x.committed(&t, i)
		x.emit(&t, "is answered 200", i)
	case txnStaleEpoch:
		x.reclaim(&t, i, true)
		x.emit(&t, "learns that its epoch is over", i)
	case txnFenced:
		x.reclaim(&t, i, false)
		x.emit(&t, "learns that its node is fenced", i)
	case txnExceeded:
		x.emit(&t, "learns that a counter has no room; "+x.refused(&t, i), i)
	case txnUnapproved:
		x.forget(&t, i)
		x.end(&t, i, answeredRefused, 0)
		x.emit(&t, "learns that it may not use the approval", i)
	case txnKeyTaken:
		if !t.attempts[i].settling { // k stays: whoever meets it asks the store first
			x.releaseClaim(&t, i, &t.attempts[i].fingerprint, false)
			t.attempts[i].key = claim{}
		}
		x.replay(&t, i)
		x.emit(&t, "keyTaken: is answered the other's check", i)
	}
}

// committed ends an attempt whose check is recorded. Its claims stay.
func (x *explorer) committed(t *state, i int) {
	a := &t.attempts[i]
	r := t.row(a.txn)
	if r != nil && r.leavesNone() {
		if x.is(ExceededForgetsHolder) {
			a.fingerprint.replaced = value{}
		}
		x.releaseClaim(t, i, &a.fingerprint, false)
	}
	a.fingerprint, a.key = claim{}, claim{}
	kind := answeredPass
	if r != nil && r.of != 0 {
		kind = answeredDuplicate
	}
	if r != nil && r.verdict == exceeded && a.full&(1<<x.period(r.since)) == 0 {
		r.verdict = untrue
	}
	x.end(t, i, kind, a.txn)
}

// reclaim makes an attempt that the fence refused ready to claim anew; it releases an attempt whose
// client was already refused.
func (x *explorer) reclaim(t *state, i int, staleEpoch bool) {
	a := &t.attempts[i]
	x.releaseClaims(t, i)
	a.txn = 0
	if a.settling {
		x.end(t, i, answeredError, 0)
		return
	}
	if a.reclaims++; int(a.reclaims) > x.Reclaims {
		if !staleEpoch {
			x.retire(t, i)
		}
		x.end(t, i, answeredError, 0)
		return
	}
	if !staleEpoch {
		x.retire(t, i)
		x.prepare(t, i)
		return
	}
	a.anew = true
	x.renew(t, i)
}

// retire gives the node a new name, if it still has the attempt's.
func (x *explorer) retire(t *state, i int) {
	n := &t.nodes[x.node(i)]
	if n.inc != t.attempts[i].fence.node {
		return
	}
	inc, ok := t.freshIncarnation(x.node(i))
	if !ok {
		x.cut = true
		return
	}
	n.inc = inc
}

// abandon answers the client 500 while its commit is in progress.
func (x *explorer) abandon(s *state, i int) {
	if s.budgets.deadlines == 0 || s.attempts[i].settling {
		return
	}
	t := *s
	a := &t.attempts[i]
	t.budgets.deadlines--
	a.settling = true
	if a.fingerprint.mine && !x.Checks[i].Key {
		c := deferred{
			kind: deferredMarkOrphan, node: uint8(x.node(i)), epoch: a.fence.epoch, fp: uint8(x.Checks[i].Fingerprint), mine: a.fingerprint.value,
		}
		if !x.queue(&t, c) {
			return
		}
		a.fingerprint.value = a.fingerprint.value.as(orphan)
	}
	x.emitFault(&t, "abandon: is answered 500", i)
}

// resolve determines how a commit ended whose connection was lost.
func (x *explorer) resolve(s *state, i int) {
	x.abandon(s, i)
	t := *s
	a := &t.attempts[i]
	if a.pc == pcResolve {
		if x.is(NoOwnFence) || x.fenceNode(&t, a.fence.node) {
			a.pc = pcResolveLook
			x.emit(&t, "resolve: fences its own incarnation", i)
		}
		return
	}
	if t.recorded(a.txn) && !x.is(ReleaseRecorded) {
		x.committed(&t, i)
		x.emit(&t, "resolve: is recorded", i)
		return
	}
	x.reclaim(&t, i, false)
	x.emit(&t, "resolve: is absent", i)
}

// end ends an attempt with nothing held.
func (x *explorer) end(t *state, i int, kind answer, answered id) {
	x.releaseClaims(t, i)
	a := &t.attempts[i]
	if a.settling {
		kind, answered = answeredError, 0
	}
	*a = attempt{pc: pcEnd, answer: kind, answered: answered, need: a.need, withdrawn: a.withdrawn, restored: a.restored}
}

// releaseClaims releases what the attempt holds: f before k.
func (x *explorer) releaseClaims(t *state, i int) {
	x.releaseClaim(t, i, &t.attempts[i].fingerprint, false)
	x.releaseClaim(t, i, &t.attempts[i].key, true)
}

// releaseClaim queues the release of one claim. A recorded claim that it had replaced is put back;
// an unverified one is left to be taken over.
func (x *explorer) releaseClaim(t *state, i int, h *claim, key bool) {
	switch {
	case !h.mine || h.unverified:
	case h.replaced.check != 0:
		c := deferred{
			kind: deferredRestore, node: uint8(x.node(i)), epoch: t.attempts[i].fence.epoch, fp: uint8(x.Checks[i].Fingerprint),
			mine: h.value, old: h.replaced, until: h.replacedUntil,
		}
		x.queueFor(t, c)
	default:
		x.queueRelease(t, i, key, h.value)
	}
	*h = claim{}
}

func (x *explorer) queueRelease(t *state, i int, key bool, v value) {
	x.queueFor(t, deferred{
		kind: deferredRelease, node: uint8(x.node(i)), epoch: t.attempts[i].fence.epoch, key: key,
		fp: uint8(x.Checks[i].Fingerprint), mine: v,
	})
}

// queueFor queues a deferred command, unless no name has its value, so that it would do nothing.
func (x *explorer) queueFor(t *state, c deferred) {
	e := x.name(c.epoch)
	here := false
	for n := range t.servers {
		held := t.servers[n].f[e][c.fp].value
		if c.key {
			held = t.servers[n].k[e]
		}
		here = here || x.same(held, c.mine) || held.check == c.mine.check
	}
	for n := range t.deferred {
		here = here || t.deferred[n].kind == deferredLateSet && t.deferred[n].mine == c.mine
	}
	if here {
		x.queue(t, c)
	}
}

// queue returns false if there is no room.
func (x *explorer) queue(t *state, c deferred) bool {
	if c.key {
		c.fp = 0
	}
	for n := range t.deferred {
		if t.deferred[n].kind == noCommand {
			t.deferred[n] = c
			return true
		}
	}
	x.cut = true
	return false
}

// same compares the whole value.
func (x *explorer) same(a, b value) bool {
	if x.is(PartialRelease) {
		return a.node == b.node && a.state == b.state
	}
	return a == b
}

// deferredOf carries out deferred commands in any order: those that fail are sent again.
func (x *explorer) deferredOf(s *state) {
	for n := range s.deferred {
		if s.deferred[n].kind == noCommand {
			continue
		}
		t := *s
		c := t.deferred[n]
		t.deferred[n] = deferred{}
		srv := &t.servers[c.node]
		if c.kind != deferredLateSet {
			if !x.vet(&t, int(c.node)) {
				continue
			}
			srv = &t.servers[t.nodes[c.node].hot]
		}
		k, f := &srv.k[x.name(c.epoch)], &srv.f[x.name(c.epoch)][c.fp]
		switch {
		case c.key && x.same(*k, c.mine):
			*k = value{}
		case c.key:
		case c.kind == deferredLateSet && f.check == 0 && c.until > t.now:
			*f = slot{c.mine, c.until}
		case c.kind == deferredLateSet || !x.same(f.value, c.mine):
		case c.kind == deferredMarkOrphan:
			f.state = orphan
		case c.kind == deferredRestore && c.until > t.now && !x.is(ReleaseInsteadOfRestore):
			*f = slot{c.old, c.until}
		default:
			*f = slot{}
		}
		x.emitStep(&t, step{
			text: [...]string{"", "release", "restore", "markOrphan", "a late SET"}[c.kind] + " is carried out:", who: int(c.node), found: c.mine,
		})
	}
}
