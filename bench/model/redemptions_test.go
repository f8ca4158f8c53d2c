package model

// redemptionScenarios are about who carries an allowed check out, once.
func redemptionScenarios() []Model {
	const gateway, other, treasury = 1, 2, 3
	redeem := func(check, by, replay, node int) Check {
		return Check{Redeems: check, Principal: by, Replay: replay, Node: node, Window: long}
	}
	doubt := func(check, by, node int) Check {
		return Check{Doubts: check, Principal: by, System: by == requester, Node: node, Window: long}
	}
	void := func(check, by, node int) Check { return Check{Voids: check, Principal: by, Node: node, Window: long} }
	executed := func(check, by, node int) Check {
		return Check{Executes: check, Principal: by, Node: node, Window: long}
	}
	after := func(c Check, first int) Check { c.After = first; return c }
	pending := func(c Check) Check { c.Pending = true; return c }
	compared := func(c Check) Check { c.Compared = true; return c }
	differing := func(c Check) Check { c.Differs = true; return c }
	elsewhere := Check{Window: long, Fingerprint: 1}
	of := recordedCheck
	allowed := func(m Model) Model {
		m.Recorded, m.DoubtAfter = long, max(m.DoubtAfter, 1)
		return m
	}
	return []Model{
		allowed(Model{
			Name:   "two redeem",
			Checks: []Check{redeem(of, gateway, 0, 0), redeem(of, gateway, 1, 1), redeem(of, other, 1, 1)}, LostCommits: 1, Reclaims: 1,
			Suspicions: 1,
		}),
		allowed(Model{
			Name:   "a redemption and its retry",
			Checks: []Check{redeem(of, gateway, 1, 0), redeem(of, gateway, 1, 1), redeem(of, gateway, 2, 1)}, Crashes: 1, Reclaims: 1,
		}),
		allowed(Model{
			Name:   "a redemption and a void",
			Checks: []Check{redeem(of, gateway, 1, 0), void(of, requester, 1), void(of, treasury, 1)}, LostCommits: 1, Reclaims: 1,
		}),
		allowed(Model{
			Name:   "a redemption and a pending report",
			Checks: []Check{redeem(of, gateway, 0, 0), pending(void(of, requester, 1)), redeem(of, other, 0, 1)}, Crashes: 1, Reclaims: 1,
		}),
		allowed(Model{
			Name:   "a redemption and a check of the same action",
			Checks: []Check{redeem(of, gateway, 1, 0), void(of, gateway, 0), {Window: long, Node: 1, Request: 1}}, Flushes: 1, Reclaims: 1,
			Loader: 1,
		}),
		allowed(Model{
			Name:   "a check, its redemption and the report",
			Checks: []Check{elsewhere, redeem(1, gateway, 1, 1), executed(1, gateway, 1), void(1, requester, 0)}, Required: true, Deadlines: 1,
			LostCommits: 1, Reclaims: 1,
		}),
		allowed(Model{
			Name:   "in doubt by time",
			Checks: []Check{redeem(of, gateway, 1, 0), doubt(of, requester, 1), void(of, treasury, 1), redeem(of, gateway, 1, 1)}, Ticks: 1,
		}),
		allowed(Model{
			Name:   "in doubt by the redeemer",
			Checks: []Check{redeem(of, gateway, 1, 0), doubt(of, gateway, 0), doubt(of, other, 1), void(of, treasury, 1)}, Crashes: 1,
		}),
		allowed(Model{
			Name:        "in doubt, and who asked",
			Checks:      []Check{redeem(of, gateway, 1, 0), after(doubt(of, gateway, 1), 1), void(of, requester, 1), executed(of, gateway, 0)},
			LostCommits: 1, Reclaims: 1,
		}),
		allowed(Model{
			Name:   "a redemption that is late",
			Checks: []Check{redeem(of, gateway, 1, 0), redeem(of, other, 0, 1), pending(void(of, requester, 1))}, RedeemWithin: 1, Ticks: 2,
			Crashes: 1, LostCommits: 1, Reclaims: 1,
		}),
		allowed(Model{
			Name: "redemptions of what was not read",
			Checks: []Check{
				compared(redeem(of, gateway, 1, 0)), compared(differing(redeem(of, other, 1, 1))), compared(redeem(of, gateway, 1, 1)),
				void(of, requester, 1),
			},
			Crashes: 1, LostCommits: 1, Reclaims: 1,
		}),
		allowed(Model{
			Name:         "a late redemption of what was not read",
			Checks:       []Check{compared(redeem(of, gateway, 1, 0)), differing(redeem(of, other, 0, 1)), pending(void(of, requester, 1))},
			RedeemWithin: 1, Ticks: 2, LostCommits: 1, Reclaims: 1,
		}),
		{
			Name: "a redemption of a use",
			Checks: []Check{
				{Window: long, Uses: true, Request: 1},
				redeem(1, gateway, 1, 1), void(1, requester, 0),
				{Window: long, Uses: true, Request: 1, Node: 1},
			},
			Recorded: long, Asks: true, Approved: true, Expires: 2, UseWithin: 2, DoubtAfter: 1, Ticks: 1,
		},
	}
}
