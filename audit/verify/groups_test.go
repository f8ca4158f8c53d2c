package verify_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/bench/must"
)

// member makes a key of somebody in groups.
func (tr *approvalTrail) member(principal string, groups ...string) string {
	tr.t.Helper()
	id := spend.NewID(time.Now())
	k := &audit.Key{
		ID: id, Hash: spend.Hash(append(id[:], id[:]...)), Name: principal, RateLimitRPM: 1, Active: true, CreatedAt: time.Now().UTC().
			Truncate(time.Millisecond),
		Grants: spend.Grants{Role: spend.Approver, Principal: principal, Groups: groups},
	}
	must.Do(tr.t, tr.store.CreateKey(tr.t.Context(), audit.Actor{Principal: "ops"}, k))
	return id.Text(spend.PrefixKey)
}

// drafted is a check that asks two people, excluding the author of its version, which one key
// drafted and another promoted.
func (tr *approvalTrail) drafted(author, authorName, promoter, promoterName string) *spend.Check {
	tr.t.Helper()
	p := &audit.Policy{PolicyID: "drafted", Name: "d", Rules: "[]"}
	d := &audit.Draft{PolicyID: "drafted", Name: "d", Rules: "[]"}
	err := tr.store.CreatePolicy(tr.t.Context(), audit.Actor{Principal: "ops"}, p, audit.NewBudgets{}, time.Now())
	if err == nil {
		err = tr.store.PutDraft(tr.t.Context(), audit.Actor{KeyID: author, Principal: authorName}, d, time.Now())
	}
	if err == nil {
		_, err = tr.store.PromoteDraft(tr.t.Context(), audit.Actor{KeyID: promoter, Principal: promoterName},
			audit.Promotion{PolicyID: "drafted", Generation: d.Generation, Version: 1}, time.Now())
	}
	must.Do(tr.t, err)
	c := tr.asking(2)
	c.Action.PolicyID, c.Decision.PolicyVersion = "drafted", 2
	c.Approval.ExcludeAuthor, c.Approval.ActionHash = true, spend.ActionHash(c)
	tr.append(c)
	return c
}

// TestTamperedGroups alters the decisions of people in groups. The groups that they had at the time
// decide whose decision completes the approval (S79).
func TestTamperedGroups(t *testing.T) {
	t.Parallel()
	tr := newApprovalTrail(t)
	ben, sue, fay, ann := tr.member("ben", "support", "finance"), tr.member("sue", "Support"), tr.member("fay", "finance", "legal"),
		tr.member("anita", "support")
	author := audit.Actor{KeyID: ann, Principal: "anita"}
	p := &audit.Policy{PolicyID: "grouped", Name: "g", Rules: "[]"}
	must.Do(t, tr.store.CreatePolicy(t.Context(), author, p, audit.NewBudgets{}, time.Now()))
	written := tr.count("changes")
	asking := func() *spend.Check {
		c := tr.asking(2)
		c.Action.PolicyID, c.Decision.PolicyVersion = "grouped", 1
		c.Approval.From = []spend.GroupRequired{{Group: "SUPPORT", Required: 1}, {Group: "finance", Required: 1}}
		c.Approval.ExcludeAuthor, c.Approval.ActionHash = true, spend.ActionHash(c)
		tr.append(c)
		return c
	}
	decide := func(c *spend.Check, keyID, principal string, approves bool, want audit.ApprovalDecisionResult) int {
		t.Helper()
		outcome, err := tr.store.Decide(t.Context(), audit.ApprovalDecisionRequest{
			ApprovalID: c.ID, Approves: approves, ActionHash: c.Approval.ActionHash, By: audit.Actor{KeyID: keyID, Principal: principal},
		})
		if err != nil || outcome != want {
			t.Fatal(outcome, err)
		}
		return tr.count("changes")
	}
	used, pending := asking(), asking()
	decide(used, ann, "anita", true, audit.DecisionAuthor)
	first := decide(used, ben, "ben", true, audit.DecisionRecorded)
	second := decide(used, sue, "sue", true, audit.DecisionRecorded)
	approved := must.Get(tr.store.EventsHead(t.Context()))(t)
	event := func(kind string, n int) string {
		return fmt.Sprintf("%s event of change %d of the configuration", kind, n)
	}
	open := decide(pending, fay, "fay", true, audit.DecisionRecorded)
	use := tr.using(used)
	tr.append(use)
	must.Get(tr.store.EventsHead(t.Context()))(t)
	details := func(n int, set string) string {
		return fmt.Sprintf("UPDATE changes SET details = (details::jsonb %s)::text WHERE seq = %d; ", set, n)
	}
	grouped := func(tamper string, want ...string) {
		t.Helper()
		tr.bothFind("approvals approval_uses approval_deadlines changes checks batches violations keys policies events", tamper, want...)
	}
	unused := "inserted use of " + approvalOf(used)
	drafted := tr.drafted(ann, "anita", ben, "ben")
	byDraft := decide(drafted, sue, "sue", true, audit.DecisionRecorded)
	grouped("SELECT")
	for tamper, want := range map[string][]string{
		tr.forged(details(second, `|| '{"groups":["support"]}'`)): {changed("inserted", second), unused},
		tr.forged(details(second, `- 'groups'`)):                  {changed("inserted", second), unused},
		tr.forged(details(second, `- 'completes'`)):               {changed("inserted", second), fmt.Sprint("inserted event ", approved)},
		tr.forged(details(open, `|| '{"completes":true}'`)):       {changed("inserted", open), event("removed", open)},
		tr.forged(details(first, `|| '{"completes":true}'`) + details(second, `- 'completes'`)): {
			changed("inserted", first), changed("inserted", second), fmt.Sprint("inserted event ", approved), event("removed", first),
		},
		tr.forged(fmt.Sprintf("UPDATE changes SET key_id = '%s', principal = 'anita' WHERE seq = %d; ", ann, second) +
			details(second, `|| '{"groups":["support"]}'`)): {changed("inserted", second), unused},
		tr.forged(details(written, `|| '{"owner":"SUE"}'`)): {
			changed("inserted", second), unused,
		},
		tr.forged(fmt.Sprintf("UPDATE changes SET key_id = 'k', principal = 'ANITA' WHERE seq = %d", byDraft)): {changed("inserted", byDraft)},
		tr.forged(fmt.Sprintf("UPDATE changes SET key_id = 'k', principal = 'ben' WHERE seq = %d", byDraft)):   {changed("inserted", byDraft)},
	} {
		grouped(tamper, want...)
	}
	// The groups that keys have later change nothing.
	change := audit.KeyChange{Grants: spend.GrantsChange{Named: []string{"groups"}}}
	for _, id := range []string{ben, sue, fay} {
		key := must.Get(spend.ParseID(id, spend.PrefixKey))(t)
		must.Get(tr.store.UpdateKey(t.Context(), author, key, change))(t)
	}
	grouped("SELECT")
	var kept struct{ Groups []string }
	changes, err := tr.store.Changes(t.Context(), audit.ChangeQuery{After: int64(second) - 1, Limit: 1})
	if err != nil || json.Unmarshal([]byte(changes[0].Details), &kept) != nil || len(kept.Groups) != 1 || kept.Groups[0] != "Support" {
		t.Errorf("recorded %+v, %v", changes, err)
	}
}
