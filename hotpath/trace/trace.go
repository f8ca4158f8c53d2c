// Package trace records when the stages of a request began and ended, and its
// outcome. Package otlp makes spans of a Record after the response, so that
// no stage depends on spans.
//
// A nil Record means that tracing is off: it keeps nothing and costs a comparison.
package trace

import (
	"encoding/hex"
	"time"

	"spendgate/audit/spend"
)

// Stage is a part of a request that has a span of its own.
type Stage uint8

// The stages, in the order of a check. One that starts over has guard,
// evaluate and commit again.
const (
	Decode   Stage = iota + 1 // first byte read to body understood
	Guard                     // claims in Redis, waiting for others' claims, the rate counter
	Evaluate                  // the rules
	Commit                    // the audit trail
)

// String returns the name of the stage's span.
func (s Stage) String() string {
	switch s {
	case Decode:
		return "decode"
	case Guard:
		return "guard"
	case Evaluate:
		return "evaluate"
	case Commit:
		return "commit"
	}
	return ""
}

// Span is a stage as it took place.
type Span struct {
	Stage    Stage
	From, To time.Time
}

// maxSpans is enough for a check that starts over twice. Further ones are left
// out.
const maxSpans = 10

// Record is one request. It is used by one goroutine at a time.
type Record struct {
	Parent, State string // traceparent and tracestate as they were sent (W3C Trace Context)

	Method, Route string // POST, /v1/checks
	RequestID     string
	Started       time.Time
	Ended         time.Time
	Status        int    // of the answer
	Code          string // of the error; empty without one

	Check    *spend.Check // as answered; nil when the request was none or failed
	Replayed bool

	spans [maxSpans]Span
	used  int
}

// Begin notes that a stage began, and that the one before is over.
func (r *Record) Begin(s Stage, at time.Time) {
	if r != nil {
		r.begin(s, at)
	}
}

// End notes that the stage is over.
func (r *Record) End(at time.Time) {
	if r != nil {
		r.end(at)
	}
}

// EndNow is End at the present time, which is read only if it is recorded.
func (r *Record) EndNow() {
	if r != nil {
		r.end(time.Now())
	}
}

func (r *Record) begin(s Stage, at time.Time) {
	r.end(at)
	if r.used < maxSpans {
		r.spans[r.used] = Span{Stage: s, From: at}
		r.used++
	}
}

func (r *Record) end(at time.Time) {
	if r.used > 0 && r.spans[r.used-1].To.IsZero() {
		r.spans[r.used-1].To = at
	}
}

// Spans returns the stages so far.
func (r *Record) Spans() []Span { return r.spans[:r.used] }

// ID names a trace; the zero ID names no trace.
type ID [16]byte

// String returns the 32 hex digits of the ID.
func (id ID) String() string { return hex.EncodeToString(id[:]) }
