package verify

import (
	"bufio"
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"sync"

	"spendgate/audit/spend"
)

// counterKey names a row of the counters.
type counterKey struct {
	ID      spend.ID
	StartMS int64
}

func (k counterKey) compare(other counterKey) int {
	return cmp.Or(k.ID.Compare(other.ID), cmp.Compare(k.StartMS, other.StartMS))
}

// counted is what recorded checks took from a counter.
type counted struct {
	counterKey
	PolicyID, RuleID, Subject string
	Since                     int
	BucketMS                  int64
	BeginMS                   int64 // the earliest: newer time zone rules may move the window
	EndMS, FirstEndMS         int64 // the latest and the earliest
	Count                     int64
	Versions                  []byVersion // of the policy, in their order

	used spend.Total
}

func (c *counted) plus(other *counted) {
	c.used, c.Count = c.used.Plus(other.used), c.Count+other.Count
	c.BeginMS = min(c.BeginMS, other.BeginMS)
	c.EndMS, c.FirstEndMS = max(c.EndMS, other.EndMS), min(c.FirstEndMS, other.FirstEndMS)
	for _, by := range other.Versions {
		i, is := slices.BinarySearchFunc(c.Versions, by.Version, byVersion.compare)
		if !is {
			c.Versions = slices.Insert(c.Versions, i, byVersion{Version: by.Version})
		}
		c.Versions[i].All, c.Versions[i].Held = c.Versions[i].All.plus(by.All), c.Versions[i].Held.plus(by.Held)
	}
}

// byVersion is the least that checks took which a version of the policy judged.
type byVersion struct {
	Version int
	All     low
	Held    low // what counts against the version's limit: unaltered checks without an approval (S47)
}

// low is a least amount and number.
type low struct {
	Count int64
	Used  string // only in the file
	used  spend.Total
}

func (l low) plus(other low) low {
	return low{Count: l.Count + other.Count, used: l.used.Plus(other.used)}
}

func (b byVersion) compare(version int) int { return cmp.Compare(b.Version, version) }

// counts add charges up. Counters beyond a limit are kept in a temporary file: in sorted runs that
// are merged at the end.
type counts struct {
	most int

	mu     sync.Mutex
	memory map[counterKey]*counted
	file   *os.File
	runs   []int64 // where each begins in the file
}

// take adds what a check took from a counter, as outcomes corrected it: none gives back more. held
// says whether the check had to keep the version's limit.
func (s *counts) take(policyID string, version int, c *spend.Charge, became *course, held bool) error {
	by := became.last.Corrected(c)
	one := &counted{
		counterKey: counterKey{c.Counter.ID, c.Counter.StartMS}, PolicyID: policyID, RuleID: c.RuleID, Subject: c.Subject, Since: c.Since,
		BucketMS: c.Counter.BucketMS, BeginMS: c.BeginMS(), EndMS: c.EndMS, FirstEndMS: c.EndMS, Count: 1 - by.Count,
		Versions: []byVersion{{Version: version}},
	}
	all := &one.Versions[0].All
	if all.used, all.Count = least(c, became); held {
		one.Versions[0].Held = *all
	}
	one.used, _ = c.Amount.Total().Plus(by.Over).Minus(by.Back)
	return s.add(one)
}

func (s *counts) add(one *counted) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := one.counterKey
	if known := s.memory[key]; known != nil {
		known.plus(one)
		return nil
	}
	if s.memory == nil {
		s.memory = make(map[counterKey]*counted)
	}
	s.memory[key] = one
	if len(s.memory) < s.most {
		return nil
	}
	if err := s.spill(); err != nil {
		return fmt.Errorf("cannot keep what was counted in a temporary file: %w", err)
	}
	return nil
}

// spilled is the form of a counted in the file.
type spilled struct {
	Key     counterKey
	Counted counted
	Used    string
}

