package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"spendgate/audit/spend"
)

const (
	// slack is the time that a check may take between its claim and its record: the times of claims
	// are compared, whereas the guard decides when it finds a claim.
	slack = 5 * time.Second
	// longest is a check's longest wait: for the dependencies, and for another
	// check's claim.
	longest = 8 * time.Second
)

// judge checks the history against the properties that the model checks.
func (f *simulation) judge(t *testing.T) {
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("seed %d: "+format, append([]any{f.seed}, args...)...)
	}
	f.record = f.read(t)
	rows, byID := f.record.checks, f.record.byID
	keys := make(map[string]spend.ID)
	for _, c := range rows {
		if key := c.Action.IdempotencyKey; key != "" {
			if other, twice := keys[key]; twice {
				fail("G2: checks %s and %s are recorded under key %q", other.Text(""), c.ID.Text(""), key)
			}
			keys[key] = c.ID
		}
	}
	released := f.releasedBefore()
	for i, c := range rows {
		if c.Decision.Reason == spend.ReasonDuplicate {
			if !namesHolder(c, rows) {
				fail("G3: %s is a duplicate of nothing that is recorded: %s", c.ID.Text("chk_"), c.Decision.Message)
			}
			continue
		}
		for _, other := range rows[:i] { // in the order of their commits: claims are stamped too late, not too early
			if secondPass(other, c) && !released(other, c) {
				fail("G3: %s passed at %s, inside its window after %s of %s", c.ID.Text("chk_"), c.Timestamp(), other.ID.Text("chk_"),
					other.Timestamp())
			}
		}
	}
	f.judgeAnswers(fail, byID, keys)
	f.judgePayments(fail)
	f.judgeBudgets(fail)
	f.judgeOutcomes(fail)
	f.judgeRedemptions(fail, byID)
	f.judgeFreezes(fail)
	f.judgeApprovals(fail)
}

// releasedBefore returns a function that reports whether one check, or the use of its approval, was
// released when the other was recorded, or had been released before, with another check taking its
// fingerprint meanwhile (S61).
func (f *simulation) releasedBefore() func(earlier, c *spend.Check) bool {
	place := make(map[spend.ID]int)           // of records
	passes := make(map[spend.Hash][]spend.ID) // in their order
	askedBy := make(map[spend.ID]spend.ID)    // of uses of approvals
	reports := make(map[spend.ID][]reportAt)
	for i, e := range f.record.events {
		if c := e.check; c != nil {
			place[c.ID], askedBy[c.ID] = i, c.Action.ApprovalID
			if c.Decision.Reason != spend.ReasonDuplicate && c.Decision.Reason != spend.ReasonFrozen {
				passes[c.Fingerprint] = append(passes[c.Fingerprint], c.ID)
			}
		}
		if e.outcome != nil {
			for _, id := range []spend.ID{e.outcome.CheckID, askedBy[e.outcome.CheckID]} { // the zero ID is no check's
				reports[id] = append(reports[id], reportAt{i, e.outcome.Frees()})
			}
		}
	}
	return func(earlier, c *spend.Check) bool {
		freed := -1 // since then
		for _, r := range reports[earlier.ID] {
			taken := func(id spend.ID) bool { return place[id] > freed && place[id] < r.place }
			switch {
			case r.place > place[c.ID]:
			case freed < 0 && r.frees:
				freed = r.place
			case freed >= 0 && !r.frees && !slices.ContainsFunc(passes[earlier.Fingerprint], taken):
				freed = -1
			}
		}
		return freed >= 0
	}
}

// reportAt is the position of a report among the records, and whether the check is free after it.
type reportAt struct {
	place int
	frees bool
}

// secondPass reports whether c passed although an earlier pass was in force and inside c's window.
// A check with an approval may follow an earlier one that was not allowed.
func secondPass(earlier, c *spend.Check) bool {
	if !c.Action.ApprovalID.IsZero() && earlier.Decision.Effect != spend.Allow {
		return false
	}
	if !earlier.Pass.Passed() || !c.Pass.Passed() || earlier.Fingerprint != c.Fingerprint {
		return false
	}
	window := time.Duration(policies()[c.Action.PolicyID]) * time.Minute
	between := time.Duration(c.Pass.ClaimedMS-earlier.Pass.ClaimedMS) * time.Millisecond
	life := time.Duration(earlier.Pass.UntilMS-earlier.Pass.ClaimedMS) * time.Millisecond
	return between < min(window, life)-slack
}

// namesHolder reports whether a duplicate names a recorded pass of its action; for a check that
// people approved, an allowed pass.
func namesHolder(c *spend.Check, rows []*spend.Check) bool {
	for _, other := range rows {
		if other.Fingerprint == c.Fingerprint && other.Pass.Passed() &&
			strings.Contains(c.Decision.Message, other.ID.Text(spend.PrefixCheck)) {
			return c.Action.ApprovalID.IsZero() || other.Decision.Effect == spend.Allow
		}
	}
	return false
}

func (f *simulation) judgeAnswers(fail func(string, ...any), byID map[spend.ID]*spend.Check, keys map[string]spend.ID) {
	passes := make(map[spend.ID]*sent)
	admitted := 0
	if f.unrecovered {
		fail("G7: checks fail, or are not let pass, after all faults have ended")
	}
	for _, s := range f.sent {
		if s.took > longest {
			fail("G7: check %d took %s", s.number, s.took)
		}
		if s.err != nil && !allowedError(s.err) {
			fail("check %d: %v", s.number, s.err)
		}
		if s.err != nil || s.lost {
			continue
		}
		admitted++
		c := s.answer.Check
		if byID[c.ID] == nil {
			fail("G1: check %d was answered %s, which is not recorded", s.number, c.ID.Text("chk_"))
		}
		if stored := byID[c.ID]; stored != nil && stored.Decision != c.Decision {
			fail("G1: check %d was answered %+v, recorded is %+v", s.number, c.Decision, stored.Decision)
		}
		if !s.answer.Replayed && c.Decision.PolicyVersion < s.need {
			fail("G4: check %d was judged by version %d, and %d was answered before it began", s.number, c.Decision.PolicyVersion, s.need)
		}
		if key := s.action.IdempotencyKey; key != "" {
			if keys[key] != c.ID {
				fail("G2: check %d of key %q was answered another check", s.number, key)
			}
			continue
		}
		if c.Decision.Reason != spend.ReasonDuplicate {
			if first := passes[c.ID]; first != nil {
				fail("G3: checks %d and %d were answered one pass", first.number, s.number)
			}
			passes[c.ID] = s
		}
	}
	if f.lossless && admitted > f.limit {
		fail("G6: %d checks were admitted of %d", admitted, f.limit)
	}
}
