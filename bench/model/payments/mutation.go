package payments

// Mutation breaks the protocol on purpose. Mutations can be combined.
type Mutation uint64

// None breaks nothing.
const None Mutation = 0

// The mutations. Each leaves out one defence. The first are in the order of operations.
const (
	CheckUncompared        Mutation = 1 << iota // the commit of a check does not compare the payment's version
	RedemptionUncompared                        // nor that of a redemption
	TakeOverUncompared                          // nor that of a take-over
	ReportUncompared                            // nor that of a report
	LapseUncompared                             // nor that of a void of what nobody redeemed in time
	DoubtUncompared                             // nor that of a doubt
	LifeUncompared                              // the commit of one that read a removed payment compares only its version
	OwnUncompared                               // the commit of a redemption by id does not compare the executor's payment
	StepsNotUnique                              // a step of a check is recorded beside another
	NonceRedeemsAgain                           // a nonce that redeemed an attempt redeems the next one
	TakenBack                                   // a nonce that redeemed or took over takes over
	TakenOverAfterReport                        // what was reported is taken over
	TakeOverOfID                                // what was redeemed by its id is taken over
	ProceedAfterDoubt                           // proceed is true though the check is in doubt
	ProceedAfterOutcome                         // proceed is true though an outcome was reported
	ProceedThoughExecuted                       // proceed is true though another check is executed
	ProceedForAnybody                           // proceed is true for every nonce
	LostCommitTrusted                           // a node answers proceed though its commit was lost
	ReleasedAsFailed                            // people report as failed what did not move as far as they see
	ProceedOfFormer                             // proceed is true for who was taken over
	EarlierExecutedIgnored                      // a report that an earlier check is executed changes nothing
	FormerGivesBack                             // who was taken over reports that nothing moved
	FreeUnreleased                              // a payment is free before its check was given back
	FreeTooSoon                                 // an executed payment is free before its hours are over
	DenialKeepsOthers                           // a denial does not withdraw the payment's other approvals
	ExecutedKeepsApprovals                      // neither does the report that a check is executed
	ExecutedKeepsOpen                           // the report that an earlier check is executed does not void an open one
	UseNotProved                                // the commit does not look at the approval's state
	ReplaceRedeemed                             // a redeemed check is replaced
	ReplaceKeepsOpen                            // the check that is replaced is not voided
	ActionNotCompared                           // a check of another action is redeemed
	ExecutionByAttempt                          // the execution_id counts attempts, not redeemed checks
	ExecutionByRedemption                       // neither does it count redeemed checks, but those that the provider answered
	ExecutionByRound                            // the execution_id is the same in each attempt of a round
	ExecutionAnew                               // a take-over makes a new execution_id
	OldAnswerTaken                              // a guard takes an answer however old it is
	UnsentIsFailed                              // a guard reports as failed what did not reach the provider
	DeclineForgotten                            // the provider does not remember what it declined
	NothingLapses                               // nobody voids what nobody redeemed in time
	NoDoubtByClock                              // the service never says that a check is in doubt
)
