package verify

import (
	"slices"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// wrote notes who wrote a version of a policy.
func (w *changeWalk) wrote(c Change) error {
	fields, err := chain.ParseFields(nil, c.Row)
	if err != nil {
		return err
	}
	const keyID, principal = 5, 6 // among chain.ChangeColumns
	author := standing{seq: c.Seq, Party: audit.Party{KeyID: string(fields[keyID]), Principal: string(fields[principal])}}
	if then, known := w.approvals.standing(author.KeyID, c.Seq); known {
		author.Owner = then.Owner
	}
	w.approvals.authors[PolicyVersion{c.Subject, c.Version}] = author
	return nil
}

// approve counts an approval. It returns whether that says of itself what follows from
// those before and their groups; where these cannot be read, it is believed.
func (r *ruled) approve(a *Approval, said asking, c ruling) bool {
	completes := int64(len(r.by))+1 >= a.Required
	switch {
	case a.ByGroups && said.asks != nil:
		so := audit.Approval{Check: &spend.Check{Approval: said.asks}, Decisions: r.decided}
		completes = so.Completes(audit.DecisionRequest{Approves: true, Groups: c.groups})
	case a.ByGroups:
		completes = c.completes
	}
	r.by = append(r.by, c.by)
	r.decided = append(r.decided, audit.Decision{Approves: true, Groups: c.groups})
	if completes {
		r.approvedAt = c.at
	}
	return c.completes == (a.ByGroups && completes)
}

// excludes reports whether who decided wrote the version, and is excluded.
func (s *approvals) excludes(said asking, c ruling) bool {
	author, known := s.authors[said.version]
	if said.asks == nil || !said.asks.ExcludeAuthor || !known || author.KeyID == "" {
		return false
	}
	now, _ := s.standing(author.KeyID, c.seq)
	return c.by.Shares(author.Party) || c.by.Shares(now.Party)
}

// others reports whether who decided is in none of the groups that are asked, or not in
// those that the decision names.
func (s *approvals) others(said asking, c ruling) bool {
	if at, known := s.standing(c.by.KeyID, c.seq); known && !slices.Equal(at.groups, c.groups) {
		return true
	}
	return said.asks != nil && !audit.MayDecide(said.asks, c.groups)
}
