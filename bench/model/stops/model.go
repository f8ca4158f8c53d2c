package stops

import (
	"fmt"

	"spendgate/bench/model/search"
)

// Mutation leaves out a defence.
type Mutation uint16

// The defences that can be left out.
const (
	CommitUncompared  Mutation = 1 << iota // a commit does not compare the last stop
	StopUnlocked                           // a stop does not wait for commits that have compared it
	NotRaised                              // the stop is answered without a new generation
	NotWaited                              // the stop is answered as soon as the generation is raised
	AnsweredUnproved                       // an old request is answered by the view that its node has
	ReplayUnproved                         // a repeated request does not read the generation
	LabelledAfterward                      // a view is labelled with the generation that is read after it
	UnreadAlways                           // a check is redeemed unread while something is stopped
	RestoredByKey                          // a check counts as stopped while its key is inactive
)

// Model is what is searched.
type Model struct {
	Name     string
	Key      bool // a key is deactivated; else something is frozen
	Requests [requests]kind
	Mutation Mutation
}

type step string

// String implements fmt.Stringer.
func (s step) String() string { return string(s) }

type successor = search.Successor[state, step]

type explorer struct {
	Model
	out []successor
}

// Explore searches the model.
func (m Model) Explore() search.Result { return search.Explore(&explorer{Model: m}, 0) }

// Initial is before any request; nodes know everything.
func (x *explorer) Initial() (s state) {
	s.generation, s.fresh = 1, 2
	for i := range s.views {
		s.views[i].generation = 1
	}
	for i := range s.requests {
		s.requests[i].node = uint8(i % nodes)
	}
	return s
}

// Broken names the promise that a state breaks.
func (x *explorer) Broken(s *state) string { return promises[s.broken] }

// Cut implements search.Model.
func (x *explorer) Cut() bool { return false }

// Ended reports whether every request was answered.
func (x *explorer) Ended(s *state) bool {
	for i := range s.requests {
		if pc := s.requests[i].pc; x.Requests[i] != 0 && pc != answered && pc != turnedOff {
			return false
		}
	}
	return true
}

// Successors returns everything that may happen next.
func (x *explorer) Successors(s *state) []successor {
	x.out = x.out[:0]
	if s.broken != kept {
		return x.out
	}
	x.stop(s)
	for i := range s.views {
		x.load(s, i)
	}
	for i := range s.requests {
		if x.Requests[i] != 0 {
			x.request(s, i)
		}
	}
	if !s.flushed {
		t := *s
		t.flushed, t.generation, t.fresh = true, s.fresh, s.fresh+1
		x.emit(t, true, "Redis is emptied")
	}
	return x.out
}

func (x *explorer) emit(t state, fault bool, format string, args ...any) {
	x.out = append(x.out, successor{Step: step(fmt.Sprintf(format, args...)), Fault: fault, State: t})
}

func (x *explorer) is(m Mutation) bool { return x.Mutation&m != 0 }

// stop takes the next step of who stops, who may die before it.
func (x *explorer) stop(s *state) {
	t := *s
	switch s.stopper {
	case idle:
		for _, q := range s.requests {
			if q.pc == compared && !x.is(StopUnlocked) {
				return // it waits for the lock
			}
		}
		t.stopper, t.stops, t.stopped = stored, 1, true
		x.emit(t, true, "the stop is recorded")
	case stored:
		t.stopper = raised
		if !x.is(NotRaised) {
			t.generation, t.fresh = s.fresh, s.fresh+1
		}
		for i := range t.requests {
			t.requests[i].before = t.requests[i].pc != unborn
		}
		x.emit(t, true, "the generation is raised")
		t = *s
		t.stopper = dead
		x.emit(t, true, "who stops dies")
	case raised:
		t.stopper = told
		for i := range t.requests {
			q := &t.requests[i]
			q.old = q.old || q.before && !x.is(NotWaited)
		}
		x.emit(t, true, "the stop is answered")
	case told:
		if !s.takenBack {
			t.takenBack, t.stopped = true, false
			t.generation, t.fresh = s.fresh, s.fresh+1
			x.emit(t, true, "it is released, or the key is active again")
		}
	case dead:
	}
}

// load takes the next step of a node's load, which any request, or the poll, begins.
func (x *explorer) load(s *state, i int) {
	t := *s
	l := &t.loads[i]
	switch {
	case !l.busy && s.views[i] == (view{s.generation, s.stops, s.stopped}):
	case !l.busy:
		l.busy, l.view.generation = true, s.generation
		x.emit(t, false, "node %d reads the generation", i)
	case !l.read:
		l.read, l.view.stops, l.view.stopped = true, s.stops, s.stopped
		x.emit(t, false, "node %d reads the configuration", i)
	default:
		t.views[i] = l.view
		if x.is(LabelledAfterward) {
			t.views[i].generation = s.generation
		}
		*l = loading{}
		x.emit(t, false, "node %d has a view", i)
	}
}

// reload makes a node's view at least as new as the store.
func (t *state) reload(node uint8) {
	t.views[node].stops, t.views[node].stopped = t.stops, t.stopped
}
