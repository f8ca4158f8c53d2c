package model

import (
	"testing"

	"spendgate/bench/model/search"
)

// mutant is a mutation and the scenario that it is looked for in.
type mutant struct {
	name     string
	mutation Mutation
	scenario string
}

// explore searches the states of each mutant, as far as a limit.
func explore(t *testing.T, mutants []mutant, limit int, judge func(*testing.T, search.Result)) {
	t.Helper()
	skipRaced(t)
	byName := make(map[string]Model)
	for _, m := range scenarios() {
		byName[m.Name] = m
	}
	for _, c := range mutants {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := byName[c.scenario]
			m.Mutation, m.Limit = c.mutation, limit
			judge(t, m.Explore())
		})
	}
}

// TestMutations: the searches can fail. Every missing defence is detected, in the scenario named.
func TestMutations(t *testing.T) {
	explore(t, []mutant{
		{"NoNodeFence", NoNodeFence, "slow holder"},
		{"FenceDoesNotWait", FenceDoesNotWait, "slow holder"},
		{"NoOwnFence", NoOwnFence, "lost commit"},
		{"NoEpochFence", NoEpochFence, "flush"},
		{"RotationDoesNotWait", RotationDoesNotWait, "flush"},
		{"NoRunID", NoRunID, "split brain"},
		{"MarkerFirst", MarkerFirst, "flush between two commands"},
		{"PartialRelease", PartialRelease, "retries of a key"},
		{"LoserKeepsFingerprint", LoserKeepsFingerprint, "retries of a key on one node"},
		{"BlockUnverified", BlockUnverified, "duplicates"},
		{"ReleaseRecorded", ReleaseRecorded, "lost commit"},
		{"OrphanNotSwapped", OrphanNotSwapped, "orphans"},
		{"KeysNotUnique", KeysNotUnique, "a key used twice and a flush"},
		{"NoLazyLookup", NoLazyLookup, "flush"},
		{"NoLazyEpoch", NoLazyEpoch, "flush"},
		{"LoaderDoesNotWait", LoaderDoesNotWait, "loader"},
		{"ReplacedNotRemembered", ReplacedNotRemembered, "successors that fail"},
		{"ReleaseInsteadOfRestore", ReleaseInsteadOfRestore, "successors that fail"},
		{"TakeoverTrusted", TakeoverTrusted, "successors that die"},
		{"UnverifiedReleased", UnverifiedReleased, "successors that die"},
		{"LifeNotLengthened", LifeNotLengthened, "lazy successors"},
		{"GivenBackNotRemembered", GivenBackNotRemembered, "successors that die"},
		{"ContestedSwapTrusted", ContestedSwapTrusted, "loader"},
		{"NoGeneration", NoGeneration, "configuration"},
		{"GenerationOfEarlierBatch", GenerationOfEarlierBatch, "configuration"},
		{"AnswerBeforeRaise", AnswerBeforeRaise, "configuration"},
		{"JoinsEarlierLoad", JoinsEarlierLoad, "configuration"},
		{"RaiseNotConfirmed", RaiseNotConfirmed, "split brain and configuration"},
		{"RaiseOnCopy", RaiseOnCopy, "split brain and configuration"},
		{"CountersReadBeforeCommit", CountersReadBeforeCommit, "a budget"},
		{"CountersInAnotherTransaction", CountersInAnotherTransaction, "a budget and a key"},
		{"PartlyTaken", PartlyTaken, "two budgets"},
		{"RefusedAllowed", RefusedAllowed, "a budget"},
		{"RefusedForOthers", RefusedForOthers, "a budget on one node"},
		{"HintTrusted", HintTrusted, "a budget and a void"},
		{"ExceededHolds", ExceededHolds, "a budget and an identical action"},
		{"ExceededForgetsHolder", ExceededForgetsHolder, "an exceeded successor"},
		{"AgainPassesWaiting", AgainPassesWaiting, "judged again behind a block"},
		{"AllowedPassHidden, again", AllowedPassHidden, "judged again behind a block"},
		{"PassedHolderForgotten, again", PassedHolderForgotten, "judged again, and exceeded"},
		{"PassedHolderGivenBack, again", PassedHolderGivenBack, "judged again in lazy windows"},
		{"ReleasedAgain", ReleasedAgain, "two voids"},
		{"PendingReleases", PendingReleases, "a void without the right to release"},
		{"PendingLocksOut", PendingLocksOut, "a void without the right to release"},
		{"ReleasedInThisPeriod", ReleasedInThisPeriod, "a void after the budget's window"},
		{"ReleaseDeletesName", ReleaseDeletesName, "a void of who was succeeded"},
		{"ReleaseDeletesClaim", ReleaseDeletesClaim, "a void of a successor"},
		{"SeenHidesRelease", SeenHidesRelease, "a void"},
		{"ReleasedTakenAsAged", ReleasedTakenAsAged, "a void of a successor"},
		{"ReleasedTakenTrusted", ReleasedTakenTrusted, "a void of a successor"},
		{"ReleasedStayLive", ReleasedStayLive, "a void and the loader"},
		{"ReleasedAdopted", ReleasedAdopted, "a void of an orphan"},
		{"RestoredWithoutClaim", RestoredWithoutClaim, "a correction and a check of another action"},
		{"RestoredClaimReleased", RestoredClaimReleased, "a correction and a flush"},
		{"RestoredInAnotherEpoch", RestoredInAnotherEpoch, "a correction and a check of another action"},
		{"RestoredAgain", RestoredAgain, "two corrections"},
		{"ApprovalUsedAgain", ApprovalUsedAgain, "a void of a use"},
		{"ApprovalReadBeforeCommit", ApprovalReadBeforeCommit, "a use and its expiry"},
		{"ApprovalReadBeforeCommit, denied", ApprovalReadBeforeCommit, "a use and a denial"},
		{"LiftedUnderAnyRules", LiftedUnderAnyRules, "a use and a new version"},
		{"NoGeneration, used", NoGeneration, "a use and a new version"},
		{"UsedInAnotherTransaction", UsedInAnotherTransaction, "two uses, one fenced"},
		{"PassedHolderForgotten", PassedHolderForgotten, "a use that is refused by a denial"},
		{"ApprovedPassesAllowed", ApprovedPassesAllowed, "a use behind another's check"},
		{"PassedHolderGivenBack", PassedHolderGivenBack, "a use in lazy windows"},
		{"AllowedPassHidden", AllowedPassHidden, "a use behind another's check"},
		{"ReleaseUnuses", ReleaseUnuses, "a void of a use"},
		{"ExpiryForgotten", ExpiryForgotten, "a use and its expiry"},
		{"ExpiredByClock", ExpiredByClock, "an expiry, a use and an identical action"},
		{"ExpiredHolds", ExpiredHolds, "an expiry and an identical action"},
		{"ExpiredStaysLive", ExpiredStaysLive, "an expiry and an identical action in lazy windows"},
		{"StepsNotUnique", StepsNotUnique, "two redeem"},
		{"StepsNotUnique, voided", StepsNotUnique, "a redemption and a void"},
		{"PendingLeavesRedemption", PendingLeavesRedemption, "a redemption and a pending report"},
		{"ReportIgnoresRedemption", ReportIgnoresRedemption, "a redemption and a void"},
		{"AskerReportsDoubt", AskerReportsDoubt, "in doubt, and who asked"},
		{"ExecutedUnredeemed", ExecutedUnredeemed, "a check, its redemption and the report"},
		{"DoubtEndsNothing", DoubtEndsNothing, "in doubt by the redeemer"},
		{"ExclusiveForATime", ExclusiveForATime, "in doubt by time"},
		{"DoubtAtOnce", DoubtAtOnce, "in doubt by time"},
		{"DoubtOfAnother", DoubtOfAnother, "in doubt by the redeemer"},
		{"ReplayOfAnother", ReplayOfAnother, "two redeem"},
		{"ReplayAfterDoubt", ReplayAfterDoubt, "in doubt by time"},
		{"LatenessLookedUp", LatenessLookedUp, "a redemption that is late"},
		{"LatenessLookedUp, not read", LatenessLookedUp, "a late redemption of what was not read"},
		{"StepsNotUnique, not read", StepsNotUnique, "redemptions of what was not read"},
		{"ActionNotProved", ActionNotProved, "redemptions of what was not read"},
		{"BlockUnverified, used", BlockUnverified, "two uses, one fenced"},
		{"NoLazyLookup, used", NoLazyLookup, "a use and a flush"},
		{"ReplacedNotRemembered, used", ReplacedNotRemembered, "a use that is refused by a denial"},
	}, mutantStates, func(t *testing.T, r search.Result) {
		if r.Violation == "" {
			t.Errorf("not caught: %s", r)
		}
		t.Log(r)
	})
}

