package verify

import (
	"cmp"
	"encoding/gob"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"

	"spendgate/audit"
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
	Versions                  []byVersion // of the policy, in their order since each change of grants

	used spend.Total
}

func (c *counted) plus(other *counted) {
	c.used, c.Count = c.used.Plus(other.used), c.Count+other.Count
	c.BeginMS = min(c.BeginMS, other.BeginMS)
	c.EndMS, c.FirstEndMS = max(c.EndMS, other.EndMS), min(c.FirstEndMS, other.FirstEndMS)
	for _, by := range other.Versions {
		i, is := slices.BinarySearchFunc(c.Versions, by.By, byVersion.compare)
		if !is {
			c.Versions = slices.Insert(c.Versions, i, byVersion{By: by.By})
		}
		c.Versions[i].All, c.Versions[i].Held = c.Versions[i].All.plus(by.All), c.Versions[i].Held.plus(by.Held)
	}
}

// judgedBy is what gave a check the limits of a counter: a version of the policy, and grants.
type judgedBy struct {
	Phase   int64 // the last change of the counter's grants
	Version int
	Raised  int64 // the last change of the open ones
	Granted low
}

// grants notes what grants gave.
func (j *judgedBy) grants(g audit.Given) {
	j.Phase, j.Raised, j.Granted = g.Phase, g.Raised, low{Count: g.Count, used: g.Used}
}

// limit returns the limits; false if the version is missing.
func (j *judgedBy) limit(of *terms) (limit, bool) {
	i := of.find(j.Version)
	if i < 0 {
		return limit{}, false
	}
	return of.versions[i].with(spend.Usage{Used: j.Granted.used, Count: j.Granted.Count}), true
}

// byVersion is the least that checks took which had the same limits.
type byVersion struct {
	By   judgedBy
	All  low
	Held low // what counts against the version's limit: unaltered checks without an approval (S47)
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

func (b byVersion) compare(other judgedBy) int {
	return cmp.Or(cmp.Compare(b.By.Phase, other.Phase), cmp.Compare(b.By.Version, other.Version), cmp.Compare(b.By.Raised, other.Raised),
		cmp.Compare(b.By.Granted.Count, other.Granted.Count), b.By.Granted.used.Cmp(other.Granted.used))
}

// counts add charges up. Beyond a limit of counters they are kept in a temporary file.
type counts struct {
	runs
	most int

	mu     sync.Mutex
	memory map[counterKey]*counted
}

// take adds what a check took from a counter, as outcomes corrected it: none gives back more. held
// says whether the check had to keep its limits.
func (s *counts) take(policyID string, judged judgedBy, c *spend.Charge, became *course, held bool) error {
	by := became.last.Corrected(c)
	one := &counted{
		counterKey: counterKey{c.Counter.ID, c.Counter.StartMS}, PolicyID: policyID, RuleID: c.RuleID, Subject: c.Subject, Since: c.Since,
		BucketMS: c.Counter.BucketMS, BeginMS: c.BeginMS(), EndMS: c.EndMS, FirstEndMS: c.EndMS, Count: 1 - by.Count,
		Versions: []byVersion{{By: judged}},
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
	err := s.spill(func(w io.Writer) error {
		encoder := gob.NewEncoder(w)
		for _, c := range s.sorted() {
			for i := range c.Versions {
				of := &c.Versions[i]
				of.All.Used, of.Held.Used, of.By.Granted.Used = of.All.used.String(), of.Held.used.String(), of.By.Granted.used.String()
			}
			if err := encoder.Encode(spilled{c.counterKey, *c, c.used.String()}); err != nil {
				return err
			}
		}
		return nil
	})
	clear(s.memory)
	return err
}

// spilled is the form of a counted in the file.
type spilled struct {
	Key     counterKey
	Counted counted
	Used    string
}

func (s *counts) sorted() []*counted {
	return slices.SortedFunc(maps.Values(s.memory), compareCounted)
}

func compareCounted(a, b *counted) int { return a.compare(b.counterKey) }

// readCounted reads a run of the file.
func readCounted(r io.Reader) func() (*counted, error) {
	decoder := gob.NewDecoder(r)
	return func() (*counted, error) {
		var one spilled
		if err := decoder.Decode(&one); err != nil {
			return nil, err
		}
		c := &one.Counted
		c.counterKey = one.Key
		var err error
		c.used, err = spend.ParseTotal(one.Used)
		for i := range c.Versions {
			for _, of := range []*low{&c.Versions[i].All, &c.Versions[i].Held, &c.Versions[i].By.Granted} {
				var wrong error
				of.used, wrong = spend.ParseTotal(of.Used)
				err = errors.Join(err, wrong)
			}
		}
		return c, err
	}
}

// all returns every counter once, sorted.
func (s *counts) all() iter.Seq2[*counted, error] {
	return func(yield func(*counted, error) bool) {
		var sum *counted
		for c, err := range merged(&s.runs, readCounted, s.sorted(), compareCounted) {
			if err != nil {
				yield(nil, err)
				return
			}
			if sum != nil && sum.counterKey == c.counterKey {
				sum.plus(c)
				continue
			}
			if sum != nil && !yield(sum, nil) {
				return
			}
			one := *c
			one.Versions = slices.Clone(c.Versions) // what is in memory is read again
			sum = &one
		}
		if sum != nil {
			yield(sum, nil)
		}
	}
}
