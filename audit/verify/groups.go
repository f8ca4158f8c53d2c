package verify

import (
	"slices"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// author returns the author of a change of a policy or a draft, as of then. For a signed-in person
// the change itself names the owner, for a key its own changes do.
func (s *approvals) author(seq int64, fields [][]byte) audit.Party {
	const principal = 6 // among chain.Changes
	owner := member[string](saidIn(fields[changeDetails]), "owner")
	author := audit.Party{KeyID: string(fields[changeKeyID]), Principal: string(fields[principal]), Owner: owner}
	if then, known := s.standing(author.KeyID, seq); known && author.Owner == "" {
		author.Owner = then.Owner
	}
	return author
}

// approve counts an approval. It reports whether its claim to complete the request follows from the
// previous approvals and their groups; if these cannot be read, the claim is accepted.
func (r *ruled) approve(a *ApprovalRow, said asking, c ruling) bool {
	completes := int64(len(r.by))+1 >= a.Required
	switch {
	case a.ByGroups && said.asks != nil:
		so := audit.Approval{Check: &spend.Check{Approval: said.asks}, Decisions: r.decided}
		completes = so.Completes(audit.ApprovalDecisionRequest{Approves: true, Groups: c.groups})
	case a.ByGroups:
		completes = c.completes
	}
	r.by = append(r.by, c.by)
	r.decided = append(r.decided, audit.ApprovalDecision{Approves: true, Groups: c.groups})
	if completes {
		r.approvedAt = c.at
	}
	return c.completes == (a.ByGroups && completes)
}

// excludes reports whether the decider wrote the version, or its draft, and is excluded for that.
func (s *approvals) excludes(said asking, c ruling) bool {
	if said.asks == nil || !said.asks.ExcludeAuthor {
		return false
	}
	for _, author := range s.authors[said.version] {
		now, _ := s.standing(author.KeyID, c.seq)
		if author.KeyID != "" && (c.by.Shares(author) || c.by.Shares(now.Party)) {
			return true
		}
	}
	return false
}

// others reports whether the decider is in none of the groups asked, or not in those that the
// decision names.
func (s *approvals) others(said asking, c ruling) bool {
	if at, known := s.standing(c.by.KeyID, c.seq); known && !slices.Equal(at.groups, c.groups) {
		return true
	}
	return said.asks != nil && !audit.MayDecide(said.asks, c.groups)
}
