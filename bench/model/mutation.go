package model

// Mutation breaks the protocol on purpose.
type Mutation int

// The mutations. Each leaves out one defence.
const (
	None                         Mutation = iota
	NoNodeFence                           // F1: takeovers without a fence
	FenceDoesNotWait                      // F1: the fence does not wait for the commit in progress
	NoOwnFence                            // F3: a lost commit is looked up without a fence
	NoEpochFence                          // F2: commits of older epochs are taken
	RotationDoesNotWait                   // F2: a new epoch does not wait for the commit in progress
	NoRunID                               // F4: the marker does not say which server it was written on
	MarkerFirst                           // F5: the marker is read before the claims
	SharedNames                           // F6: the epoch is not in the names
	MarkerOverwritten                     // F7: the marker is set without comparing
	PartialRelease                        // F8: releases compare the node, not the whole value
	LoserKeepsFingerprint                 // F8: who lost k waits for it while holding f
	BlockUnverified                       // F9: a hit blocks before it is verified
	ReleaseRecorded                       // F10: a recorded check's claim is released
	OrphanNotSwapped                      // F10: an orphan is handed out without compare-and-set
	NoRecheck                             // F11: takeovers do not read the marker
	KeysNotUnique                         // F14: no unique key in the check's transaction
	NoLazyLookup                          // lazy windows are taken for full ones
	NoLazyEpoch                           // a new epoch is called full at once
	LoaderDoesNotWait                     // F20: the loader passes over names that claims hold
	ReplacedNotRemembered                 // F21: the claim that took over an aged-out one is just released
	ReleaseInsteadOfRestore               // F21: the deferred command releases the claim, and restores nothing
	TakeoverTrusted                       // F21: what a dead claim may have replaced is not looked up
	UnverifiedReleased                    // F21: an unverified takeover is released
	LifeNotLengthened                     // F22: a short window's successor ends a long window's life
	GivenBackNotRemembered                // F32: f is released when giving it back fails
	ContestedSwapTrusted                  // the loader's swap counts although it found another value
	NoGeneration                          // G4: the generation is not compared
	GenerationOfEarlierBatch              // G4: the generation is the one of the node's batch before
	AnswerBeforeRaise                     // G4: 201 before the generation is raised
	JoinsEarlierLoad                      // F12: a load that began earlier is joined
	RaiseNotConfirmed                     // F27: 201 without asking whether the epoch is the store's
	RaiseOnCopy                           // F27: 201 although another server wrote the marker
	CountersReadBeforeCommit              // the node reads a counter, and the commit takes without a condition
	CountersInAnotherTransaction          // charges are taken before the check's own transaction
	PartlyTaken                           // a refused check keeps what it took from other counters
	RefusedAllowed                        // F61: a refused check is committed as an allow without a condition
	RefusedForOthers                      // F62: a check is refused for what others of its batch would take
	HintTrusted                           // F63: what a node remembers as exhausted blocks
	ReleasedAgain                         // a second report gives back again
	PendingReleases                       // F65: a report by a key that may not release gives back
	PendingLocksOut                       // F65: such a report is the only one that is taken
	ReleasedInThisPeriod                  // what is given back goes to the window in force
	ReleaseDeletesName                    // a release deletes whatever holds the name in Redis
	ReleaseDeletesClaim                   // F68: a release deletes the released check's claim in Redis
	ReleasedTakenAsAged                   // F68: a released holder is succeeded as one that has aged out
	ReleasedTakenTrusted                  // F68: a claim that took one over is released before the store was asked
	SeenHidesRelease                      // F69: a holder once found recorded is not asked about again
	ReleasedStayLive                      // F70: LivePasses returns released passes
	ReleasedAreLoaded                     // F70: the loader loads released passes
	ReleasedAdopted                       // an orphan is handed out although it was released
	RestoredWithoutClaim                  // F97: a correction claims no fingerprint
	RestoredClaimReleased                 // F97: the claim is released, and the check does not get the name
	RestoredInAnotherEpoch                // F98: the correction is committed in the epoch then in force
	RestoredAgain                         // a correction looks for no earlier one
	StepsNotUnique                        // a step of a check is recorded beside another
	PendingLeavesRedemption               // a pending report closes no redemption
	ReportIgnoresRedemption               // a report is judged by reports alone
	AskerReportsDoubt                     // the requester reports a check in doubt
	ExecutedUnredeemed                    // executed is recorded of a check that was not redeemed
	DoubtEndsNothing                      // others than the redeemer never report, even after a doubt
	ExclusiveForATime                     // the redeemer's right ends by the clock, though nobody said so
	DoubtAtOnce                           // the service does not wait
	DoubtOfAnother                        // anybody says that a check is in doubt
	ReplayOfAnother                       // F126: a redemption is replayed by its Idempotency-Key alone
	ReplayAfterDoubt                      // F126: a redemption in doubt is replayed, too
	LatenessLookedUp                      // how old the check is, is judged before the commit
	ActionNotProved                       // F136: the commit of a redemption whose check was not read compares no action
	ApprovalUsedAgain                     // a use does not look for an earlier one
	ApprovalReadBeforeCommit              // the commit does not look at the approval's state, but at its uses
	LiftedUnderAnyRules                   // the approval lifts whatever escalates now
	UsedInAnotherTransaction              // the use is recorded before the check's own transaction
	PassedHolderForgotten                 // F78: a use that fails releases the name of the holder that it passed
	ApprovedPassesAllowed                 // F78: a use passes an allowed holder
	PassedHolderGivenBack                 // F79: a use gives back a name whose pass it would pass
	AllowedPassHidden                     // F79: a holder that was not allowed hides an allowed pass from a use
	ReleaseUnuses                         // a voided check gives its approval back
	ExceededHolds                         // F87: a block as exceeded is met like a pass
	ExceededForgetsHolder                 // F88: a block as exceeded releases the name of the pass that it succeeded
	AgainPassesWaiting                    // F89: judge_again passes an escalated holder
	ExpiryForgotten                       // F82: an expiry that is recorded decides nothing
	ExpiredByClock                        // F91: an approval frees the fingerprint once a look-up finds it out of time
	ExpiredHolds                          // a check whose approval has expired is met like a pass
	ExpiredStaysLive                      // LivePasses returns a pass whose approval has expired
)
