package payments

// scenarios give the models by name.
func scenarios() []Model {
	guard := Caller{Action: 1, Calls: 1}
	calls := func(c Caller, n uint8) Caller { c.Calls = n; return c }
	other := func(c Caller) Caller { c.Action = 2; return c }
	replacing := func(c Caller) Caller { c.Replace = true; return c }
	taking := func(c Caller) Caller { c.TakeOver = true; return c }
	ignoring := func(c Caller) Caller { c.IgnoresID = true; return c }
	pending := func(c Caller) Caller { c.Pending = true; return c }
	doubting := func(c Caller) Caller { c.Doubts = true; return c }
	plain := func(c Caller) Caller { c.Plain = true; return c }
	byID := func(i id, own bool) Caller { return Caller{Action: 1, Calls: 1, ByID: i, Own: own, IgnoresID: true} }
	const ofAsker, ofNobody set = 1 << askers, 0
	return []Model{
		{Name: "two callers", Callers: []Caller{ignoring(guard), ignoring(guard)}, LostAnswers: 1, LostCommits: 1},
		{Name: "two callers, one dies", Callers: []Caller{ignoring(guard), ignoring(guard)}, Deaths: 1, LostAnswers: 1},
		{Name: "a second attempt", Callers: []Caller{calls(ignoring(guard), 2)}, LostAnswers: 2},
		{Name: "an open check", Callers: []Caller{ignoring(guard), ignoring(pending(guard))}, Recorded: []set{ofAsker}, LostCommits: 1},
		{Name: "an open check that asks", Callers: []Caller{plain(guard), ignoring(doubting(guard))}, LostAnswers: 1},
		{Name: "a take-over", Callers: []Caller{guard, taking(guard)}, Deaths: 1, LostAnswers: 1},
		{Name: "a take-over, and a report that does not release", Callers: []Caller{pending(guard), taking(guard)}},
		{Name: "take-overs", Callers: []Caller{taking(guard), taking(guard)}, LostAnswers: 1},
		{Name: "take-overs and a lost commit", Callers: []Caller{taking(guard), taking(guard)}, LostCommits: 1},
		{Name: "a take-over and a third", Callers: []Caller{guard, taking(guard), guard}},
		{Name: "claims", Callers: []Caller{calls(guard, 2), taking(guard)}, Claims: 1},
		{Name: "claims about an earlier check", Callers: []Caller{guard, taking(guard)}, Recorded: []set{ofAsker}, Earlier: true, Claims: 2},
		{
			Name: "claims about an earlier check, and a lost answer", Callers: []Caller{guard},
			Recorded: []set{ofAsker}, Earlier: true, Claims: 1, LostAnswers: 1,
		},
		{Name: "approvals", Callers: []Caller{calls(guard, 2), guard}, Asks: asks},
		{Name: "approvals that do not lift", Callers: []Caller{calls(guard, 2), guard}, Asks: asks, Uses: asks | allowed},
		{Name: "replace", Callers: []Caller{plain(guard), replacing(other(guard)), ignoring(guard)}},
		{Name: "replace what waits", Callers: []Caller{guard, replacing(other(guard))}, Asks: asks | allowed, LostAnswers: 1},
		{Name: "rounds", Callers: []Caller{calls(guard, 2), guard}, Rounds: 1},
		{
			Name: "rounds and approvals", Callers: []Caller{calls(guard, 2)},
			Recorded: []set{ofAsker}, Earlier: true, Asks: asks, Claims: 1, Rounds: 1,
		},
		{Name: "a restore", Callers: []Caller{calls(guard, 2), guard}, Restores: 1},
		{Name: "a restore and take-overs", Callers: []Caller{taking(guard), taking(guard)}, Restores: 1},
		{
			Name: "a removal", Callers: []Caller{ignoring(guard), ignoring(guard)}, Recorded: []set{ofAsker}, Earlier: true,
			LostCommits: 1, Removals: 1,
		},
		{Name: "by id", Callers: []Caller{byID(1, false), taking(guard)}, Recorded: []set{ofAsker}, LostCommits: 1},
		{Name: "without a payment", Callers: []Caller{byID(1, false), byID(1, false)}, Recorded: []set{ofNobody}, LostCommits: 1},
		{Name: "a payment of the executor", Callers: []Caller{byID(1, true), byID(2, true)}, Recorded: []set{ofAsker, ofNobody}},
	}
}
