package httpapi

import (
	"encoding/hex"
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
	"spendgate/hotpath/wire"
)

// decideDraft answers POST /v1/policies/{policy_id}/draft/approve (S80) and reject (S93).
func (a *API) decideDraft(x *exchange, rejects bool) error {
	d := audit.DraftDecisionRequest{Rejects: rejects, By: a.actor(x)}
	if err := x.decode(func(r *reader) { decodeDraftDecision(r, &d) }); err != nil {
		return err
	}
	var err error
	if d.PolicyID, err = x.policyID(); err != nil {
		return err
	}
	return replyOnce(x, 200, reviewOf)(a.Authorizer.DecideDraft(x.context(), x.access, d))
}

// hashOf reads the hash of an action or a draft. A malformed text becomes the zero hash, which none has.
func hashOf(text string) (h spend.Hash) {
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == len(h) {
		h = spend.Hash(raw)
	}
	return h
}

// decodeDraftDecision reads the body of a decision about a draft.
func decodeDraftDecision(r *reader, d *audit.DraftDecisionRequest) {
	given := false
	for r.next() {
		if r.name == "drop_budgets" && !d.Rejects {
			d.Drop = r.dropBudgets()
			continue
		}
		switch r.name {
		case "draft_hash":
			text := r.text()
			given = !spend.Blank(text)
			d.Hash = hashOf(text)
		case "note":
			d.Note = r.note()
		default:
			r.unknown()
		}
	}
	if !given {
		r.missing("draft_hash", 0)
	}
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
			DraftDecision: draftDecisionOf(a), Counts: slices.Contains(counted, a), Groups: given(a.Groups), DropBudgets: given(a.Drop),
		}
	}
	shown.Status = "waiting"
	if r.Rejection != nil {
		shown.Status, shown.Rejection = "rejected", new(draftDecisionOf(r.Rejection))
	} else if lacks.People() == 0 {
		shown.Status = "approved"
	}
	return shown
}

func draftDecisionOf(d *audit.DraftDecision) wire.DraftDecision {
	return wire.DraftDecision{
		Principal: d.By.Principal, Name: d.Name, Email: d.Email, KeyID: d.By.KeyID, Note: d.Note, At: wire.Timestamp{Time: d.At},
		PolicyVersion: d.Version,
	}
}

// waitingDraftOf returns a draft as an item of what waits for a decision (S93).
func waitingDraftOf(r *audit.Review) wire.WaitingDraft {
	return wire.WaitingDraft{
		Kind: wire.KindDraft, PolicyID: r.Draft.PolicyID, DraftHash: hex.EncodeToString(r.Draft.Hash[:]), Author: authorOf(r.Draft.Author),
		Note: r.Draft.Note, MadeAt: wire.Timestamp{Time: r.Draft.MadeAt}, Missing: r.Missing(nil).People(),
	}
}
