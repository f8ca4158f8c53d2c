// Package search visits every reachable state of a model, nearest first, and returns the shortest way
// to one that breaks a promise.
//
// States are distinguished by a hash of 128 bits.
package search

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// Model is what is searched. T describes a transition.
type Model[S comparable, T fmt.Stringer] interface {
	Initial() S
	// Successors returns everything that may happen next, until the next call.
	Successors(*S) []Successor[S, T]
	// Broken names a promise that a state breaks.
	Broken(*S) string
	// Ended reports whether everything has ended that must be able to end.
	Ended(*S) bool
	// Cut reports whether a bound of the state was met, so that transitions are missing.
	Cut() bool
}

// Successor is a state and the step that leads to it.
type Successor[S comparable, T fmt.Stringer] struct {
	Step  T
	Fault bool // no promise may rest on its happening
	State S
}

// Result is what a search found.
type Result struct {
	States    int
	Complete  bool // every reachable state was visited
	Violation string
	Trace     []string // the shortest way to the violation
}

func (r Result) String() string {
	if r.Violation == "" {
		return fmt.Sprintf("%d states, complete %t, no violation", r.States, r.Complete)
	}
	return fmt.Sprintf("%s\n  %d states; the shortest way there:\n    %s", r.Violation, r.States, strings.Join(r.Trace, "\n    "))
}

// digest identifies a state in the set of visited states.
type digest [2]uint64

type search[S comparable, T fmt.Stringer] struct {
	Model[S, T]
	seeds   [2]maphash.Seed
	visited map[digest]uint32
	from    []uint32 // the state from which each was first reached
	via     []uint16 // by which of its successors
	edges   []uint32 // to each state's successors, without faults
	ends    []uint32 // the end of each state's edges
	done    []bool   // whether each state has ended
}

// Explore visits every reachable state, or somewhat more states than limit, if limit is not 0. It stops at
// the first that breaks a promise; at the end it looks for states from which no ended state can be
// reached, even if nothing more fails.
func Explore[S comparable, T fmt.Stringer](m Model[S, T], limit int) Result {
	s := &search[S, T]{Model: m, visited: make(map[digest]uint32)}
	for i := range s.seeds {
		s.seeds[i] = maphash.MakeSeed()
	}
	frontier := []S{m.Initial()}
	s.add(&frontier[0], 0, 0)
	for at := uint32(0); len(frontier) > 0; {
		next := make([]S, 0, 2*len(frontier))
		for i := range frontier {
			for n, succ := range s.Successors(&frontier[i]) {
				to, isNew := s.add(&succ.State, at, n)
				if isNew {
					next = append(next, succ.State)
				}
				if !succ.Fault {
					s.edges = append(s.edges, to)
				}
				if isNew {
					if broken := s.Broken(&succ.State); broken != "" {
						return s.result(broken, to)
					}
				}
			}
			s.ends = append(s.ends, uint32(len(s.edges)))
			at++
		}
		if frontier = next; limit > 0 && len(s.from) > limit {
			return Result{States: len(s.from)}
		}
	}
	if stuck, ok := s.stuck(); ok {
		return s.result("a check can never end", stuck)
	}
	return Result{States: len(s.from), Complete: !s.Cut()}
}

func (s *search[S, T]) add(t *S, from uint32, via int) (to uint32, isNew bool) {
	d := digest{maphash.Comparable(s.seeds[0], *t), maphash.Comparable(s.seeds[1], *t)}
	if to, ok := s.visited[d]; ok {
		return to, false
	}
	to = uint32(len(s.from))
	s.visited[d] = to
	s.from, s.via = append(s.from, from), append(s.via, uint16(via))
	s.done = append(s.done, s.Ended(t))
	return to, true
}

// stuck finds a state from which no ended state is reachable. A search that was cut cannot tell that.
func (s *search[S, T]) stuck() (uint32, bool) {
	if s.Cut() {
		return 0, false
	}
	back := make([][]uint32, len(s.from))
	begin := uint32(0)
	for from, end := range s.ends {
		for _, to := range s.edges[begin:end] {
			back[to] = append(back[to], uint32(from))
		}
		begin = end
	}
	ends := make([]bool, len(s.from))
	var queue []uint32
	for i, done := range s.done {
		if done {
			ends[i] = true
			queue = append(queue, uint32(i))
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, from := range back[at] {
			if !ends[from] {
				ends[from] = true
				queue = append(queue, from)
			}
		}
	}
	for i := range ends {
		if !ends[i] {
			return uint32(i), true
		}
	}
	return 0, false
}

// result replays the way to a state and records it.
func (s *search[S, T]) result(violation string, at uint32) Result {
	r := Result{States: len(s.from), Violation: violation}
	var way []uint16
	for i := at; i != 0; i = s.from[i] {
		way = append(way, s.via[i])
	}
	t := s.Initial()
	for _, n := range slices.Backward(way) {
		succ := s.Successors(&t)[n]
		r.Trace = append(r.Trace, succ.Step.String())
		t = succ.State
	}
	return r
}