// TestRedundant: defences that another one covers. They stay, since each is a proof by itself; if a
// search gets round the other, this test fails, and the mutation moves to the table above.
func TestRedundant(t *testing.T) {
	explore(t, []mutant{
		// A late writer of an older epoch leaves a claim without a record: the
		// loader waits for it, and lazy windows are looked up.
		{"SharedNames", SharedNames, "flush"},
		// The marker of a past epoch certifies nothing that the commit's fence lets through.
		{"MarkerOverwritten", MarkerOverwritten, "two flushes"},
		// A value that a certified batch has read is never written twice, so what a swap finds was
		// there before the loss.
		{"NoRecheck", NoRecheck, "flush met by a waiting check"},
		// A released pass in a name is detected like any holder.
		{"ReleasedAreLoaded", ReleasedAreLoaded, "a void and the loader"},
		// The single use of an approval depends on no claim and on no fence.
		{"NoNodeFence, used", NoNodeFence, "two uses, one fenced"},
		{"NoEpochFence, used", NoEpochFence, "two uses and a flush"},
		{"KeysNotUnique, used", KeysNotUnique, "two uses of one key"},
	}, *states, func(t *testing.T, r search.Result) {
		if r.Violation != "" {
			t.Errorf("caught: %s", r)
		}
	})
}
