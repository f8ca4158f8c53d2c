package model

// approvalScenarios are about the approval that the recorded check asked for.
func approvalScenarios() []Model {
	plain := Check{Window: long}
	use := Check{Window: long, Uses: true, Request: 1}
	on := func(c Check, node int) Check { c.Node = node; return c }
	keyed := func(c Check) Check { c.Key = true; return c }
	under := func(c Check, window int) Check { c.Window = window; return c }
	after := func(c Check, first int) Check { c.After = first; return c }
	escalating := func(c Check) Check { c.Escalates = true; return c }
	decides := func(d decision) Check { return Check{Decides: d, Window: long} }
	void := func(check, node int) Check { return Check{Voids: check, Node: node, Window: long} }
	asked := func(m Model) Model {
		m.Recorded, m.Asks, m.Expires, m.UseWithin = long, true, 2, max(m.UseWithin, 2)
		return m
	}
	approved := func(m Model) Model {
		m.Approved = true
		return asked(m)
	}
	return []Model{
		approved(Model{
			Name:   "two uses, one fenced",
			Checks: []Check{on(use, 0), on(use, 1)}, Suspicions: 1, Reclaims: 1, Crashes: 1,
		}),
		approved(Model{
			Name:   "two uses and a lost commit",
			Checks: []Check{on(use, 0), on(use, 1)}, LostCommits: 1, Reclaims: 1, Deadlines: 1,
		}),
		approved(Model{
			Name:   "two uses of one key",
			Checks: []Check{on(keyed(use), 0), on(keyed(use), 1)}, LostCommits: 1, Reclaims: 1, LostReplies: 1,
		}),
		approved(Model{
			Name:   "a use retried with its key after a crash",
			Checks: []Check{on(keyed(use), 0), after(on(keyed(use), 1), 1)}, Crashes: 1, Suspicions: 1,
		}),
		approved(Model{
			Name:   "a use that fails",
			Checks: []Check{on(use, 0), on(plain, 1)}, LostReplies: 1, Ticks: 2,
		}),
		approved(Model{
			Name:   "a use that is refused by a denial",
			Checks: []Check{on(use, 0), decides(denies), on(plain, 1)}, LostReplies: 1,
		}),
		approved(Model{
			Name:   "a use and its expiry",
			Checks: []Check{on(use, 0), on(use, 1)}, Ticks: 2, SetBacks: 1,
		}),
		approved(Model{
			Name:   "a use and a denial",
			Checks: []Check{on(use, 0), decides(denies), on(use, 1)}, Crashes: 1,
		}),
		approved(Model{
			Name:   "a use and a new version",
			Checks: []Check{on(use, 0), on(use, 0)}, Posts: 1,
		}),
		asked(Model{
			Name:   "a decision and the expiry",
			Checks: []Check{decides(approves), decides(denies), on(use, 0)}, Ticks: 2, SetBacks: 1,
		}),
		approved(Model{
			Name:   "a use and a flush",
			Checks: []Check{on(use, 0), on(plain, 1)}, Flushes: 1, Reclaims: 1, Loader: 2,
		}),
		approved(Model{
			Name:   "two uses and a flush",
			Checks: []Check{on(use, 0), on(use, 1)}, Flushes: 1, Reclaims: 1,
		}),
		approved(Model{
			Name:   "a use in lazy windows",
			Checks: []Check{on(use, 0), on(plain, 1)}, Lazy: true, LostReplies: 1, Crashes: 1,
		}),
		approved(Model{
			Name:   "a use in lazy windows and the loader",
			Checks: []Check{on(use, 0), on(use, 1)}, Lazy: true, Loader: 1, Suspicions: 1,
		}),
		approved(Model{
			Name:   "a use behind another's check",
			Checks: []Check{on(under(plain, short), 0), after(on(escalating(under(plain, short)), 0), 1), after(on(use, 1), 2)}, Ticks: 2,
			UseWithin: long,
		}),
		approved(Model{
			Name:   "a use behind another's check in lazy windows",
			Checks: []Check{on(under(plain, short), 0), after(on(escalating(under(plain, short)), 0), 1), after(on(use, 1), 2)}, Ticks: 2,
			Lazy: true, Loader: 1, UseWithin: long,
		}),
		asked(Model{
			Name:   "an expiry and an identical action",
			Checks: []Check{decides(approves), on(plain, 0), on(plain, 1)}, Ticks: 2,
		}),
		asked(Model{
			Name:   "an expiry and an identical action in lazy windows",
			Checks: []Check{decides(denies), on(plain, 0), on(plain, 1)}, Ticks: 2, Lazy: true, Loader: 1, Crashes: 1,
		}),
		approved(Model{
			Name:   "an expiry, a use and an identical action",
			Checks: []Check{on(use, 0), on(plain, 1)}, Ticks: 2, SetBacks: 1, Crashes: 1, Suspicions: 1, Reclaims: 1,
		}),
		approved(Model{
			Name:   "a void of a use",
			Checks: []Check{on(use, 0), void(1, 1), on(use, 1), after(on(plain, 0), 2)},
		}),
	}
}
