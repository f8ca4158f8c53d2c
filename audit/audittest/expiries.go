package audittest

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// approvalExpires: no decision or use is accepted after the expiry, and the expiry of an undecided
// or unused approval is recorded once (F82).
func approvalExpires(t *testing.T, s Subject) {
	const soon = 6 * time.Second // all until it is looked at is earlier
	f := fence(t, s)
	late, half, unused := asking(f, 1), asking(f, 2), asking(f, 1)
	used, denied, open, approved := asking(f, 1), asking(f, 1), asking(f, 1), asking(f, 1)
	for _, c := range []*spend.Check{late, half, denied} {
		c.Approval.Expires = soon
	}
	for _, c := range []*spend.Check{unused, used} {
		c.Approval.UseWithin = soon
	}
	approved.Approval.Expires = soon // no longer, once it is approved
	mustCommit(t, s, late, half, unused, used, denied, open, approved)
	for _, c := range []*spend.Check{half, unused, used, approved} {
		mustDecide(t, s, decision(c, "bob", true), audit.DecisionRecorded)
	}
	mustDecide(t, s, decision(denied, "bob", false), audit.DecisionRecorded)
	mustCommit(t, s, using(f, used))
	mustExpire(t, s)
	if n := len(expiries(t, s)); n > 0 {
		t.Errorf("%d expired before their time", n)
	}
	mustHold := func(c *spend.Check, want audit.PassState) {
		t.Helper()
		states, err := s.PassStates(t.Context(), []spend.ID{c.ID})
		live, liveErr := s.LivePasses(t.Context(), []spend.Hash{c.Fingerprint}, spend.ID{}, now().UnixMilli(), spend.Block)
		if err = errors.Join(err, liveErr); err != nil || states[c.ID] != want || (len(live) == 1) != (want != audit.PassReleased) {
			t.Errorf("state %v, live %v, %v; want %v", states, live, err, want)
		}
	}
	for _, c := range []*spend.Check{late, unused, denied, open} {
		mustHold(c, audit.PassAsking)
	}
	time.Sleep(soon + 100*time.Millisecond)
	for _, c := range []*spend.Check{late, half, unused} {
		mustHold(c, audit.PassExpiring) // until it is recorded (F91)
	}
	for range 2 {
		for _, c := range []*spend.Check{late, half, unused} {
			mustBe(t, s, c, audit.ApprovalExpired)
			mustDecide(t, s, decision(c, "cleo", true), audit.ApprovalDecisionResult(audit.ApprovalExpired))
			mustDecide(t, s, decision(c, "cleo", false), audit.ApprovalDecisionResult(audit.ApprovalExpired))
			mustRefuse(t, s, using(f, c), audit.ApprovalError{Status: audit.ApprovalExpired})
		}
		var wg sync.WaitGroup
		for range 4 { // nodes
			wg.Go(func() { mustExpire(t, s) })
		}
		wg.Wait()
	}
	for _, c := range []*spend.Check{late, half, unused} {
		mustHold(c, audit.PassReleased)
	}
	for _, c := range []*spend.Check{used, denied, open, approved} {
		mustHold(c, audit.PassAsking)
	}
	mustBe(t, s, used, audit.ApprovalUsed)
	mustBe(t, s, denied, audit.ApprovalDenied)
	mustBe(t, s, open, audit.ApprovalPending)
	mustBe(t, s, approved, audit.ApprovalApproved)
	mustPendLongest(t, s, open) // the earlier ones are expired, denied, approved or used
	mustDecide(t, s, decision(open, "bob", true), audit.DecisionRecorded)
	if since, err := s.ExpireApprovals(t.Context()); err != nil || !since.IsZero() {
		t.Errorf("pending since %v, %v; want none", since, err)
	}
	mustRecordExpiries(t, s, map[spend.ID]string{late.ID: "pending", half.ID: "pending", unused.ID: "approved"})
	must(t, s.Exec(t, s.DelayExpiries))
	mustBe(t, s, late, audit.ApprovalExpired)
	mustDecide(t, s, decision(late, "cleo", true), audit.ApprovalDecisionResult(audit.ApprovalExpired))
}

// mustRecordExpiries compares the recorded expiries with those expected for these checks, and with
// the previous states of their approvals.
func mustRecordExpiries(t *testing.T, s Subject, was map[spend.ID]string) {
	t.Helper()
	for _, c := range expiries(t, s) {
		id, err := spend.ParseID(c.Subject, spend.PrefixApproval)
		var details struct {
			ActionHash string `json:"action_hash"`
			Was        string `json:"was"`
		}
		err = errors.Join(err, json.Unmarshal([]byte(c.Details), &details))
		if err != nil || was[id] != details.Was || details.ActionHash != hex.EncodeToString(c.Hash[:]) || c.By != audit.Expirer() ||
			c.By.Kind() != "system" {
			t.Errorf("recorded %+v, %v", c, err)
		}
		delete(was, id)
	}
	if len(was) > 0 {
		t.Errorf("no expiry is recorded of %v", was)
	}
}

func mustExpire(t *testing.T, s Subject) {
	t.Helper()
	if _, err := s.ExpireApprovals(t.Context()); err != nil {
		t.Error(err)
	}
}

// expiries returns the recorded expiries.
func expiries(t *testing.T, s Subject) []audit.Change {
	t.Helper()
	changes, err := s.Changes(t.Context(), audit.ChangeQuery{Limit: 10_000})
	if err != nil {
		t.Error(err)
	}
	return slices.DeleteFunc(changes, func(c audit.Change) bool { return c.Kind != audit.ApprovalExpiry })
}

// approvalExpiryRace: an expired approval is neither used nor decided concurrently.
func approvalExpiryRace(t *testing.T, s Subject) {
	f := fence(t, s)
	var all []*spend.Check
	for range 120 { // more than are recorded at once
		c := asking(f, 1)
		c.Approval.Expires, c.Approval.UseWithin = 300*time.Millisecond, 300*time.Millisecond
		all = append(all, c)
	}
	mustCommit(t, s, all...)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					mustExpire(t, s)
				}
			}
		})
	}
	var mu sync.Mutex
	used := make(map[string]bool)
	var people sync.WaitGroup
	for worker := range 4 {
		w := NewWriter(t, s)
		people.Go(func() {
			for i := worker; i < len(all); i += 4 {
				c := all[i]
				result, err := s.Decide(t.Context(), decision(c, "bob", true))
				if err != nil || result != audit.DecisionRecorded && result != audit.ApprovalDecisionResult(audit.ApprovalExpired) {
					t.Errorf("%s, %v", result, err)
				}
				if i%3 != 0 {
					continue
				}
				err = w.Append(using(fence(t, s), c)).Wait(time.Now().Add(time.Minute))
				if refused, is := errors.AsType[*audit.ApprovalError](err); err != nil && (!is || refused.Status != audit.ApprovalExpired) {
					t.Error(err)
				} else if err == nil {
					mu.Lock()
					used[c.ID.Text(spend.PrefixApproval)] = true
					mu.Unlock()
				}
			}
		})
	}
	people.Wait()
	time.Sleep(350 * time.Millisecond)
	close(stop)
	wg.Wait()
	mustExpire(t, s)
	count := make(map[string]int)
	for _, c := range expiries(t, s) {
		if count[c.Subject]++; count[c.Subject] > 1 || used[c.Subject] {
			t.Errorf("%s expired %d times; used: %t", c.Subject, count[c.Subject], used[c.Subject])
		}
	}
	if len(count)+len(used) != len(all) {
		t.Errorf("%d expired and %d were used, of %d", len(count), len(used), len(all))
	}
}
