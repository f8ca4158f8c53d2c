package verify

import (
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// reviews is how versions of policies came about whose predecessors ask people before a change
// (S80), according to the changes.
type reviews struct {
	approved map[int64][]approvedDraft // by the generation of the draft
	rejected map[int64]bool            // by the generation of the draft
	current  map[string]int64          // by policy_id, the current draft; 0 if it has ended
	promoted map[string]int64          // by policy_id, the draft that the previous change promoted
	made     map[PolicyVersion]madeOf
	forced   map[PolicyVersion]bool
	wrote    map[int64]audit.Party // who put a draft
	asks     map[string]askedBy
}

// askedBy is what the latest version so far asks of people.
type askedBy struct {
	version int
	asked   *spend.ApprovalRequest
}

// madeOf is how a version was made.
type madeOf struct {
	draft int64 // from which it was made; 0 without a draft
	seq   int64 // of the change
}

type approvedDraft struct {
	version int
	by      audit.Party // as of then
}

func newReviews() reviews {
	return reviews{
		make(map[int64][]approvedDraft), make(map[int64]bool), make(map[string]int64), make(map[string]int64), make(map[PolicyVersion]madeOf),
		make(map[PolicyVersion]bool), make(map[int64]audit.Party), make(map[string]askedBy),
	}
}

// reviewed processes a change of a policy or its drafts.
func (w *changeWalk) reviewed(c Change) {
	version, by := PolicyVersion{c.Subject, c.Version}, w.approvals.author(c)
	r := &w.reviews
	promoted := r.promoted[c.Subject]
	delete(r.promoted, c.Subject)
	switch c.Kind {
	case audit.DraftPut:
		r.current[c.Subject], r.wrote[c.Seq] = c.Seq, by
	case audit.DraftDeleted:
		delete(r.current, c.Subject)
	case audit.DraftPromoted:
		r.promoted[c.Subject] = r.current[c.Subject]
		delete(r.current, c.Subject)
	case audit.PolicyCreated:
		r.made[version] = madeOf{promoted, c.Seq}
		w.approvals.authors[version] = []audit.Party{by, r.wrote[promoted]}
	case audit.PolicyForced:
		r.forced[version] = true
		if w.policies[version].row != c.Hash {
			w.tally.find(Altered, "force on "+policyName(version), "%s is of no such version as it was created", changeName(c.Seq))
		}
	case audit.DraftApproved, audit.DraftRejected:
		draft := member[int64](saidIn(c.Details), "draft")
		if d, ok := w.drafts[draft]; !ok || draft != r.current[c.Subject] || d.row != c.Hash {
			w.tally.find(Altered, "decision about a "+draftName(c.Subject, c.Seq), "it is of no draft that the policy had then")
		}
		if c.Kind == audit.DraftRejected {
			r.rejected[draft] = true
			break
		}
		r.approved[draft] = append(r.approved[draft], approvedDraft{c.Version, by})
	default:
	}
}

// consented compares how a version came about with whom the previous version asks. Possible authors
// do not count, and no approval of a rejected draft does. Whether other approvers may be the same person is not checked: keys are counted.
func (w *changeWalk) consented(p PolicyVersion, changes string) error {
	before := w.reviews.asks[p.PolicyID]
	asked, err := spend.ParseChanges(changes)
	if err != nil {
		return err
	}
	w.reviews.asks[p.PolicyID] = askedBy{p.Version, asked}
	if before.version != p.Version-1 || before.asked == nil || w.reviews.forced[p] {
		return nil
	}
	var people []string
	made := w.reviews.made[p]
	author := w.reviews.wrote[made.draft]
	authorNow, _ := w.approvals.standing(author.KeyID, made.seq)
	for _, a := range w.reviews.approved[made.draft] {
		own := a.by.Shares(author) || a.by.Shares(authorNow.Party)
		if a.version == before.version && a.by.KeyID != "" && !own && !slices.Contains(people, a.by.KeyID) {
			people = append(people, a.by.KeyID)
		}
	}
	if r := w.reviews.rejected[made.draft]; r || made.draft == 0 || len(people) < before.asked.Required {
		w.tally.find(Altered, policyName(p), "the version before asks %d people about it, of whom %d approved, and nobody forced it",
			before.asked.Required, len(people))
	}
	return nil
}
