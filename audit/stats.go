package audit

import (
	"errors"
	"maps"
	"slices"
	"time"

	"spendgate/audit/spend"
)

// What CheckCounts may fail with.
var (
	ErrTooMany  = errors.New("there are too many checks to be counted one by one")
	ErrArchived = errors.New("checks of the range are archived")
)

// CountQuery asks for numbers of checks (S55).
type CountQuery struct {
	From, Until time.Time     // whole steps, Until exclusive
	Step        time.Duration // a minute, an hour or a day
	PolicyID    string        // empty: any
	AgentID     string        // empty: any
	// Examine is how many checks of the range there may be where they are looked at
	// one by one: the counts of agents and of principals.
	Examine int

	Bounds
}

// OneByOne reports whether checks must be looked at: counts are kept by policy alone.
func (q *CountQuery) OneByOne() bool {
	return q.AgentID != "" || q.AgentIDs != nil || q.Principal != ""
}

// Policies returns the policies that are counted; nil for all. If it is empty, the asking key may see
// nothing.
func (q *CountQuery) Policies() []string {
	switch {
	case q.PolicyID == "":
		return q.PolicyIDs
	case q.PolicyIDs == nil || slices.Contains(q.PolicyIDs, q.PolicyID):
		return []string{q.PolicyID}
	}
	return []string{}
}

// IDRange returns the smallest ID of the range, and the smallest after it.
func (q *CountQuery) IDRange() (low, end spend.ID) {
	return FirstID(q.From.UnixMilli()), FirstID(q.Until.UnixMilli())
}

// CheckCount is the number of checks of a step, by decision.
type CheckCount struct {
	Start time.Time
	Of    [spend.Block + 1]int64
}

// Minute is the number of whole minutes from 1970 to a check.
func Minute(id spend.ID) int64 { return id.Time().Unix() / 60 }

// CountKey is the key that checks are counted by.
type CountKey struct {
	PolicyID string
	Minute   int64
}

// Tally adds checks up.
type Tally map[CountKey]*CheckCount

// Add adds a check.
func (t Tally) Add(policyID string, id spend.ID, effect spend.Effect) {
	key := CountKey{policyID, Minute(id)}
	if t[key] == nil {
		t[key] = &CheckCount{Start: time.Unix(key.Minute*60, 0).UTC()}
	}
	t[key].Of[effect]++
}

// Steps sums the counts of all policies up by steps, in the order of time.
func (t Tally) Steps(step time.Duration) []CheckCount {
	sums := make(map[time.Time]*CheckCount)
	for _, c := range t {
		start := c.Start.Truncate(step)
		if sums[start] == nil {
			sums[start] = &CheckCount{Start: start}
		}
		for effect, n := range c.Of {
			sums[start].Of[effect] += n
		}
	}
	counts := make([]CheckCount, 0, len(sums))
	for _, key := range slices.SortedFunc(maps.Keys(sums), time.Time.Compare) {
		counts = append(counts, *sums[key])
	}
	return counts
}
