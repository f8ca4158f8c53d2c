package commit

import (
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// finishExceeded finishes the entries whose charges do not fit, each with the usages that leave no
// room, and returns the entries that fit. Entries that might fit without others of the batch come
// later: only recorded amounts may refuse them (F62). The entries are in the order of
// audit.CounterChanges' checks, and so of their buckets.
func finishExceeded(batch []*Entry, usages []audit.CounterUsage) (rest, later []*Entry) {
	used := make(map[spend.Counter]spend.Usage, len(usages))
	for _, u := range usages {
		used[u.Counter] = u.Usage
	}
	exceeded := make([][]audit.CounterUsage, len(batch))
	taken := make(map[spend.ID]bool)  // by the rest, in whatever bucket
	first := make(map[spend.ID]int64) // bucket that an exceeded one would take from
	for i, e := range batch {
		if e.outcome != nil { // takes nothing
			rest = append(rest, e)
			continue
		}
		if exceeded[i] = exceededOf(e.check, used); exceeded[i] != nil {
			for n := range e.check.Charges {
				if c := e.check.Charges[n].Counter; first[c.ID] == 0 {
					first[c.ID] = c.StartMS
				}
			}
			continue
		}
		if rest = append(rest, e); e.check.Decision.Effect != spend.Allow {
			continue
		}
		for n := range e.check.Charges {
			taken[e.check.Charges[n].Counter.ID] = true
		}
	}
	for i, e := range batch {
		switch {
		case exceeded[i] == nil:
		case slices.ContainsFunc(exceeded[i], func(u audit.CounterUsage) bool {
			return taken[u.ID] || u.BucketMS > 0 && first[u.ID] < u.StartMS
		}):
			later = append(later, e)
		default:
			e.finish(&audit.ExceededError{Usages: exceeded[i]})
		}
	}
	return rest, later
}

// exceededOf returns the usages that leave no room for the check. If there are none and the check is
// allowed, it is added to the usages.
func exceededOf(c *spend.Check, used map[spend.Counter]spend.Usage) (exceeded []audit.CounterUsage) {
	if c.Decision.Effect == spend.Block {
		return nil
	}
	for i := range c.Charges {
		if u, listed := used[c.Charges[i].Counter]; listed && !c.Charges[i].Fits(c.Charges[i].Before(u)) {
			exceeded = append(exceeded, audit.CounterUsage{Counter: c.Charges[i].Counter, Usage: u})
		}
	}
	if exceeded != nil || c.Decision.Effect != spend.Allow {
		return exceeded
	}
	for i := range c.Charges {
		if u, listed := used[c.Charges[i].Counter]; listed {
			used[c.Charges[i].Counter] = u.Plus(&c.Charges[i])
		}
	}
	return nil
}