// spill writes what is in memory to the file.
func (s *counts) spill() (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp("", "spendgate-verify-"); err != nil {
			return err
		}
	}
	begin, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	s.runs = append(s.runs, begin)
	buffer := bufio.NewWriter(s.file)
	encoder := gob.NewEncoder(buffer)
	for _, c := range s.sorted() {
		for i := range c.Versions {
			of := &c.Versions[i]
			of.All.Used, of.Held.Used = of.All.used.String(), of.Held.used.String()
		}
		if err := encoder.Encode(spilled{c.counterKey, *c, c.used.String()}); err != nil {
			return err
		}
	}
	clear(s.memory)
	return buffer.Flush()
}

func (s *counts) sorted() []*counted {
	return slices.SortedFunc(maps.Values(s.memory), func(a, b *counted) int { return a.compare(b.counterKey) })
}

func (s *counts) close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}

// run reads a run of the file.
func (s *counts) run(i int) iter.Seq2[*counted, error] {
	return func(yield func(*counted, error) bool) {
		end := int64(1<<63 - 1)
		if i+1 < len(s.runs) {
			end = s.runs[i+1]
		}
		decoder := gob.NewDecoder(bufio.NewReader(io.NewSectionReader(s.file, s.runs[i], end-s.runs[i])))
		for {
			var one spilled
			err := decoder.Decode(&one)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				one.Counted.counterKey = one.Key
				one.Counted.used, err = spend.ParseTotal(one.Used)
				for i := range one.Counted.Versions {
					for _, of := range []*low{&one.Counted.Versions[i].All, &one.Counted.Versions[i].Held} {
						var wrong error
						of.used, wrong = spend.ParseTotal(of.Used)
						err = errors.Join(err, wrong)
					}
				}
			}
			if !yield(&one.Counted, err) || err != nil {
				return
			}
		}
	}
}

// all returns every counter once, sorted.
func (s *counts) all() iter.Seq2[*counted, error] {
	return func(yield func(*counted, error) bool) {
		inMemory := func(yield func(*counted, error) bool) {
			for _, c := range s.sorted() {
				if !yield(c, nil) {
					return
				}
			}
		}
		runs := []*cursor{newCursor(inMemory)}
		for i := range s.runs {
			runs = append(runs, newCursor(s.run(i)))
		}
		defer func() {
			for _, r := range runs {
				r.stop()
			}
		}()
		for {
			var first *counted
			for _, r := range runs {
				if r.err != nil {
					yield(nil, fmt.Errorf("cannot read what was counted from a temporary file: %w", r.err))
					return
				}
				if r.at != nil && (first == nil || r.at.compare(first.counterKey) < 0) {
					first = r.at
				}
			}
			if first == nil {
				return
			}
			sum := *first
			sum.Versions = slices.Clone(sum.Versions) // runs in memory are read again
			for _, r := range runs {
				switch {
				case r.at == first:
					r.advance()
				case r.at != nil && r.at.counterKey == sum.counterKey:
					sum.plus(r.at)
					r.advance()
				}
			}
			if !yield(&sum, nil) {
				return
			}
		}
	}
}

// cursor is a position in a sequence.
type cursor struct {
	at   *counted // nil after the last
	err  error
	next func() (*counted, error, bool)
	stop func()
}

func newCursor(all iter.Seq2[*counted, error]) *cursor {
	var c cursor
	c.next, c.stop = iter.Pull2(all)
	c.advance()
	return &c
}

func (c *cursor) advance() { c.at, c.err, _ = c.next() }

// pass calls each with the next elements as long as they satisfy before, and moves past them.
func (c *cursor) pass(before func(*counted) bool, each func(*counted)) {
	for c.at != nil && before(c.at) {
		each(c.at)
		c.advance()
	}
}

// rest calls each with the remaining elements.
func (c *cursor) rest(each func(*counted)) error {
	c.pass(func(*counted) bool { return true }, each)
	return c.err
}
