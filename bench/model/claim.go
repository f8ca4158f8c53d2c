package model

// pc is where an attempt stands: between two commands to Redis or two statements to the store. The
// constants have the names of the guard's functions.
type pc uint8

const (
	pcUnused pc = iota
	pcBegin
	pcSendClaims
	pcClaimFingerprint // SET f
	pcReadMarker       // GET m
	pcRenew
	pcLoad    // of the configuration: not begun
	pcLoading // in progress
	pcAwaitKey
	pcLookKey
	pcFenceKey
	pcAbsentUnderKey
	pcTakeKey
	pcAwaitFingerprint
	pcLookFingerprint
	pcFenceFingerprint
	pcAbsent
	pcTakeStale // takeFingerprint of a claim without a record
	pcTakeAged  // takeFingerprint of a recorded claim
	pcTakeReleased
	pcAdoptOrphan
	pcVerifyFresh
	pcLengthen // the long window's life is also kept in Redis
	pcGiveBack // f goes to the check that the store knows
	pcReadCounters
	pcCommit
	pcResolve
	pcResolveLook
	pcReport // a report: not sent
	pcReporting
	pcReportResolve
	pcReportLook
	pcDecide // a decision: not sent
	pcEnd
	pcDead
)

func (x *explorer) attempt(s *state, i int) {
	switch s.attempts[i].pc {
	case pcUnused, pcEnd, pcDead, pcRenew, pcLoad, pcLoading:
		// Nothing can happen, or the node's step is next.
	case pcBegin:
		x.begin(s, i)
	case pcSendClaims:
		x.sendClaims(s, i)
	case pcClaimFingerprint:
		t := *s
		x.claimFingerprint(&t, i)
	case pcReadMarker:
		x.readMarker(s, i)
	case pcAwaitKey, pcLookKey, pcFenceKey, pcAbsentUnderKey, pcTakeKey:
		x.awaitKey(s, i)
	case pcAwaitFingerprint, pcLookFingerprint, pcFenceFingerprint, pcAbsent:
		x.awaitFingerprint(s, i)
	case pcTakeStale, pcTakeAged, pcTakeReleased:
		x.takeFingerprint(s, i)
	case pcAdoptOrphan:
		x.adoptOrphan(s, i)
	case pcVerifyFresh, pcLengthen, pcGiveBack:
		x.verifyFresh(s, i)
	case pcReadCounters:
		x.readCounters(s, i)
	case pcCommit:
		x.record(s, i)
	case pcResolve, pcResolveLook:
		x.resolve(s, i)
	case pcReport, pcReporting, pcReportResolve, pcReportLook:
		x.report(s, i)
	case pcDecide:
		x.decide(s, i)
	}
}

func (x *explorer) node(i int) int { return x.Checks[i].Node }

func (x *explorer) server(s *state, i int) *server { return &s.servers[s.nodes[x.node(i)].hot] }

// name is the name space of an epoch.
func (x *explorer) name(e epoch) epoch {
	if x.is(SharedNames) {
		return 0
	}
	return e
}

func (x *explorer) fingerprint(s *state, i int) *slot {
	return &x.server(s, i).f[x.name(s.attempts[i].fence.epoch)][x.Checks[i].Fingerprint]
}

func (x *explorer) key(s *state, i int) *value {
	return &x.server(s, i).k[x.name(s.attempts[i].fence.epoch)]
}

// begin starts a request.
func (x *explorer) begin(s *state, i int) {
	if after := x.Checks[i].After; after > 0 && s.attempts[after-1].pc != pcEnd && s.attempts[after-1].pc != pcDead {
		return
	}
	if x.Checks[i].about() > 0 {
		x.beginReport(s, i)
		return
	}
	if x.Checks[i].Decides != noDecision {
		t := *s
		t.attempts[i].pc = pcDecide
		x.emit(&t, "begins", i)
		return
	}
	t := *s
	t.attempts[i].need, t.attempts[i].withdrawn = t.posted, t.answeredBefore(releaseAnswered)
	t.attempts[i].restored = t.answeredBefore(restoreAnswered)
	if s.approval.expired {
		t.attempts[i].withdrawn |= 1 << (recordedCheck - 1)
	}
	x.prepare(&t, i)
	x.emit(&t, "begins", i)
}

