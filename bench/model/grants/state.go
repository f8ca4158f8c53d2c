package grants

import "math/bits"

// Bounds.
const (
	nodes     = 2
	requests  = 2
	most      = 2 // grants
	ticks     = 4
	windowed  = 2 // ticks of a window
	windows   = ticks / windowed
	counters  = 2
	untouched = 0 // the number of a change that was not made
)

// view is what a node knows of the configuration: the changes up to a number, labelled with the generation that it read before.
type view struct{ generation, seq uint8 }

// loading is a view that a node reads.
type loading struct {
	busy, read bool
	view       view
}

type giverPC uint8

const (
	idle giverPC = iota
	judges
	stored
	told // answered
	refused
)

// grant is a grant, and whoever gives it.
type grant struct {
	pc              giverPC
	seen            uint8 // the last change by which it was judged
	given           uint8 // the numbers of the changes
	approved        uint8
	revoked         uint8
	counter, window uint8
}

type requestPC uint8

const (
	unborn requestPC = iota
	judged
	compared // the store has compared its stop, and writes
	recorded
	refusing // no room
	blocked
)

type request struct {
	pc      requestPC
	node    uint8
	stamp   uint8 // the tick of its timestamp
	version uint8 // of the policy, from 0
	stops   uint8 // the last stop by which it was judged
	granted uint8
	told    uint8 // a bit for each grant that was answered before it began
	full    bool  // there was no room at some moment, with these
}

// state is everything; it is compared as a whole.
type state struct {
	now        uint8
	seq        uint8  // of the last change
	stops      uint16 // a bit for each change that is a stop
	generation uint8
	posted     uint8 // the changes of the policy and of the granter's key
	lost       uint8
	again      uint8
	grants     [most]grant
	views      [nodes]view
	loads      [nodes]loading
	requests   [requests]request
	used       [counters][windows]uint8
	broken     promise
}

// change makes a change, which may be a stop.
func (s *state) change(isStop bool) uint8 {
	s.seq++
	if isStop {
		s.stops |= 1 << s.seq
	}
	return s.seq
}

// lastStop returns the last stop up to a change.
func (s *state) lastStop(seq uint8) uint8 {
	return uint8(max(0, bits.Len16(s.stops&(1<<(seq+1)-1))-1))
}

// version returns the policy's version after a change.
func (s *state) version(seq uint8) uint8 {
	if made(s.posted, seq) {
		return 1
	}
	return 0
}

// made reports whether a change was made up to another.
func made(change, seq uint8) bool { return change != untouched && change <= seq }

type promise uint8

const (
	kept promise = iota
	passedAbove
	derivedOtherwise
	refusedInVain
	tooMany
)

var promises = [...]string{
	kept:             "",
	passedAbove:      "G12: a check passed above the limit with the grants in force",
	derivedOtherwise: "S91: the record derives other grants for a check than judged it",
	refusedInVain:    "S91: a check was refused though it had room at every moment of its request",
	tooMany:          "S91: more grants are open than may be",
}
