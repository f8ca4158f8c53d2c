package grants

import (
	"fmt"

	"spendgate/bench/model/search"
)

// Mutation leaves out a defence.
type Mutation uint16

// The defences that can be left out.
const (
	StopsUncompared Mutation = 1 << iota // a commit does not compare the last stop
	GrantsKept                           // a check whose commit was refused keeps the grants that it read before
	StopUnlocked                         // a stop does not wait for commits that have compared it
	KeyNoStop                            // a change of the granter's key is no stop
	NotRaised                            // a grant is answered without a new generation
	EndByNow                             // a grant ends by the clock of whoever judges, not by the check's timestamp
	AnyWindow                            // a grant counts in every window of its counter
	AnyCounter                           // a grant counts for its rule, whatever the rule counts
	PendingCounts                        // a grant counts before people have approved it
	Restored                             // a key that may grant again restores what it granted before
	SeenIgnored                          // a grant is recorded whatever was changed since it was judged
)

// terms are those of a grant.
type terms struct {
	adds  uint8
	until uint8 // the tick; beyond the window where newer rules of its zone moved its end
	asks  bool  // somebody must approve it
}

// Model is what is searched.
type Model struct {
	Name     string
	Limits   [2]uint8 // of the versions
	Apart    bool     // the second version has another counter
	Grants   [most]terms
	Revokes  bool // grants may be revoked
	Key      bool // the granter's key may lose the right, and have it again
	Posts    bool // the second version may come
	Alone    bool // there is one node
	Ticks    uint8
	Most     int // how many grants may be open; 0 for all
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

// Initial is before any request.
func (x *explorer) Initial() (s state) {
	for i := range s.requests {
		if !x.Alone {
			s.requests[i].node = uint8(i % nodes)
		}
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
		if pc := s.requests[i].pc; pc != recorded && pc != blocked {
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
	for i := range s.grants {
		if x.Grants[i].adds > 0 {
			x.give(s, i)
			x.decide(s, i)
		}
	}
	x.configure(s)
	for i := range s.views {
		if i == 0 || !x.Alone {
			x.load(s, i)
		}
	}
	for i := range s.requests {
		x.request(s, i)
	}
	if s.now < x.Ticks {
		t := *s
		t.now++
		x.emit(t, true, "a tick")
	}
	return x.out
}

func (x *explorer) emit(t state, fault bool, format string, args ...any) {
	for i := range t.requests {
		q := &t.requests[i]
		q.full = q.full || q.pc != unborn && t.used[x.counter(q.version)][q.window()]+1 > x.Limits[q.version]+x.answered(&t, q)
	}
	x.out = append(x.out, successor{Step: step(fmt.Sprintf(format, args...)), Fault: fault, State: t})
}

func (x *explorer) is(m Mutation) bool { return x.Mutation&m != 0 }

// counter returns the counter of a version.
func (x *explorer) counter(version uint8) uint8 {
	if x.Apart {
		return version
	}
	return 0
}

// isOpen reports whether a grant raises the limit of a version for a check of that timestamp, by the changes up to a number.
func (x *explorer) isOpen(s *state, i int, version, at, seq uint8, without Mutation) bool {
	g, of := &s.grants[i], x.Grants[i]
	is := func(m Mutation) bool { return without&m != 0 }
	switch {
	case !made(g.given, seq), of.asks && !made(g.approved, seq) && !is(PendingCounts), made(g.revoked, seq):
		return false
	case at >= of.until, g.window != at/windowed && !is(AnyWindow), g.counter != x.counter(version) && !is(AnyCounter):
		return false
	case !made(s.lost, seq):
		return true
	}
	return made(s.again, seq) && (s.lost < g.given || is(Restored))
}

// adds returns what the open grants add.
func (x *explorer) adds(s *state, version, at, seq uint8, without Mutation) (all uint8) {
	for i := range s.grants {
		if x.isOpen(s, i, version, at, seq, without) {
			all += x.Grants[i].adds
		}
	}
	return all
}

// answered returns what the grants add that were answered before a request began, which nobody must approve and nothing ended.
func (x *explorer) answered(s *state, q *request) (all uint8) {
	for i := range s.grants {
		if q.told&(1<<i) != 0 && !x.Grants[i].asks && s.lost == untouched && x.isOpen(s, i, q.version, q.stamp, s.seq, 0) {
			all += x.Grants[i].adds
		}
	}
	return all
}

// waits reports whether a stop waits for commits in progress.
func (x *explorer) waits(s *state) bool {
	for _, q := range s.requests {
		if q.pc == compared && !x.is(StopUnlocked) {
			return true
		}
	}
	return false
}

// open counts the grants that are open or wait.
func (x *explorer) open(s *state, seq uint8) (n int) {
	for i := range s.grants {
		if s.grants[i].window == s.now/windowed && x.isOpen(s, i, s.version(seq), s.now, seq, PendingCounts) {
			n++
		}
	}
	return n
}

// give takes the next step of whoever gives a grant, and may die before it.
func (x *explorer) give(s *state, i int) {
	t := *s
	g := &t.grants[i]
	switch {
	case g.pc == idle && s.now < x.Grants[i].until && s.now/windowed == 0:
		if g.pc = judges; x.Most > 0 && x.open(s, s.seq) >= x.Most {
			g.pc = refused
		}
		g.seen = s.seq
		x.emit(t, true, "grant %d is judged", i)
	case g.pc == judges && s.lastStop(s.seq) != s.lastStop(g.seen) && !x.is(SeenIgnored):
		g.pc = idle
		x.emit(t, true, "grant %d is judged again", i)
	case g.pc == judges && !x.waits(s):
		g.pc, g.given = stored, t.change(true)
		g.counter, g.window = x.counter(s.version(s.seq)), s.now/windowed
		if x.Most > 0 && x.open(&t, t.seq) > x.Most {
			t.broken = tooMany
		}
		x.emit(t, true, "grant %d is recorded", i)
	case g.pc == stored:
		if g.pc = told; !x.is(NotRaised) {
			t.generation++
		}
		x.emit(t, true, "grant %d is answered", i)
	}
}

// decide has a grant approved, or revoked.
func (x *explorer) decide(s *state, i int) {
	g := &s.grants[i]
	if g.given == untouched || g.revoked != untouched || x.waits(s) {
		return
	}
	if x.Grants[i].asks && g.approved == untouched {
		t := *s
		t.grants[i].approved = t.change(true)
		x.emit(t, true, "grant %d is approved", i)
	}
	if x.Revokes {
		t := *s
		t.grants[i].revoked = t.change(true)
		x.emit(t, true, "grant %d is revoked", i)
	}
}

// configure has a new version of the policy posted, and the granter's key changed.
func (x *explorer) configure(s *state) {
	if x.Posts && s.posted == untouched {
		t := *s
		t.posted = t.change(false)
		t.generation++
		x.emit(t, true, "a version is posted")
	}
	stops := !x.is(KeyNoStop)
	switch t := *s; {
	case !x.Key || x.waits(s):
	case s.lost == untouched:
		t.lost = t.change(stops)
		x.emit(t, true, "the granter loses the right")
	case s.again == untouched:
		t.again = t.change(stops)
		x.emit(t, true, "the granter has the right again")
	}
}

// load takes the next step of a node's load, which any request, or the poll, begins.
func (x *explorer) load(s *state, i int) {
	t := *s
	l := &t.loads[i]
	switch {
	case !l.busy && s.views[i] == (view{s.generation, s.seq}):
	case !l.busy:
		l.busy, l.view.generation = true, s.generation
		x.emit(t, false, "node %d reads the generation", i)
	case !l.read:
		l.read, l.view.seq = true, s.seq
		x.emit(t, false, "node %d reads the configuration", i)
	default:
		t.views[i], *l = l.view, loading{}
		x.emit(t, false, "node %d has a view", i)
	}
}
