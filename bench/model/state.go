package model

// Bounds of the state. A transition that would need more is not taken, and the
// search reports that it was cut.
const (
	maxChecks       = 4
	maxNodes        = 2
	maxServers      = 2
	maxEpochs       = 5 // 0 is no epoch
	maxFingerprints = 2
	maxCounters     = 2
	maxPeriods      = 2 // windows of a counter
	maxTxns         = 4
	maxRows         = 5
	maxDeferred     = 6
	idsPerCheck     = 8 // that may be in use at the same time
	incPerNode      = 4
	maxNonces       = 12
)

type (
	id          uint8 // names one SET and, once recorded, its check; 0 names nothing
	incarnation uint8 // of a node; 0 means no node
	epoch       uint8
	nonce       uint8 // of the configuration's generation
	tick        uint8 // Redis' clock, in units of the shortest window
)

// claimState is a holder's state as Redis has it.
type claimState uint8

const (
	free claimState = iota
	pending
	committed
	orphan
)

// value is what a claim holds: guard.holder.
type value struct {
	check id
	node  incarnation
	since tick
	state claimState
}

// as returns the same claim in another state.
func (v value) as(s claimState) value {
	v.state = s
	return v
}

// slot is a fingerprint's name in Redis.
type slot struct {
	value
	until tick
}

// marker certifies a server's windows.
type marker struct {
	epoch epoch
	run   uint8
	full  bool
}

func (m marker) sameWindows(o marker) bool { return m.epoch == o.epoch && m.run == o.run }

// server is one Redis. Idempotency keys live for 24 hours, so they do not expire here.
type server struct {
	marker     marker
	generation nonce
	f          [maxEpochs][maxFingerprints]slot
	k          [maxEpochs]value
}

// label names a state of the configuration: a generation within an epoch.
type label struct {
	epoch epoch
	nonce nonce
}

type fence struct {
	node  incarnation
	epoch epoch
}

// claim is one claim of an attempt.
type claim struct {
	mine          bool
	unverified    bool
	value         value
	until         tick
	replaced      value
	replacedUntil tick
}

// attempt is one check in progress: guard.Attempt and the request around it.
type attempt struct {
	pc       pc
	answer   answer
	answered id // the check that the answer shows

	need    uint8 // the version answered 201 before the check began
	version uint8 // by which it is judged
	fresh   bool  // the configuration was loaded since the check began
	view    label // under which that version was loaded

	fence fence
	run   uint8
	lazy  bool
	read  nonce  // the generation that the batch read
	early marker // read first, with that mutation

	sentK, sentF     bool
	heldK, heldF     value // found by the batch's SET NX GET
	fingerprint, key claim
	verify           bool
	met              value // the claim that is waited for
	waited           bool
	target           id    // the subject of a report
	full             uint8 // windows of its counters, a bit each, in which it did not fit at some moment
	withdrawn        uint8 // checks, by owner, whose release was answered before it began
	restored         uint8 // checks, by owner, whose correction was answered before it began

	txn      id
	settling bool // the client was answered 500
	reclaims uint8
	reads    bool // the check is read before the redemption, whose first commit was to compare
	anew     bool // after the renewal, look at the configuration again
}

type answer uint8

const (
	unanswered answer = iota
	answeredPass
	answeredDuplicate
	answeredReplay
	answeredReused
	answeredError
	answeredReport
	answeredRefused // 409: the approval cannot be used, or the step does not follow
	answeredRedeemed
	answeredReplayed     // the redemption of another request
	answeredReplayedLate // that of a check that is in doubt or has an outcome
	answeredShut         // refused a report that is to end a doubt
)

// txn is a transaction at the store, which lives on without its node.
type txn struct {
	state   txnState
	row     row
	fence   fence
	present bool
	by      uint8 // the report to which it belongs, from 1; 0 records its row
	unread  bool  // the report has abandoned it
	step    uint8 // the number of the step that is recorded
	compare bool  // the commit compares the check with the redemption, whose request has not read the check
}

type txnState uint8

const (
	txnSent txnState = iota
	txnEntered
	txnCommitted
	txnStaleEpoch
	txnFenced
	txnKeyTaken
	txnExceeded
	txnUnapproved
	txnOvertaken // by another step of the check
)

// row is a recorded check.
type row struct {
	check   id
	of      id // the check that it is a duplicate of; 0 for a pass
	since   tick
	until   tick
	judged  tick
	version uint8
	verdict verdict
	uses    bool // the approval
	outcome outcome
	course  course
}

