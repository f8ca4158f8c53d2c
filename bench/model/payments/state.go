package payments

// Bounds of the state. A transition that would need more is not taken, and the search reports that it
// was cut.
const (
	maxChecks   = 5
	maxCallers  = 3
	maxCalls    = 2 // of a caller
	maxRequests = 5
	maxAttempts = 4 // redeemed checks of a payment
)

// The payments.
const (
	askers    = 0 // of the callers' principal
	executors = 1 // of who redeems by id, in a namespace of its own
	payments  = 2
)

type (
	nonce     uint8 // of a call; 0 is none
	execution uint8 // stands for an execution_id; 0 is none
	id        uint8 // of a check, from 1; 0 is none
	set       uint8 // of payments, or of nonces
)

func (n nonce) bit() set       { return 1 << n }
func (s set) has(i uint8) bool { return s&(1<<i) != 0 }

// row is a payment's. Its version is a number only where it can be removed: whoever read it knows whether it is still the same.
type row struct {
	version uint8
	current id
	round   uint8
	settled uint8 // how many of its checks were ever reported executed or failed
	nonces  set   // that ever redeemed or took over
	over    bool  // the hours after the execution are over
}

type verdict uint8

const (
	allowed verdict = 1 << iota
	asks            // it waits for an approval
)

type approval uint8

const (
	noApproval approval = iota
	pending
	approved
	used
	denied
	withdrawn
	expired
)

type outcome uint8

const (
	noOutcome outcome = iota
	executed
	failed
	voided
)

// check is a recorded check with the steps of its course.
type check struct {
	of       set // payments
	action   uint8
	round    uint8
	verdict  verdict
	approval approval // that it asked for
	steps    uint8    // how many are recorded
	first    nonce    // who redeemed it
	holder   nonce    // who redeemed it, or took it over last
	named    set      // nonces that redeemed it or took it over
	byID     bool     // it was redeemed by its id
	exec     execution
	doubt    bool
	settled  bool // it was ever reported executed or failed
	outcome  outcome
	released bool // what it took was given back
	twice    bool // flag paid_twice
}

func (c *check) present() bool { return c.verdict != 0 }
func (c *check) open() bool {
	return c.verdict == allowed && c.holder == 0 && c.outcome == noOutcome
}
func (c *check) givenBack() bool { return c.outcome >= failed && c.released }

// store is what is recorded.
type store struct {
	rows   [payments]row
	checks [maxChecks]check
}

func (s *store) check(i id) *check {
	if i == 0 {
		return nil
	}
	return &s.checks[i-1]
}

// kind is what a request is.
type kind uint8

const (
	noRequest kind = iota
	asking         // POST /v1/checks
	redeeming      // by id
	reporting
	doubting
	lapsing
)

type requestPC uint8

const (
	sent requestPC = iota
	decided
	answered // with proceed true
)

// operation is what a request is about to commit.
type operation uint8

const (
	noOperation operation = iota
	insertCheck
	redeem
	takeOver
	report
	lapse
	doubt
)

// plan is what a request has decided by what it read.
type plan struct {
	op       operation
	check    id    // of a step; the new check, once it is committed
	step     uint8 // the number of the step
	verdict  verdict
	uses     id // the check whose approval the new check uses
	replaces id // the check that is voided, or whose approval is withdrawn, in the same commit
	voidStep uint8
	redeems  bool // the new check, in the same commit
	outcome  outcome
	released bool
	twice    bool
}

// request is on its way to a node, or is there, or its answer is on its way back.
type request struct {
	kind    kind
	pc      requestPC
	caller  uint8 // from 1; 0 is the service, or whoever compares the provider's ledger
	nonce   nonce
	heard   bool  // its caller waits for the answer
	txn     bool  // its node is gone, or has abandoned it: only the transaction lives on
	fresh   set   // payments that are as they were read
	seen    uint8 // the version of the askers' payment as it was read, where it can be removed
	check   id    // that it is about
	outcome outcome
	plan    plan
}

type callerPC uint8

const (
	idle  callerPC = iota
	waits          // for an answer
	carriesOut
	reports
	dead
)

type body uint8

const (
	noBody   body = iota
	begun         // the provider may still get it
	moved         // the provider said: the money moved
	declined      // the provider said: nothing moved
	unsent        // nothing reached the provider, and nothing will
)

// caller is a guard.
type caller struct {
	pc    callerPC
	calls uint8 // begun
	old   bool  // the call is older than a doubt: it begins no body
	body  body
	check id
	exec  execution
}

// charge is what the provider knows about an execution_id.
type charge struct {
	round   uint8
	outcome body  // the first answer
	times   uint8 // how often the money moved
}

type faults struct {
	lostAnswers, lostCommits, deaths, restores, claims, rounds, removals uint8
}

// state is everything: it is compared, hashed and copied as a whole. Every field is one byte.
type state struct {
	store    store
	backup   store
	backedUp bool
	restored bool
	begun    set // checks with bodies
	broken   promise
	faults   faults
	callers  [maxCallers]caller
	requests [maxRequests]request
	charges  [(payments + 1) * maxAttempts]charge
}

func (s *state) charge(e execution) *charge { return &s.charges[e-1] }
