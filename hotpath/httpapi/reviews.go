package httpapi

import (
	"encoding/hex"
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
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
	x.out = appendReview(x.out, r)
	return x.answer(200)
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

// appendReview writes a draft and, if the version in force requires approvals, who has approved it and
// what is missing.
func appendReview(dst []byte, r *audit.Review) []byte {
	o := draftObject(dst, r.Draft)
	if r.Asked == nil {
		return o.end()
	}
	lacks, counted := r.Missing(nil), r.Counted(nil)
	o.integer("policy_version", int64(r.Version))
	o.integer("required", int64(r.Asked.Required))
	o.integer("missing", int64(lacks.People()))
	if len(r.Asked.From) > 0 {
		o.askedOf(r.Asked.From, lacks.Of)
	}
	o.name("approvals")
	o = appendArray(o, len(r.Approvals), func(dst []byte, i int) []byte {
		return appendDraftApproval(dst, &r.Approvals[i], slices.Contains(counted, &r.Approvals[i]))
	})
	return o.end()
}

func appendDraftApproval(dst []byte, a *audit.DraftApproval, counts bool) []byte {
	o := newObject(dst)
	o.text("principal", a.By.Principal)
	o.given("name", a.Name)
	o.given("email", a.Email)
	o.text("key_id", a.By.KeyID)
	o.optional("note", a.Note)
	o.time("at", a.At)
	o.integer("policy_version", int64(a.Version))
	o.boolean("counts", counts)
	if len(a.Groups) > 0 {
		o.texts("groups", a.Groups)
	}
	if len(a.Drop) > 0 {
		o.texts("drop_budgets", a.Drop)
	}
	return o.end()
}
