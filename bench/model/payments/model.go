package payments

import (
	"fmt"
	"slices"

	"spendgate/bench/model/search"
)

// Caller is a guard, or an executor that redeems a check by its id.
type Caller struct {
	Action    uint8
	Calls     uint8 // each has its nonce
	Plain     bool  // it asks without a nonce
	Replace   bool
	TakeOver  bool
	ByID      id   // it redeems that check
	Own       bool // under its own payment
	IgnoresID bool // its provider does not take the execution_id
	Pending   bool // it may not release
	Doubts    bool // it may say that it is in doubt
}

// Model is what is searched.
type Model struct {
	Name    string
	Callers []Caller
	// Recorded are checks that are allowed, and not redeemed, when the search begins.
	Recorded []set
	Earlier  bool    // the first of them was redeemed, and given back
	Asks     verdict // what the policy may say; 0 means that it allows
	Uses     verdict // what it may say of a check that uses an approval

	// How often each fault may happen.
	LostAnswers int // the caller repeats its request, or gives up; the first may be carried out at any time
	LostCommits int
	Deaths      int // of callers
	Restores    int // of a backup
	Claims      int // reports of somebody who may release, true or not
	Rounds      int // how often an executed payment becomes free again
	Removals    int // of the payment, once it has ended

	Mutation Mutation
	Limit    int // of states
}

// step describes a transition.
type step struct {
	who  uint8 // the caller, from 1
	text string
}

func (s step) String() string {
	if s.who == 0 {
		return s.text
	}
	return fmt.Sprintf("%c %s", 'A'-1+s.who, s.text)
}

type successor = search.Successor[state, step]

// explorer returns a state's successors.
type explorer struct {
	Model
	out []successor
	cut bool
}

// Explore searches the model.
func (m Model) Explore() search.Result {
	return search.Explore(&explorer{Model: m}, m.Limit)
}

// Initial is the recorded checks, before any request.
func (x *explorer) Initial() state {
	s := state{faults: faults{
		uint8(x.LostAnswers), uint8(x.LostCommits), uint8(x.Deaths), uint8(x.Restores), uint8(x.Claims), uint8(x.Rounds),
		uint8(x.Removals),
	}}
	for i, of := range x.Recorded {
		s.store.checks[i] = check{of: of, action: 1, verdict: allowed}
		if of.has(askers) {
			s.store.rows[askers].current = id(i + 1)
		}
	}
	if x.Earlier {
		c := &s.store.checks[0]
		c.first, c.holder, c.named, c.exec, c.steps = lastNonce, lastNonce, lastNonce.bit(), 1, 2
		c.outcome, c.released = voided, true
		s.store.rows[askers].nonces = lastNonce.bit()
		if x.Removals > 0 {
			s.store.rows[askers].version = 1 + c.steps
		}
	}
	return s
}

// ignored reports whether some provider does not take the execution_id.
func (x *explorer) ignored() bool {
	return slices.ContainsFunc(x.Callers, func(c Caller) bool { return c.IgnoresID })
}

// lastNonce is none of the callers'.
const lastNonce nonce = maxCallers*maxCalls + 1

// Cut reports whether a bound was met.
func (x *explorer) Cut() bool { return x.cut }

// Successors returns everything that may happen next.
func (x *explorer) Successors(s *state) []successor {
	x.out = x.out[:0]
	if s.broken != kept {
		return x.out
	}
	for i := range x.Callers {
		x.callerOf(s, i)
	}
	for i := range s.requests {
		x.requestOf(s, i)
	}
	x.service(s)
	x.approvers(s)
	x.treasury(s)
	x.faultsOf(s)
	return x.out
}

func (x *explorer) emit(t *state, who uint8, text string) {
	slices.SortFunc(t.requests[:], compareRequests)
	x.out = append(x.out, successor{Step: step{who, text}, State: *t})
}

func (x *explorer) emitFault(t *state, who uint8, text string) {
	x.emit(t, who, text)
	x.out[len(x.out)-1].Fault = true
}

func (x *explorer) is(m Mutation) bool { return x.Mutation&m != 0 }

// send puts a request on its way.
func (x *explorer) send(t *state, q request) bool {
	for i := range t.requests {
		if t.requests[i].kind == noRequest {
			t.requests[i] = q
			return true
		}
	}
	x.cut = true
	return false
}

// Ended reports whether nothing is in progress, the payments are executed or free, and budgets hold only what
// was executed.
func (x *explorer) Ended(s *state) bool {
	for i := range x.Callers {
		if c := &s.callers[i]; c.pc != idle && c.pc != dead || c.body != noBody {
			return false
		}
	}
	for i := range s.requests {
		if s.requests[i].kind != noRequest {
			return false
		}
	}
	for i := range s.store.checks {
		if c := &s.store.checks[i]; c.verdict == allowed && c.outcome != executed && !c.givenBack() {
			return false
		}
	}
	standing := x.stateOf(&s.store)
	return standing == isFree || standing == isDenied || standing == isExecuted
}
