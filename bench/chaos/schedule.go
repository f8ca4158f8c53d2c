package main

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"time"
)

// fault is a kind of fault. Its function returns when the fault is repaired.
type fault struct {
	name  string
	share int // of all faults
	// atLeast is what must be left of the round for it.
	atLeast time.Duration
	inject  func(*injector, planned) error
}

// planned is a fault of a schedule.
type planned struct {
	fault
	node   int           // or the first of all
	all    bool          // networks: of all nodes
	lasts  time.Duration // for faults with a duration
	before time.Duration // without faults
}

func faults() []fault {
	return []fault{
		{"kill a node", 12, 0, (*injector).killNode},
		{"stop a node", 10, 0, (*injector).stopNode},
		{"kill redis", 8, 0, (*injector).killRedis},
		{"restart redis from an old copy", 8, 0, (*injector).restoreRedis},
		{"stop redis", 6, 0, (*injector).stopRedis},
		{"flush redis", 8, 0, (*injector).flushRedis},
		{"flush redis behind commits", 5, 0, (*injector).flushBehindCommits},
		{"kill postgres", 7, 0, (*injector).killPostgres},
		{"stop postgres", 6, 0, (*injector).stopPostgres},
		{"make postgres read-only", 5, 0, (*injector).readOnlyPostgres},
		{"slow the network to redis", 5, 0, (*injector).slowRedis},
		{"slow the network to postgres", 5, 0, (*injector).slowPostgres},
		{"cut off redis", 5, 0, (*injector).cutOffRedis},
		{"cut off postgres", 5, 0, (*injector).cutOffPostgres},
		{"hold back what goes to postgres", 6, 0, (*injector).holdCommits},
		{"reset connections to postgres in commits", 10, 0, (*injector).resetCommits},
		{"reset connections to redis", 4, 0, (*injector).resetRedis},
		{"restart the nodes in turn", 5, rollingTime, (*injector).restartInTurn},
	}
}

// rollingTime is what a rolling restart takes: each node serves on for 3 s.
const rollingTime = 14 * time.Second

// schedule draws faults for a round, of those whose names match.
func schedule(seed uint64, round time.Duration, only *regexp.Regexp) (all []planned) {
	rng := rand.New(rand.NewPCG(seed, 0))
	kinds, shares := slices.DeleteFunc(faults(), func(f fault) bool { return !only.MatchString(f.name) || f.atLeast > round }), 0
	for _, f := range kinds {
		shares += f.share
	}
	for left := round; left > 0 && shares > 0; {
		pick := rng.IntN(shares)
		for _, f := range kinds {
			if pick -= f.share; pick >= 0 {
				continue
			}
			p := planned{
				fault: f, node: rng.IntN(nodeCount), all: rng.IntN(3) == 0,
				lasts: 200*time.Millisecond + time.Duration(rng.Int64N(int64(2500*time.Millisecond))),
			}
			// Now and then the fleet has time to recover, and must not fail.
			if p.before = time.Duration(rng.Int64N(int64(time.Second))); rng.IntN(2) == 0 {
				p.before += 3500 * time.Millisecond
			}
			if p.atLeast > left {
				left -= p.before // another one
				break
			}
			left -= p.before + max(p.lasts, p.atLeast)
			all = append(all, p)
			break
		}
	}
	return all
}