// prepare takes the configuration that the node has.
func (x *explorer) prepare(t *state, i int) {
	a, v := &t.attempts[i], t.nodes[x.node(i)].view
	a.view, a.version = v.label, v.version
	if a.fresh {
		a.view = label{}
	}
	a.pc = pcSendClaims
}

// vet looks at the server of a new connection; false means that the node's windows were built on
// another server.
func (x *explorer) vet(t *state, n int) bool {
	node := &t.nodes[n]
	if node.vetted {
		return true
	}
	srv := &t.servers[node.hot]
	if srv.marker.epoch != 0 && srv.marker.run != node.hot+1 && !x.is(NoRunID) {
		node.foreign = true
		return false
	}
	node.vetted = true
	return true
}

// renew waits for the node's renewal, unless the attempt is already in other windows.
func (x *explorer) renew(t *state, i int) {
	a, n := &t.attempts[i], &t.nodes[x.node(i)]
	a.pc = pcRenew
	if !n.foreign && n.windows.epoch != 0 && (n.windows.epoch != a.fence.epoch || n.windows.run != a.run) {
		x.renewed(t, i)
	}
}

func (x *explorer) renewed(t *state, i int) {
	a := &t.attempts[i]
	if a.anew {
		a.anew = false
		x.prepare(t, i)
		return
	}
	if a.pc = pcSendClaims; a.target != 0 && !x.claims(t, i) {
		a.pc = pcReport
	}
}

// sendClaims is the beginning of the batch: the generation and k.
func (x *explorer) sendClaims(s *state, i int) {
	t := *s
	a, n := &t.attempts[i], &t.nodes[x.node(i)]
	if f := (fence{n.inc, n.windows.epoch}); a.fence != f {
		x.releaseClaims(&t, i)
		a.fence = f
	}
	a.run, a.lazy = n.windows.run, !n.windows.full
	if !x.vet(&t, x.node(i)) {
		x.renew(&t, i)
		x.emit(&t, "is connected to a foreign server", i)
		return
	}
	srv := x.server(&t, i)
	a.read = srv.generation
	if x.is(GenerationOfEarlierBatch) && n.memory != 0 {
		a.read = n.memory
	}
	if x.is(MarkerFirst) {
		a.early = srv.marker
	}
	a.sentK, a.sentF = false, false
	if !x.Checks[i].Key || a.key.mine {
		x.claimFingerprint(&t, i)
		return
	}
	check, ok := t.freshID(i)
	if !ok {
		x.cut = true
		return
	}
	a.key = claim{value: value{check, n.inc, t.now, pending}}
	a.sentK = true
	k := x.key(&t, i)
	if a.heldK = *k; k.check == 0 {
		*k = a.key.value
	}
	a.pc = pcClaimFingerprint
	x.emitStep(&t, step{text: "sendClaims: SET k finds", who: i, found: a.heldK})
	x.lose(&t, i)
}

// claimFingerprint is SET f, in the batch that t has begun.
func (x *explorer) claimFingerprint(t *state, i int) {
	a := &t.attempts[i]
	a.pc = pcReadMarker
	if a.fingerprint.mine {
		x.emit(t, "sendClaims: holds f", i)
		return
	}
	check, ok := t.freshID(i)
	if !ok {
		x.cut = true
		return
	}
	until := t.now + tick(x.Checks[i].Window)
	if r := t.row(a.target); r != nil {
		until = r.until
	}
	a.fingerprint = claim{value: value{check, a.fence.node, t.now, pending}, until: until}
	a.sentF = true
	late := *t
	f := x.fingerprint(t, i)
	if a.heldF = f.value; f.check == 0 {
		*f = slot{a.fingerprint.value, a.fingerprint.until}
	}
	x.emitStep(t, step{text: "sendClaims: SET f finds", who: i, found: a.heldF})
	x.lose(t, i)
	if late.budgets.lateSets > 0 {
		late.budgets.lateSets--
		c := deferred{
			deferredLateSet, late.nodes[x.node(i)].hot, a.fence.epoch, false, uint8(x.Checks[i].Fingerprint),
			a.fingerprint.value,
			value{},
			a.fingerprint.until,
		}
		if x.queue(&late, c) {
			x.fail(&late, i)
			x.emitFault(&late, "SET f times out, to be carried out later", i)
		}
	}
}

