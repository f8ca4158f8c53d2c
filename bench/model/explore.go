package model

import (
	"fmt"

	"spendgate/bench/model/search"
)

// Check is one request for a check.
type Check struct {
	Node        int
	Key         bool // it carries the idempotency key
	Request     int  // what it asks for; equal numbers mean equal requests
	Fingerprint int
	Window      int // of its policy, in ticks
	After       int // it begins when that check has ended, from 1; 0 means at any time

	Charges [maxCounters]uint8 // what it takes from each counter if it is allowed
	// Voids makes it a report that voids that check, from 1; recordedCheck is the check recorded
	// when the search begins.
	Voids   int
	Pending bool // its key may not release
	// Restores makes it a correction: a report that the check, from 1 or recordedCheck, was carried
	// out after all, once a report has given it back.
	Restores int

	Redeems  int  // makes it a redemption of that check, from 1 or recordedCheck
	Compared bool // first by a commit that compares the action: the check is not read before
	Differs  bool // the redemption is for another action than the check's
	Replay   int  // its Idempotency-Key; 0 means no key
	Doubts   int  // makes it a statement that that check is in doubt
	System   bool // made by the service, by the clock
	Executes int  // makes it a report that that check was carried out

	Escalates bool     // by rules of its own; nobody is asked
	Blocks    bool     // by rules of its own
	Again     bool     // its policy has after_block: judge_again
	Uses      bool     // it carries the approval that the recorded check asked for
	Decides   decision // makes it a decision about that approval
	Principal int      // the principal who redeems or reports; 0 is the requester
}

// decision is about the approval.
type decision int

const (
	noDecision decision = iota
	approves
	denies
)

// recordedCheck stands for the check of Model.Recorded in a report about it.
const recordedCheck = maxChecks + 1

// Model is what is searched: the requests, the possible faults, and what is broken on purpose.
type Model struct {
	Name   string
	Checks []Check
	// How often each fault may happen.
	Crashes     int // of node 0
	Flushes     int // Redis loses its memory
	LostCommits int // a connection is lost in COMMIT
	LostReplies int // a batch's replies are lost
	LateSets    int // a SET is carried out after its client gave up
	Deadlines   int // a client is answered 500 while its commit is in progress
	Failovers   int // another server is promoted; the old one goes on
	Suspicions  int // a claim counts as stale although its holder is working
	Ticks       int // the clocks go on
	SetBacks    int // the store's clock goes back by a tick

	Reclaims int // how often a check that the fence refused claims again

	Posts  int  // of new policy versions, on node 1
	Loader int  // the node that loads lazy windows, from 1; 0 means no node
	Lazy   bool // windows are lazy when the search begins
	// Recorded is a pass that is recorded when the search begins: the window of its policy; 0 means
	// no pass.
	Recorded  int
	Escalated bool // the recorded check waits, and asks nobody
	Blocked   bool // a rule blocked the recorded check

	Asks      bool // the recorded check asks for an approval
	Approved  bool // which is given when the search begins
	Expires   int  // until when it may be decided, in ticks
	UseWithin int  // of the decision, in ticks

	RedeemWithin int  // maximum age of a check that is redeemed, in ticks; 0 means any age
	DoubtAfter   int  // age at which the service says that a redemption is in doubt
	Required     bool // the policy requires redemptions

	Limits [maxCounters]uint8 // of the counters, in each of their windows
	Period int                // the length of these windows, in ticks; 0 means endless

	Mutation Mutation
	Limit    int // of states
}

// step describes a transition.
type step struct {
	text  string
	who   int // check, or node
	found value
}

type successor = search.Successor[state, step]

// explorer returns a state's successors.
type explorer struct {
	Model
	out []successor
	cut bool // a bound was met
}

func (x *explorer) emit(t *state, text string, who int) { x.emitStep(t, step{text: text, who: who}) }

func (x *explorer) emitFault(t *state, text string, who int) {
	x.emit(t, text, who)
	x.out[len(x.out)-1].Fault = true
}

func (x *explorer) emitStep(t *state, s step) {
	x.observe(t)
	t.normalize()
	x.out = append(x.out, successor{Step: s, State: *t})
}

func (x *explorer) is(m Mutation) bool { return x.Mutation == m }

// Successors returns everything that may happen next.
func (x *explorer) Successors(s *state) []successor {
	x.out = x.out[:0]
	for i := range x.Checks {
		x.attempt(s, i)
	}
	x.commits(s)
	x.deferredOf(s)
	for n := range s.nodes {
		if s.nodes[n].alive {
			x.renewalOf(s, n)
			x.loaderOf(s, n)
			x.loadOf(s, n)
			x.connectionsOf(s, n)
		}
	}
	x.authorOf(s)
	x.expiry(s)
	x.faults(s)
	return x.out
}

// Explore visits every reachable state, nearest first, and stops at the first that breaks a
// promise; at the end it looks for states from which some check can never end, even if nothing more
// fails.
func (m Model) Explore() search.Result {
	return search.Explore(&explorer{Model: m}, m.Limit)
}

// Cut reports whether a bound was met.
func (x *explorer) Cut() bool { return x.cut }

func (s step) String() string {
	text := s.text
	if s.found != (value{}) {
		text += " " + s.found.String()
	}
	if s.who < 0 {
		return text
	}
	return fmt.Sprintf("%d %s", s.who, text)
}

func (v value) String() string {
	if v.check == 0 {
		return "free"
	}
	return fmt.Sprintf("%c|check %d.%d|t%d", " PCO"[v.state], v.check.owner(), int(v.check-1)%idsPerCheck, v.since)
}

// Initial is a full epoch on server 0, with both nodes in it, before any request.
func (m Model) Initial() state {
	s := state{
		epoch: 1, version: 1, posted: 1, author: author{left: uint8(m.Posts)},
		budgets: budgets{
			uint8(m.Crashes), uint8(m.Flushes), uint8(m.LostCommits), uint8(m.LostReplies), uint8(m.LateSets),
			uint8(m.Deadlines), uint8(m.Failovers), uint8(m.Suspicions), uint8(m.Ticks), uint8(m.SetBacks),
		},
	}
	windows := marker{epoch: 1, run: 1, full: !m.Lazy}
	s.servers[0].marker, s.servers[0].generation = windows, 1
	for n := range s.nodes {
		s.nodes[n] = node{
			alive: true, inc: incarnation(n*incPerNode + 1), windows: windows, vetted: true,
			view: view{label{1, 1}, 1},
		}
	}
	for i := range m.Checks {
		s.attempts[i].pc = pcBegin
	}
	if m.Recorded > 0 {
		last := id(maxChecks*idsPerCheck + 1) // belongs to no check of the model
		s.rows[0] = row{check: last, until: tick(m.Recorded), version: 1}
		s.servers[0].f[1][0] = slot{value{check: last, state: committed}, tick(m.Recorded)}
		if m.Lazy {
			s.servers[0].f[1][0] = slot{}
		}
	}
	if m.Asks || m.Escalated {
		s.rows[0].verdict = escalated
	}
	if m.Blocked {
		s.rows[0].verdict = blocked
	}
	if m.Approved {
		s.approval.at = 1
	}
	s.normalize()
	return s
}
