package audittest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// Subject is a fresh store and direct access to its database, with which the suite does what the
// contract does not allow.
type Subject struct {
	audit.Store
	// Exec runs one statement on the database itself.
	Exec func(t *testing.T, sql string) error
	// Count runs a query of one number.
	Count func(t *testing.T, sql string) int
	// ExpireKeys is the statement that makes every idempotency key expire.
	ExpireKeys string
	// DelayExpiries makes every approval expire an hour later, as if the store's
	// clock had gone back.
	DelayExpiries string
	// AgePayments is the statement after which nothing was recorded of any payment for longer than they are kept.
	AgePayments string
	// FineCounts is the statement that makes the store keep a count for every
	// few violations; empty if it keeps none.
	FineCounts string
	// Unrecorded are further statements that change the configuration without a
	// record, which the database must refuse.
	Unrecorded []string
	// Forbidden are further statements that the database must refuse (G8).
	Forbidden []string
}

// test is one of the suite.
type test struct {
	name string
	run  func(t *testing.T, s Subject)
}

// Run tests the stores that open makes against the contract of audit.Store.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	run(t, open, slices.Concat(checkTests(), configTests(), listTests(), paymentTests(), freezeTests(), budgetGrantTests(),
		webhookTests(), eventTests(), retentionTests()))
}

func run(t *testing.T, open func(t *testing.T) Subject, tests []test) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
}

func checkTests() []test {
	return []test{
		{"EveryFieldComesBack", everyFieldComesBack},
		{"BatchIsAllOrNothing", batchIsAllOrNothing},
		{"PoisonRowIsNamed", poisonRowIsNamed},
		{"ContextEnds", contextEnds},
		{"KeysAreTakenOnce", keysAreTakenOnce},
		{"KeysRace", keysRace},
		{"KeysExpire", keysExpire},
		{"LivePasses", livePasses},
		{"PagePasses", pagePasses},
		{"BudgetsAreTaken", budgetsAreTaken},
		{"ZonesChange", zonesChange},
		{"RollingBudgets", rollingBudgets},
		{"BudgetsRace", budgetsRace},
		{"BudgetsCountSince", budgetsCountSince},
		{"BudgetsInUse", budgetsInUse},
		{"CountersExpire", countersExpire},
		{"ApprovalStates", approvalStates},
		{"ApprovalExpires", approvalExpires},
		{"ApprovalExpiryRace", approvalExpiryRace},
		{"ApprovalSeparation", approvalSeparation},
		{"ApprovalUseRace", approvalUseRace},
		{"ApprovalReopens", approvalReopens},
		{"ApprovalReopensOfGroups", approvalReopensOfGroups},
		{"ApprovalReopensAgain", approvalReopensAgain},
		{"ApprovalReopensByUse", approvalReopensByUse},
		{"ApprovalReopeningRace", approvalReopeningRace},
		{"OutcomesComeBack", outcomesComeBack},
		{"OutcomesAreReportedOnce", outcomesAreReportedOnce},
		{"OutcomesCorrectCounters", outcomesCorrectCounters},
		{"OutcomesFollow", outcomesFollow},
		{"OutcomesOfEndedWindows", outcomesOfEndedWindows},
		{"UseFollows", useFollows},
		{"OutcomesRace", outcomesRace},
		{"RedemptionsAreSteps", redemptionsAreSteps},
		{"RedemptionsTogether", redemptionsTogether},
		{"RedemptionsAlone", redemptionsAlone},
		{"RedemptionsRace", redemptionsRace},
		{"UnreadRedemptions", unreadRedemptions},
		{"UnreadRedemptionsDiffer", unreadRedemptionsDiffer},
		{"ReleasedPasses", releasedPasses},
		{"DeploymentIsNamed", deploymentIsNamed},
		{"StaleEpoch", staleEpoch},
		{"FencedNode", fencedNode},
		{"FenceIsFinal", fenceIsFinal},
		{"RotationIsFinal", rotationIsFinal},
		{"RotationRace", rotationRace},
		{"Drafts", drafts},
		{"DraftsRace", draftsRace},
		{"ChangesByTwo", changesByTwo},
		{"ChangesRace", changesRace},
		{"PolicyVersions", policyVersions},
		{"PolicyVersionsRace", policyVersionsRace},
		{"PolicyReplaces", policyReplaces},
		{"PolicyReplacesRace", policyReplacesRace},
		{"ConfigChangesRace", configChangesRace},
		{"BatchOfEachCommit", batchOfEachCommit},
		{"ChainNeverForks", chainNeverForks},
		{"WriterMakesChains", writerMakesChains},
	}
}

