package stops

// Bounds.
const (
	nodes    = 2
	requests = 2
)

// view is what a node knows of the configuration, labelled with the generation that it read before.
type view struct {
	generation uint8
	stops      uint8 // the last stop
	stopped    bool  // it is in force
}

// loading is a view that a node reads.
type loading struct {
	busy, read bool
	view       view
}

type kind uint8

const (
	asks    kind = iota + 1 // for a new check
	repeats                 // the request of the check of before
	redeems                 // the check of before
	unread                  // the same, without reading the check
)

type requestPC uint8

const (
	unborn requestPC = iota
	begun
	judged    // by the view of its node
	compared  // the store has compared its stops, and writes
	recorded  // or found
	answered  // with the allow, or the redemption
	turnedOff // blocked or refused
)

type request struct {
	pc     requestPC
	node   uint8
	stops  uint8 // by which it was judged
	before bool  // it began, or proved the generation last, before that was raised
	old    bool
}

type stopperPC uint8

const (
	idle stopperPC = iota
	stored
	raised
	told // answered
	dead
)

// state is everything; it is compared as a whole.
type state struct {
	stops      uint8
	stopped    bool
	generation uint8
	fresh      uint8 // the next value of the generation
	views      [nodes]view
	loads      [nodes]loading
	requests   [requests]request
	stopper    stopperPC
	takenBack  bool
	flushed    bool
	redeemed   bool // the check of before
	broken     promise
}

type promise uint8

const (
	kept promise = iota
	allowedAfter
	redeemedAfter
	toldAllow
	toldRedemption
	toldStopped
)

var promises = [...]string{
	kept:           "",
	allowedAfter:   "G17: an allow is recorded behind the stop",
	redeemedAfter:  "G17: a redemption is recorded behind the stop",
	toldAllow:      "G17: an allow is answered after the stop was",
	toldRedemption: "G17: a redemption is answered after the stop was",
	toldStopped:    "S87: a check of before is given, or redeemed, once its key is active again",
}