// verdict is how a check that the guard let through was judged.
type verdict uint8

const (
	allowed  verdict = iota
	exceeded         // blocked by a budget
	untrue           // the same, though there was room at every moment of the request
	escalated
	blocked // by a rule
)

// outcome is what became of an allowed check.
type outcome uint8

const (
	noOutcome      outcome = iota
	releasePending         // reported by a key that may not release
	released
	releaseAnswered // the report was answered, too
	restored        // carried out after all
	restoreAnswered
)

func (r *row) released() bool { return r.outcome == released || r.outcome == releaseAnswered }

// leavesNone reports whether the check leaves no fingerprint, because it was blocked as exceeded.
func (r *row) leavesNone() bool { return r.verdict == exceeded || r.verdict == untrue }

// deferred is a command that is carried out later.
type deferred struct {
	kind  deferredKind
	node  uint8 // its queue; the server, of a late SET
	epoch epoch
	key   bool // the name is an idempotency key's
	fp    uint8
	mine  value
	old   value
	until tick
}

type deferredKind uint8

const (
	noCommand deferredKind = iota
	deferredRelease
	deferredRestore
	deferredMarkOrphan
	deferredLateSet
)

type view struct {
	label   label
	version uint8
}

// node is one process.
type node struct {
	alive   bool
	inc     incarnation
	windows marker
	hot     uint8 // the server that claims go to
	plain   uint8 // the server that markers and generations go to
	vetted  bool
	foreign bool
	view    view
	loading bool // the catalogue's load is in progress
	load    view // what the load read
	memory  nonce
	renewal renewal
	loader  loader
	// exhausted are the counters' windows that refused a check of this node.
	exhausted uint8
	seen      uint8 // checks, by owner, that were found recorded: only a mutation remembers
}

type renewal struct {
	pc    renewalPC
	epoch epoch
	next  epoch
	run   uint8
	seen  marker
}

type renewalPC uint8

const (
	renewalIdle renewalPC = iota
	renewalServer
	renewalRotate
	renewalGeneration
	renewalSwap
)

type loader struct {
	pc      loaderPC
	windows marker
	passes  [maxRows]id // still to be resolved
	stale   value       // of a contested name, whose node is being fenced
	pass    id          // that the name belongs to
}

type loaderPC uint8

const (
	loaderIdle loaderPC = iota
	loaderPasses
	loaderFenced
)

// author posts new versions of the policy.
type author struct {
	pc    authorPC
	left  uint8
	found epoch // in the marker, after the generation was raised; 0 if another server wrote it
	known marker
}

type authorPC uint8

const (
	authorIdle authorPC = iota
	authorRaise
	authorConfirm
	authorRenew
)

// budgets are the faults still to come.
type budgets struct {
	crashes, flushes, lostCommits, lostReplies, lateSets, deadlines, failovers, suspicions, ticks, setBacks uint8
}

// state is everything: it is compared, hashed and copied as a whole. Every field is one byte, so
// that there is no padding and hashing is fast.
type state struct {
	now      tick
	epoch    epoch           // the store's
	fenced   [maxNodes]uint8 // of each process, by incarnation
	version  uint8           // the store's
	posted   uint8           // answered 201
	author   author
	budgets  budgets
	key      id // the row under the idempotency key
	rows     [maxRows]row
	used     usage // of the counters
	approval approval
	txns     [maxTxns]txn
	deferred [maxDeferred]deferred
	nodes    [maxNodes]node
	attempts [maxChecks]attempt
	servers  [maxServers]server
}

func (i id) owner() int                 { return int(i-1) / idsPerCheck }
func (i incarnation) process() int      { return int(i-1) / incPerNode }
func (s *state) recorded(check id) bool { return s.row(check) != nil }

func (s *state) row(check id) *row {
	for i := range s.rows {
		if check != 0 && s.rows[i].check == check {
			return &s.rows[i]
		}
	}
	return nil
}

func (i incarnation) bit() uint8 { return 1 << (int(i-1) % incPerNode) }

func (s *state) isFenced(n incarnation) bool { return s.fenced[n.process()]&n.bit() != 0 }

// entered reports whether a transaction that matches holds its locks.
func (s *state) entered(match func(fence) bool) bool {
	for i := range s.txns {
		if t := &s.txns[i]; t.present && t.state == txnEntered && match(t.fence) {
			return true
		}
	}
	return false
}
