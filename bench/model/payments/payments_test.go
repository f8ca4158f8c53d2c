package payments

import (
	"testing"

	"spendgate/bench/model/search"
)

// TestProtocol searches every scenario completely.
func TestProtocol(t *testing.T) {
	skipRaced(t)
	for _, m := range scenarios() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			r := m.Explore()
			if r.Violation != "" || !r.Complete {
				t.Error(r)
			}
			t.Log(r)
		})
	}
}

// skipRaced skips a search under the race detector. `make test` also runs the searches without it.
func skipRaced(t *testing.T) {
	t.Helper()
	if search.Raced {
		t.Skip("too slow under the race detector")
	}
}

// mutant is a mutation and the scenario that it is looked for in.
type mutant struct {
	name     string
	mutation Mutation
	scenario string
}

func explore(t *testing.T, mutants []mutant, judge func(*testing.T, search.Result)) {
	t.Helper()
	skipRaced(t)
	byName := make(map[string]Model)
	for _, m := range scenarios() {
		byName[m.Name] = m
	}
	for _, c := range mutants {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, ok := byName[c.scenario]
			if !ok {
				t.Fatalf("no scenario %q", c.scenario)
			}
			m.Mutation = c.mutation
			judge(t, m.Explore())
		})
	}
}

// TestMutations: the searches can fail. Every missing defence is detected, in the scenario named.
func TestMutations(t *testing.T) {
	explore(t, []mutant{
		{"CheckUncompared", CheckUncompared, "two callers"},
		{"RedemptionUncompared", RedemptionUncompared, "a payment of the executor"},
		{"TakeOverUncompared", TakeOverUncompared, "claims about an earlier check"},
		{"ReportUncompared", ReportUncompared, "claims about an earlier check"},
		{"LapseUncompared", LapseUncompared | StepsNotUnique, "an open check"},
		{"DoubtUncompared", DoubtUncompared | StepsNotUnique, "a take-over"},
		{"TakeOverUncompared, reported", TakeOverUncompared | StepsNotUnique, "a take-over"},
		{"ReportUncompared, taken over", ReportUncompared | StepsNotUnique, "a take-over"},
		{"RedemptionUncompared, redeemed", RedemptionUncompared | StepsNotUnique, "an open check"},
		{"OwnUncompared", OwnUncompared, "a payment of the executor"},
		{"LifeUncompared", LifeUncompared, "a removal"},
		{"StepsNotUnique", StepsNotUnique, "without a payment"},
		{"NonceRedeemsAgain", NonceRedeemsAgain, "a second attempt"},
		{"TakenBack", TakenBack, "take-overs"},
		{"TakenOverAfterReport", TakenOverAfterReport, "a take-over, and a report that does not release"},
		{"TakeOverOfID", TakeOverOfID, "by id"},
		{"ProceedAfterDoubt", ProceedAfterDoubt, "two callers, one dies"},
		{"ProceedAfterOutcome", ProceedAfterOutcome, "two callers"},
		{"ProceedThoughExecuted", ProceedThoughExecuted, "claims about an earlier check, and a lost answer"},
		{"ProceedForAnybody", ProceedForAnybody, "two callers"},
		{"LostCommitTrusted", LostCommitTrusted, "an open check"},
		{"ReleasedAsFailed", ReleasedAsFailed, "a take-over and a third"},
		{"ProceedOfFormer", ProceedOfFormer, "take-overs"},
		{"EarlierExecutedIgnored", EarlierExecutedIgnored, "claims about an earlier check"},
		{"FormerGivesBack", FormerGivesBack, "take-overs"},
		{"FreeUnreleased", FreeUnreleased, "an open check"},
		{"FreeTooSoon", FreeTooSoon, "rounds"},
		{"DenialKeepsOthers", DenialKeepsOthers, "approvals that do not lift"},
		{"UseNotProved", UseNotProved, "approvals"},
		{"UseNotProved, denied", UseNotProved, "approvals that do not lift"},
		{"ExecutedKeepsApprovals", ExecutedKeepsApprovals, "rounds and approvals"},
		{"ReplaceRedeemed", ReplaceRedeemed, "replace"},
		{"ReplaceKeepsOpen", ReplaceKeepsOpen, "replace"},
		{"ActionNotCompared", ActionNotCompared, "replace"},
		{"ExecutionByAttempt", ExecutionByAttempt, "a restore"},
		{"ExecutionByRedemption", ExecutionByRedemption, "a restore"},
		{"ExecutionByRound", ExecutionByRound, "two callers"},
		{"ExecutionAnew", ExecutionAnew, "claims about an earlier check"},
		{"OldAnswerTaken", OldAnswerTaken, "two callers"},
		{"UnsentIsFailed, taken over", UnsentIsFailed, "a take-over and a third"},
		{"UnsentIsFailed, restored", UnsentIsFailed, "a restore"},
		{"DeclineForgotten, taken over", DeclineForgotten, "a take-over and a third"},
		{"NothingLapses", NothingLapses, "an open check that asks"},
		{"NoDoubtByClock", NoDoubtByClock, "a take-over"},
	}, func(t *testing.T, r search.Result) {
		if r.Violation == "" {
			t.Errorf("not caught: %s", r)
		}
		t.Log(r)
	})
}

// TestRedundant: defences that another one covers. They stay, since each is a proof by itself.
func TestRedundant(t *testing.T) {
	explore(t, []mutant{
		{"LapseUncompared", LapseUncompared, "an open check"},
		{"DoubtUncompared", DoubtUncompared, "a take-over"},
		{"StepsNotUnique", StepsNotUnique, "an open check"},
		{"StepsNotUnique, taken over", StepsNotUnique, "a take-over"},
		{"ExecutedKeepsOpen", ExecutedKeepsOpen, "claims about an earlier check"},
	}, func(t *testing.T, r search.Result) {
		if r.Violation != "" {
			t.Errorf("caught: %s", r)
		}
	})
}
