package httpapi

import (
	"testing"

	"spendgate/audit"
	"spendgate/hotpath"
)

// TestRefusalsSayWhatToDo: whoever is refused reads why, and who can do what about it.
func TestRefusalsSayWhatToDo(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{hotpath.NotRecordedError{Why: audit.DecisionOwn}, "the API key has the principal or owner of the key that asked: " +
			"somebody else must decide; nothing is recorded"},
		{hotpath.NotRecordedError{Draft: true, Why: audit.DecisionAuthor}, "the author of a draft cannot approve or reject it, " +
			"nor can a key of the author's principal or owner; nothing is recorded"},
		{hotpath.NotRecordedError{Draft: true, Why: audit.DecisionNotAsked}, "the current version of the policy requires " +
			"no approval for changes (it has no field changes): promote the draft; nothing is recorded"},
		{hotpath.ErrCheckTakenOver, "another request took the payment over: do not carry it out; only that request reports what became of it"},
		{hotpath.ErrFreezeOwn, "the freeze stops the principal of this API key, or one of the same owner: somebody else must release it"},
		{&hotpath.ChangeNeedsApprovalError{PolicyID: "p"}, "changes of this policy need approval, and it has no draft: " +
			"PUT /v1/policies/p/draft, have it approved with POST /v1/policies/p/draft/approve, " +
			"and promote it with POST /v1/policies/p/draft/promote"},
		{&hotpath.FrozenError{}, "stopped by a freeze"},
		{&audit.ApprovalError{Status: audit.ApprovalPending}, "people have not decided about the approval yet; " +
			"GET /v1/approvals/{approval_id} with Prefer: wait=30 waits for them"},
	} {
		if got := refusalOf(test.err).message; got != test.want {
			t.Errorf("%s\nshould be\n%s", got, test.want)
		}
	}
}
