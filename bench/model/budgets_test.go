package model

// budgetScenarios are about counters and reports.
func budgetScenarios() []Model {
	plain := Check{Window: short}
	on := func(c Check, node int) Check { c.Node = node; return c }
	keyed := func(c Check) Check { c.Key = true; return c }
	other := func(c Check) Check { c.Request = 1; return c }
	after := func(c Check, first int) Check { c.After = first; return c }
	under := func(c Check, window int) Check { c.Window = window; return c }
	elsewhere := func(c Check) Check { c.Fingerprint = 1; return c }
	taking := func(c Check, first, second uint8) Check { c.Charges = [maxCounters]uint8{first, second}; return c }
	again := func(c Check) Check { c.Again = true; return c }
	blocking := func(c Check) Check { c.Blocks = true; return c }
	void := func(check, node int) Check { return Check{Voids: check, Node: node, Window: short} }
	restore := func(check, node, voided int) Check {
		return Check{Restores: check, Node: node, After: voided, Window: long}
	}
	pending := func(c Check) Check { c.Pending = true; return c }
	one := taking(plain, 1, 0)
	return []Model{
		{
			Name:   "a budget",
			Checks: []Check{on(one, 0), on(elsewhere(one), 1)}, Limits: [maxCounters]uint8{1},
			Crashes: 1, LostCommits: 1, Reclaims: 1,
		},
		{
			Name:   "a budget on one node",
			Checks: []Check{on(one, 0), on(elsewhere(one), 0)}, Limits: [maxCounters]uint8{1},
			LostCommits: 1, Deadlines: 1,
		},
		{
			Name:   "a budget and a duplicate",
			Checks: []Check{on(one, 0), on(other(one), 1), on(elsewhere(one), 1)}, Limits: [maxCounters]uint8{1},
			Suspicions: 1, Reclaims: 1,
		},
		{
			Name:   "a budget and an identical action",
			Checks: []Check{on(one, 0), on(other(one), 1), on(other(one), 1)}, Limits: [maxCounters]uint8{0},
			Crashes: 1, Suspicions: 1, Reclaims: 1, Lazy: true, Loader: 2,
		},
		{
			Name:   "an exceeded successor",
			Checks: []Check{on(taking(under(plain, short), 1, 0), 0), on(under(other(plain), long), 1)}, Limits: [maxCounters]uint8{0},
			Recorded: long, Ticks: 1, Crashes: 1, Lazy: true, Loader: 2,
		},
		{
			Name:    "judged again",
			Checks:  []Check{on(blocking(plain), 0), on(again(other(plain)), 1), on(again(other(plain)), 1)},
			Crashes: 1, Suspicions: 1, Reclaims: 1,
		},
		{
			Name:   "judged again behind a block",
			Checks: []Check{on(blocking(other(plain)), 0), on(again(under(plain, long)), 1)}, Recorded: long, Ticks: 2, Escalated: true,
		},
		{
			Name:   "judged again, and exceeded",
			Checks: []Check{on(again(under(taking(plain, 1, 0), long)), 0), on(under(other(plain), long), 1)}, Recorded: long, Blocked: true,
			Limits: [maxCounters]uint8{0}, Crashes: 1, Ticks: 1,
		},
		{
			Name:   "judged again in lazy windows",
			Checks: []Check{on(again(under(plain, long)), 0), on(under(other(plain), long), 1)}, Recorded: long, Blocked: true,
			Lazy: true, LostReplies: 1, Crashes: 1,
		},
		{
			Name:   "a budget and a key",
			Checks: []Check{on(keyed(one), 0), after(on(keyed(other(elsewhere(one))), 1), 1)}, Limits: [maxCounters]uint8{2},
			Flushes: 1, Reclaims: 1,
		},
		{
			Name:   "a budget and a flush",
			Checks: []Check{on(one, 0), on(elsewhere(one), 1)}, Limits: [maxCounters]uint8{1},
			Flushes: 1, LostCommits: 1, Reclaims: 1, Loader: 2,
		},
		{
			Name:   "two budgets",
			Checks: []Check{on(taking(plain, 1, 1), 0), on(elsewhere(taking(plain, 1, 1)), 1)}, Limits: [maxCounters]uint8{2, 1},
			Crashes: 1, Reclaims: 1,
		},
		{
			Name:   "a budget and a void",
			Checks: []Check{on(one, 0), on(elsewhere(one), 1), void(1, 0), after(on(elsewhere(one), 1), 2)}, Limits: [maxCounters]uint8{1},
			Ticks: 1,
		},
		{
			Name:   "a void",
			Checks: []Check{on(plain, 0), void(1, 0), on(other(plain), 1), on(other(plain), 1)},
		},
		{
			Name:   "a void and a fence",
			Checks: []Check{on(one, 0), void(1, 0), on(other(one), 1)}, Limits: [maxCounters]uint8{1},
			Suspicions: 1, LostCommits: 1, Reclaims: 1,
		},
		{
			Name:   "two voids",
			Checks: []Check{on(one, 0), void(1, 0), void(1, 1), on(other(one), 1)}, Limits: [maxCounters]uint8{1},
			Crashes: 1,
		},
		{
			Name:   "two voids and a lost commit",
			Checks: []Check{on(one, 0), void(1, 0), void(1, 1)}, Limits: [maxCounters]uint8{1},
			LostCommits: 1, Reclaims: 1, Flushes: 1,
		},
		{
			Name:   "a void without the right to release",
			Checks: []Check{on(one, 0), pending(void(1, 0)), void(1, 1), on(other(one), 1)}, Limits: [maxCounters]uint8{1},
			LostCommits: 1, Reclaims: 1,
		},
		{
			Name:   "a void after the budget's window",
			Checks: []Check{on(one, 0), on(elsewhere(one), 1), void(1, 1)}, Limits: [maxCounters]uint8{1}, Period: 1,
			Ticks: 1,
		},
		{
			Name:   "a void and the loader",
			Checks: []Check{on(under(plain, long), 0), void(recordedCheck, 1), on(under(plain, long), 1)}, Lazy: true, Recorded: long, Loader: 1,
			LostReplies: 1, Ticks: 1,
		},
		{
			Name:   "a void and a flush",
			Checks: []Check{on(plain, 0), void(1, 1), on(other(plain), 1)}, Flushes: 1, Reclaims: 1, Loader: 1,
		},
		{
			Name:   "a void of a successor",
			Checks: []Check{on(under(plain, short), 0), void(1, 1), on(under(plain, long), 0), on(under(plain, long), 1)}, Recorded: long,
			Ticks: 1, LostReplies: 1,
		},
		{
			Name:   "a void of who was succeeded",
			Checks: []Check{on(under(plain, short), 0), void(recordedCheck, 1), on(under(plain, long), 1)}, Recorded: long,
			Ticks: 1, LostCommits: 1, Reclaims: 1,
		},
		{
			Name:   "a void of a lazy successor",
			Checks: []Check{on(under(plain, short), 0), void(1, 1), on(under(plain, long), 1)}, Lazy: true, Recorded: long, Loader: 1,
			Ticks: 1, LostReplies: 1,
		},
		{
			Name:   "a correction",
			Checks: []Check{on(one, 0), void(1, 0), restore(1, 1, 2), on(other(one), 1)}, Limits: [maxCounters]uint8{1},
			Suspicions: 1,
		},
		{
			Name:   "a correction and a flush",
			Checks: []Check{void(recordedCheck, 0), restore(recordedCheck, 1, 1), after(on(under(plain, long), 1), 2)}, Recorded: long,
			Flushes: 1, Reclaims: 1, Loader: 1,
		},
		{
			Name: "a correction and a check of another action",
			Checks: []Check{
				void(recordedCheck, 0), restore(recordedCheck, 0, 1), after(on(elsewhere(plain), 0), 1), after(on(under(plain, long), 0), 2),
			},
			Recorded: long, Flushes: 1, Reclaims: 1, Loader: 1,
		},
		{
			Name:   "two corrections",
			Checks: []Check{on(one, 0), void(1, 0), restore(1, 0, 2), restore(1, 1, 2)}, Limits: [maxCounters]uint8{1},
			Suspicions: 1, LostCommits: 1, Reclaims: 1,
		},
		{
			Name:   "a correction and a crash",
			Checks: []Check{on(plain, 1), void(1, 1), restore(1, 0, 2), on(other(plain), 1)}, Crashes: 1, Suspicions: 1, Reclaims: 1,
		},
		{
			Name:   "a correction behind a longer window",
			Checks: []Check{on(under(plain, short), 0), void(1, 0), restore(1, 1, 2), on(under(plain, long), 1)}, Recorded: long,
			Ticks: 2, LostReplies: 1,
		},
		{
			Name:   "a correction in lazy windows",
			Checks: []Check{on(under(plain, long), 0), void(1, 0), restore(1, 1, 2), on(under(plain, short), 0)}, Lazy: true, Recorded: long,
			Loader: 1, Ticks: 1, LostReplies: 1,
		},
		{
			Name:   "a void of an orphan",
			Checks: []Check{on(plain, 0), void(1, 1), on(plain, 1)}, Deadlines: 1, Crashes: 1,
		},
		{
			Name:   "a void and a retry of its key",
			Checks: []Check{on(keyed(plain), 0), void(1, 1), on(keyed(plain), 1), on(other(plain), 1)}, Flushes: 1,
		},
	}
}
