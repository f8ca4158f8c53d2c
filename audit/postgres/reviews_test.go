package postgres

import (
	"errors"
	"testing"
	"time"

	"spendgate/audit"
	"spendgate/audit/sqlstore"
	"spendgate/bench/must"
)

// TestKeysAreCounted: whatever a node says that its approvals come to, a draft that fewer
// keys approved than are asked, or its author's, is no next version; of an admin it is forced.
func TestKeysAreCounted(t *testing.T) {
	t.Parallel()
	s := open(t, migrated(t), true)
	by := func(name string) audit.Actor { return audit.Actor{KeyID: "key_" + name, Principal: name} }
	govern := func(id string) *audit.Draft {
		p := &audit.Policy{PolicyID: id, Name: "n", Rules: "[]", Changes: `{"from":[{"group":"a","required":1},{"group":"b","required":1}]}`}
		must.Do(t, s.CreatePolicy(t.Context(), audit.Actor{}, p, audit.NewBudgets{}, time.Now()))
		d := &audit.Draft{PolicyID: id, Name: "next", Rules: "[]"}
		must.Do(t, s.PutDraft(t.Context(), by("ann"), d, time.Now()))
		return d
	}
	// approve records approvals that the node would not have taken, and a rejection by rita.
	approve := func(d *audit.Draft, names ...string) {
		for n, name := range names {
			a := audit.DraftDecisionRequest{By: by(name), Rejects: name == "rita"}
			seen := seenReview(&sqlstore.Review{Review: &audit.Review{Version: 1}, Decisions: n}, 0)
			var result audit.ApprovalDecisionResult
			err := s.control(t.Context(), "cannot approve", []any{&result},
				byActor("SELECT decide_draft($1, $2, $3, $4, $5, $6, ", a.By, string(a.Kind()), d.PolicyID, d.Generation, 1, seen,
					a.Details(d.Generation)))
			if err != nil || result != audit.DecisionRecorded {
				t.Fatal(result, err)
			}
		}
	}
	promote := func(d *audit.Draft, who audit.Actor, approvals int) (forced bool, err error) {
		var version int
		seen := seenReview(&sqlstore.Review{Review: &audit.Review{Version: 1}, Decisions: approvals}, 0)
		err = s.control(t.Context(), "cannot promote", []any{&version, &forced},
			byActor("SELECT new_version, forced FROM promote_draft($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ", who,
				d.PolicyID, d.Generation, 1, seen, time.Now().UnixMilli(), s.maxPolicyBytes, nil, nil, "", nil))
		return forced, err
	}
	for name, approvers := range map[string][]string{
		"nobody": nil, "one": {"bob"}, "one twice": {"bob", "bob"}, "the author and one": {"ann", "bob"},
		"two, and rejected": {"bob", "cleo", "rita"},
	} {
		d := govern(name)
		approve(d, approvers...)
		if _, err := promote(d, by("ann"), len(approvers)); !isAsked(err) {
			t.Errorf("approved by %s: %v", name, err)
		}
		if forced, err := promote(d, audit.Actor{Credential: "0123abcd"}, len(approvers)); err != nil || !forced {
			t.Errorf("approved by %s, of the admin: forced %t, %v", name, forced, err)
		}
	}
	d := govern("two")
	approve(d, "bob", "cleo")
	if forced, err := promote(d, by("ann"), 2); err != nil || forced {
		t.Errorf("approved by two: %t, %v", forced, err)
	}
}

func isAsked(err error) bool {
	_, asks := errors.AsType[*audit.ChangeNeedsApprovalError](err)
	return asks
}
