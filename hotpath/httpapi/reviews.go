package httpapi

import (
	"encoding/hex"
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

// postApproveDraft answers POST /v1/policies/{policy_id}/draft/approve (S80).
func (a *API) postApproveDraft(x *exchange) error {
	d := audit.DraftApprovalRequest{By: a.actor(x)}
	if err := x.decode(func(r *reader) error { return decodeDraftApproval(r, &d) }); err != nil {
		return err
	}
	var err error
	if d.PolicyID, err = x.draftPolicy(); err != nil {
		return err
	}
	r, replayed, err := a.authorizer.ApproveDraft(x.context(), x.access, d)
	if err != nil {
		return err
	}
	x.setReplayed(replayed)
	return respond(x, 200, draftForm, reviewOf(r))
}

// draftHash reads a draft's hash. A malformed text becomes the zero hash, which no draft has.
func draftHash(text string) (h spend.Hash) {
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == len(h) {
		h = spend.Hash(raw)
	}
	return h
}

// decodeDraftApproval reads the body of an approval.
func decodeDraftApproval(r *reader, d *audit.DraftApprovalRequest) error {
	given := false
	for r.next() {
		switch r.name {
		case "draft_hash":
			text := r.text()
			given = !spend.Blank(text)
			d.Hash = draftHash(text)
		case "note":
			d.Note = r.optionalText()
			r.checkLength("note", d.Note, spend.MaxNote)
		case "drop_budgets":
			d.Drop = r.dropBudgets()
		default:
			r.unknown()
		}
	}
	if !given {
		r.missing("draft_hash", 0)
	}
	return r.faults.Err()
}

// reviewOf returns a draft and, if the version in force requires approvals, who has approved it and
// what is missing.
func reviewOf(r *audit.Review) wire.Draft {
	shown := draftOf(r.Draft)
	if r.Asked == nil {
		return shown
	}
	lacks, counted := r.Missing(nil), r.Counted(nil)
	shown.PolicyVersion, shown.Required, shown.Missing = r.Version, r.Asked.Required, new(lacks.People())
	if len(r.Asked.From) > 0 {
		shown.From = groupsOf(r.Asked.From, lacks.Of)
	}
	shown.Approvals = make([]wire.DraftApproval, len(r.Approvals))
	for i := range r.Approvals {
		a := &r.Approvals[i]
		shown.Approvals[i] = wire.DraftApproval{
			Principal: a.By.Principal, Name: a.Name, Email: a.Email, KeyID: a.By.KeyID, Note: a.Note, At: wire.Timestamp{Time: a.At},
			PolicyVersion: a.Version, Counts: slices.Contains(counted, a), Groups: given(a.Groups), DropBudgets: given(a.Drop),
		}
	}
	return shown
}
