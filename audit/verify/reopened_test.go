package verify_test

import (
	"fmt"
	"testing"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// TestReopenedApprovals forges what says that decisions count: the approvals of a key count no more after the key was deactivated,
// and an approval is used only while those who approved it may decide (S92).
func TestReopenedApprovals(t *testing.T) {
	t.Parallel()
	tr := newApprovalTrail(t)
	bob, cleo := tr.member("bob"), tr.member("cleo")
	update := func(keyID string, change audit.KeyChange) {
		t.Helper()
		id, err := spend.ParseID(keyID, spend.PrefixKey)
		if err == nil {
			_, err = tr.store.UpdateKey(t.Context(), audit.Actor{Principal: "ops"}, id, change)
		}
		must.Do(t, err)
		tr.fence.Stops = tr.lastStop()
	}
	approve := func(c *spend.Check, keyID, principal string) int {
		t.Helper()
		outcome, err := tr.store.Decide(t.Context(), audit.ApprovalDecisionRequest{
			ApprovalID: c.ID, Approves: true, ActionHash: c.Approval.ActionHash, By: audit.Actor{KeyID: keyID, Principal: principal},
		})
		if err != nil || outcome != audit.DecisionRecorded {
			t.Fatal(outcome, err)
		}
		return tr.count("changes")
	}
	used, pending := tr.asking(2), tr.asking(1)
	tr.append(used)
	tr.append(pending)
	approve(used, bob, "bob")
	approve(used, cleo, "cleo")
	approve(pending, bob, "bob")
	update(bob, audit.KeyChange{Active: new(false)})
	opened := tr.count("changes") // of both; their order is not known
	update(bob, audit.KeyChange{Active: new(true)})
	again := approve(used, bob, "bob")
	update(bob, audit.KeyChange{Grants: spend.GrantsChange{Grants: spend.Grants{Groups: []string{"g"}}, Named: []string{"groups"}}})
	patched := tr.count("changes")
	update(bob, audit.KeyChange{Grants: spend.GrantsChange{Grants: spend.Grants{Groups: []string{"h"}}, Named: []string{"groups"}}})
	last := tr.count("changes")
	tr.append(tr.using(used))
	if _, err := tr.store.EventsHead(t.Context()); err != nil { // numbers what happened
		t.Fatal(err)
	}
	grouped := func(tamper string, want ...string) {
		t.Helper()
		tr.bothFind("approvals approval_uses approval_deadlines changes checks batches violations keys policies events", tamper, want...)
	}
	details := func(where, set string) string {
		return tr.forged(fmt.Sprintf("UPDATE changes SET details = (details::jsonb %s)::text WHERE %s", set, where))
	}
	of := func(c *spend.Check) string {
		return fmt.Sprintf("seq > %d AND seq <= %d AND subject = '%s'", opened-2, opened, c.ID.Text(spend.PrefixApproval))
	}
	unused := "inserted use of " + approvalOf(used)
	grouped("SELECT")
	grouped(details(of(used), `|| '{"keys":[]}'`), changed("inserted", again), unused)
	grouped("UPDATE approval_deadlines SET at = at - interval '1 second' WHERE approval_id = '"+pending.ID.Text("")+"'",
		"altered deadline of "+approvalOf(pending))
	for change, of := range map[string]int{ // what was lost does not count again
		`|| '{"active":false}'`: patched, `|| '{"role":"auditor"}'`: last, `|| '{"policy_ids":["another"]}'`: patched,
		`|| '{"agent_ids":["another"]}'`: last, `|| '{"expires_at":"2020-01-01T00:00:00Z"}'`: patched, `|| '{"owner":"ANN"}'`: last,
		`|| '{"principal":"shop"}'`: last,
	} {
		grouped(details(fmt.Sprint("seq = ", of), change), unused)
	}
}