// lose loses the replies to the part of a batch that was carried out.
func (x *explorer) lose(s *state, i int) {
	if s.budgets.lostReplies == 0 {
		return
	}
	t := *s
	t.budgets.lostReplies--
	x.fail(&t, i)
	x.emitFault(&t, "the replies are lost", i)
}

// fail releases what the batch may have claimed and ends the attempt.
func (x *explorer) fail(t *state, i int) {
	x.undo(t, i)
	x.end(t, i, answeredError, 0)
}

// undo releases what the round trip may have claimed.
func (x *explorer) undo(t *state, i int) {
	a := &t.attempts[i]
	if a.sentF {
		x.queueRelease(t, i, false, a.fingerprint.value)
	}
	if a.sentK {
		x.queueRelease(t, i, true, a.key.value)
	}
	a.sentK, a.sentF = false, false
}

// readMarker is the end of the batch: the marker certifies the batch, or nothing does.
func (x *explorer) readMarker(s *state, i int) {
	x.lose(s, i)
	t := *s
	a, n := &t.attempts[i], &t.nodes[x.node(i)]
	found := x.server(&t, i).marker
	if x.is(MarkerFirst) {
		found = a.early
	}
	a.early = marker{}
	known := marker{a.fence.epoch, a.run, false}
	if !x.certifies(found, known) || a.read == 0 {
		x.undo(&t, i)
		x.renew(&t, i)
		x.emit(&t, "sendClaims: the marker is another", i)
		return
	}
	if n.windows.sameWindows(known) && found.full {
		n.windows.full = true
	}
	a.lazy = a.lazy || !found.full
	if a.sentK {
		a.key.mine = a.heldK.check == 0
	}
	if a.sentF {
		a.fingerprint.mine = a.heldF.check == 0
		a.verify = a.lazy && !x.is(NoLazyLookup)
	}
	a.sentK, a.sentF = false, false
	if x.is(GenerationOfEarlierBatch) {
		n.memory = x.server(&t, i).generation
	}
	text := x.claim(&t, i)
	x.emit(&t, "sendClaims: certified; "+text, i)
}

// certifies reports whether the marker that a round trip found is the known one.
func (x *explorer) certifies(found, known marker) bool {
	return found.sameWindows(known) || x.is(NoRunID) && found.epoch == known.epoch
}

// claim decides by the certified batch.
func (x *explorer) claim(t *state, i int) string {
	a := &t.attempts[i]
	heldK, heldF := a.heldK, a.heldF
	a.heldK, a.heldF = value{}, value{}
	switch read := (label{a.fence.epoch, a.read}); {
	case a.view != label{} && a.view != read && !x.is(NoGeneration):
		x.releaseClaims(t, i)
		a.view = read
		a.pc = pcLoad
		return "the configuration is newer"
	case x.Checks[i].Key && !a.key.mine:
		a.read = 0
		if !x.is(LoserKeepsFingerprint) {
			x.releaseClaim(t, i, &a.fingerprint, false)
		}
		a.pc, a.met, a.key, a.lazy = pcAwaitKey, heldK, claim{}, false
		return "k is another's"
	case !a.fingerprint.mine:
		a.read = 0
		a.fingerprint, a.lazy = claim{}, false
		a.pc, a.met, a.waited = pcAwaitFingerprint, heldF, false
		if x.is(BlockUnverified) {
			return x.duplicate(t, i, heldF)
		}
		return "f is another's"
	case a.verify:
		a.read = 0
		a.pc = pcVerifyFresh
		return "f is mine, windows are lazy"
	default:
		a.read = 0
		x.pass(t, i)
		return "f is mine: passes"
	}
}
