package verify

import (
	"cmp"
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
	Used                      spend.Total
}

func (c *counted) plus(other *counted) {
	c.Used, c.Count = c.Used.Plus(other.Used), c.Count+other.Count
	c.BeginMS = min(c.BeginMS, other.BeginMS)
	c.EndMS, c.FirstEndMS = max(c.EndMS, other.EndMS), min(c.FirstEndMS, other.FirstEndMS)
	for _, by := range other.Versions {
		i, is := slices.BinarySearchFunc(c.Versions, by.By, byVersion.compare)
		if !is {
			c.Versions = slices.Insert(c.Versions, i, byVersion{By: by.By})
		}
		c.Versions[i].All, c.Versions[i].Held = c.Versions[i].All.Add(by.All), c.Versions[i].Held.Add(by.Held)
	}
}

// judgedBy is what gave a check the limits of a counter: a version of the policy, and grants.
type judgedBy struct {
	Phase   int64 // the last change of the counter's grants
	Version int
	Raised  int64 // the last change of the open ones
	Granted spend.Usage
}

// grants notes what grants gave.
func (j *judgedBy) grants(g audit.Given) {
	j.Phase, j.Raised, j.Granted = g.Phase, g.Raised, g.Usage
}

// limit returns the limits; false if the version is missing.
func (j *judgedBy) limit(of *terms) (limit, bool) {
	i := of.find(j.Version)
	if i < 0 {
		return limit{}, false
	}
	return of.versions[i].with(j.Granted), true
}

// byVersion is the least that checks took which had the same limits.
type byVersion struct {
	By   judgedBy
	All  spend.Usage
	Held spend.Usage // what counts against the version's limit: unaltered checks without an approval (S47)
}

func (b byVersion) compare(other judgedBy) int {
	return cmp.Or(cmp.Compare(b.By.Phase, other.Phase), cmp.Compare(b.By.Version, other.Version), cmp.Compare(b.By.Raised, other.Raised),
		cmp.Compare(b.By.Granted.Count, other.Granted.Count), b.By.Granted.Used.Cmp(other.Granted.Used))
}

// counts add charges up.
type counts struct {
	runs[*counted]
	mu     sync.Mutex
	memory map[counterKey]*counted
}

func countsOf(most int) counts {
	compare := func(a, b *counted) int { return a.compare(b.counterKey) }
	return counts{runs: runs[*counted]{form: jsonForm(compare), most: most}, memory: make(map[counterKey]*counted)}
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
	if all.Used, all.Count = least(c, became); held {
		one.Versions[0].Held = *all
	}
	one.Used, _ = c.Amount.Total().Plus(by.Over).Minus(by.Back)
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
	if s.memory[key] = one; len(s.memory) < s.most {
		return nil
	}
	err := s.spill(slices.Collect(maps.Values(s.memory)))
	clear(s.memory)
	return err
}

// all returns every counter once, sorted.
func (s *counts) all() iter.Seq2[*counted, error] {
	return func(yield func(*counted, error) bool) {
		var sum *counted
		for c, err := range s.merged(slices.Collect(maps.Values(s.memory))) {
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