func configTests() []test {
	return []test{
		{"Keys", keys},
		{"KeyGrants", keyGrants},
		{"KeyPaging", keyPaging},
		{"Sessions", sessions},
		{"SessionsEndTogether", sessionsEndTogether},
		{"SessionsLoggedOut", sessionsLoggedOut},
		{"SessionsOverlap", sessionsOverlap},
		{"ApprovalParties", approvalParties},
		{"ApprovalPartyRace", approvalPartyRace},
		{"ApprovalGroups", approvalGroups},
		{"ApprovalGroupsChange", approvalGroupsChange},
		{"ApprovalGroupsRace", approvalGroupsRace},
		{"ApprovalExcludesAuthor", approvalExcludesAuthor},
		{"ApprovalAuthorRace", approvalAuthorRace},
		{"KeyUses", keyUses},
		{"KeyUsesRace", keyUsesRace},
		{"ConfigChanges", configChanges},
		{"ChangesForced", changesForced},
		{"ChangesRejected", changesRejected},
		{"ChangesByWhom", changesByWhom},
		{"ChangesBounded", changesBounded},
		{"ChangesKeyRace", changesKeyRace},
		{"ChangesAreRecorded", changesAreRecorded},
		{"NoChangeWithoutRecord", noChangeWithoutRecord},
	}
}

func listTests() []test {
	return []test{
		{"Backtests", backtests},
		{"BacktestContinues", continued},
		{"EndedBacktests", endedBacktests},
		{"History", checkHistory},
		{"CounterListing", counterListing},
		{"RollingListing", rollingListing},
		{"PrincipalsExpire", principalsExpire},
		{"OutcomeListing", outcomeListing},
		{"ApprovalListing", approvalListing},
		{"ViolationPaging", violationPaging},
		{"ViolationTotals", violationTotals},
		{"ViolationTotalsRace", violationTotalsRace},
		{"CheckListing", checkListing},
		{"CheckListingIsBounded", checkListingIsBounded},
		{"CheckListingRace", checkListingRace},
		{"CheckCounts", checkCounts},
		{"CheckCountsRace", checkCountsRace},
		{"CheckCountsAreBounded", checkCountsAreBounded},
		{"CheckSums", checkSums},
		{"PolicyListing", policyListing},
		{"PolicyPagesAreBounded", policyPagesAreBounded},
		{"Immutable", immutable},
		{"Health", health},
	}
}

// immutable: the database itself refuses what G8 forbids.
func immutable(t *testing.T, s Subject) {
	ctx := t.Context()
	f := fence(t, s)
	c := blocked(newCheck(f))
	allowed := newCheck(f)
	mustCommit(t, s, c, allowed)
	mustReport(t, s, report(f, allowed, 1, spend.Voided, true))
	asked := asking(f, 1)
	mustCommit(t, s, asked)
	mustDecide(t, s, decision(asked, "bob", true), audit.DecisionRecorded)
	mustCommit(t, s, using(f, asked))
	must(t, s.CreatePolicy(ctx, actor(), newPolicy("p"), audit.NewBudgets{}, epochStart))
	for _, statement := range append([]string{
		"UPDATE checks SET agent_id = 'x'",
		"DELETE FROM checks",
		"UPDATE violations SET agent_id = 'x'",
		"DELETE FROM violations",
		"UPDATE outcomes SET note = 'x'",
		"DELETE FROM outcomes",
		"UPDATE policies SET name = 'x'",
		"DELETE FROM policies",
		"UPDATE batches SET seq = 7",
		"DELETE FROM batches",
		"UPDATE changes SET subject = 'x'",
		"DELETE FROM changes",
		"UPDATE approvals SET agent_id = 'x'",
		"DELETE FROM approvals",
		"UPDATE approval_uses SET check_id = approval_id",
		"DELETE FROM approval_uses",
	}, s.Forbidden...) {
		if err := s.Exec(t, statement); err == nil || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("%s: got %v, want a refusal", statement, err)
		}
	}
	mustHave(t, s, c)
	if page := mustList(t, s, audit.ViolationQuery{Limit: 10}); len(page.Violations) != 2 {
		t.Errorf("%d violations left, want 2", len(page.Violations))
	}
	if p, err := s.Policy(ctx, "p", 1); err != nil || p.Name != newPolicy("p").Name {
		t.Errorf("policy is now %+v, %v", p, err)
	}
}

func health(t *testing.T, s Subject) {
	ctx := t.Context()
	if err := s.Ping(ctx); err != nil {
		t.Error(err)
	}
	if err := s.Ping(endedContext(t)); !errors.Is(err, audit.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	status := get(s.Status(ctx))(t)
	off := strings.Contains(status.Durability, " off") // fsync, in a server that is only for tests
	if status.Safe == off || status.Breakable != off || status.Durability == "" {
		t.Errorf("status %+v", status)
	}
	if d := status.Clock.Sub(now()).Abs(); d > clockTolerance {
		t.Errorf("clock is %v off", d)
	}
	if err := s.Tidy(ctx, now()); err != nil {
		t.Error(err)
	}
}
