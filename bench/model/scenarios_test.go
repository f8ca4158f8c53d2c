package model

import "slices"

// The searches. Each takes a second or less; -states lets the incomplete ones visit more states.

const (
	short = 1
	long  = 3
)

// scenarios give the models by name.
func scenarios() []Model {
	return slices.Concat(claimScenarios(), budgetScenarios(), approvalScenarios(), redemptionScenarios())
}

func claimScenarios() []Model {
	plain := Check{Window: short}
	on := func(c Check, node int) Check { c.Node = node; return c }
	keyed := func(c Check) Check { c.Key = true; return c }
	other := func(c Check) Check { c.Request = 1; return c }
	after := func(c Check, first int) Check { c.After = first; return c }
	under := func(c Check, window int) Check { c.Window = window; return c }
	elsewhere := func(c Check) Check { c.Fingerprint = 1; return c }
	return []Model{
		{
			Name:   "slow holder",
			Checks: []Check{on(plain, 0), on(other(plain), 1)}, Suspicions: 2, Reclaims: 2, Crashes: 1,
		},
		{
			Name:   "lost commit",
			Checks: []Check{on(plain, 0), on(other(plain), 1)}, LostCommits: 1, Suspicions: 1, Reclaims: 1,
		},
		{
			Name:   "duplicates",
			Checks: []Check{on(plain, 0), on(plain, 1), on(other(plain), 1)}, LostCommits: 1, Reclaims: 1,
		},
		{
			Name:   "duplicates and a crash",
			Checks: []Check{on(plain, 0), on(plain, 1), on(other(plain), 1)}, Crashes: 1, Reclaims: 1,
		},
		{
			Name:   "orphans",
			Checks: []Check{on(plain, 0), on(plain, 1), on(plain, 1)}, Deadlines: 1,
		},
		{
			Name:   "retries of a key",
			Checks: []Check{on(keyed(plain), 0), on(keyed(plain), 1), on(other(plain), 1)}, Suspicions: 1, Reclaims: 1,
		},
		{
			Name:   "retries of a key and a crash",
			Checks: []Check{on(keyed(plain), 0), on(keyed(plain), 1), on(other(plain), 1)}, Crashes: 1,
		},
		{
			Name:   "retries of a key on one node",
			Checks: []Check{on(keyed(plain), 0), on(keyed(plain), 0)}, LostReplies: 1,
		},
		{
			Name:   "a key used twice and a flush",
			Checks: []Check{on(keyed(plain), 0), after(on(keyed(other(elsewhere(plain))), 1), 1)}, Flushes: 1, Reclaims: 1,
		},
		{
			Name:   "a key used twice",
			Checks: []Check{on(keyed(plain), 0), on(keyed(other(elsewhere(plain))), 1), on(other(elsewhere(plain)), 1)}, Crashes: 1,
		},
		{
			Name:   "lost replies",
			Checks: []Check{on(keyed(plain), 0), on(keyed(plain), 1)}, LostReplies: 1, LateSets: 1, Reclaims: 1,
		},
		{
			Name:   "late sets",
			Checks: []Check{on(plain, 0), on(plain, 1), on(other(plain), 1)}, LateSets: 1,
		},
		{
			Name:   "flush",
			Checks: []Check{on(plain, 0), on(other(plain), 1)}, Flushes: 1, Reclaims: 1, Loader: 1,
		},
		{
			Name:   "flush between two commands",
			Checks: []Check{on(keyed(plain), 0), on(other(plain), 1)}, Flushes: 1,
		},
		{
			Name:   "flush and a crash",
			Checks: []Check{on(plain, 0), on(other(plain), 1)}, Flushes: 1, Crashes: 1, Reclaims: 1, Loader: 2,
		},
		{
			Name:   "two flushes",
			Checks: []Check{on(plain, 0), after(on(other(plain), 1), 1)}, Flushes: 2, Reclaims: 1,
		},
		{
			Name:   "flush with a key",
			Checks: []Check{on(keyed(plain), 0), after(on(keyed(plain), 1), 1)}, Flushes: 1, Reclaims: 1, LostCommits: 1,
		},
		{
			Name:   "flush met by a waiting check",
			Checks: []Check{on(plain, 0), on(other(plain), 1), on(other(plain), 1)}, Flushes: 1, Suspicions: 1,
		},
		{
			Name:   "loader",
			Checks: []Check{on(under(plain, long), 0), on(under(plain, long), 1)}, Lazy: true, Recorded: long, Loader: 1, LostReplies: 2, Ticks: 1,
		},
		{
			Name:   "windows",
			Checks: []Check{on(under(plain, short), 0), on(under(plain, long), 1)}, Recorded: long, Ticks: 2, Crashes: 1, LostReplies: 1,
		},
		{
			Name:   "windows that expire",
			Checks: []Check{on(under(plain, short), 0), on(under(plain, long), 1), on(under(plain, short), 1)}, Ticks: 3,
		},
		{
			Name:   "successors that fail",
			Checks: []Check{on(under(plain, short), 0), on(under(plain, long), 1)}, Recorded: long, Ticks: 1, LostCommits: 1, Reclaims: 1,
			Suspicions: 1,
		},
		{
			Name:   "successors that die",
			Checks: []Check{on(under(plain, short), 0), on(under(plain, long), 1), on(under(plain, long), 1)}, Recorded: long, Ticks: 1, Crashes: 1,
			LostReplies: 1,
		},
		{
			Name:   "lazy successors",
			Checks: []Check{on(under(plain, short), 0), on(under(plain, long), 1)}, Lazy: true, Recorded: long, Loader: 1, Ticks: 2,
		},
		{
			Name:   "configuration",
			Checks: []Check{on(plain, 0), on(elsewhere(plain), 0)}, Posts: 2,
		},
		{
			Name:   "configuration and a flush",
			Checks: []Check{on(plain, 0)}, Posts: 1, Flushes: 1, Reclaims: 1,
		},
		{
			Name:   "split brain",
			Checks: []Check{on(plain, 0), on(other(plain), 1)}, Failovers: 1, Reclaims: 1,
		},
		{
			Name:   "split brain and configuration",
			Checks: []Check{on(plain, 0)}, Posts: 1, Failovers: 1, Reclaims: 1,
		},
	}
}
