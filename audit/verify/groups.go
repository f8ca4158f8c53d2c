package verify

import (
	"slices"
	"time"

	"spendgate/audit"
	"spendgate/audit/spend"
)

// author returns the author of a change of a policy or a draft, as of then. For a signed-in person
// the change itself names the owner, for a key its own changes do.
func (s *approvals) author(c Change) audit.Party {
	author := audit.Party{KeyID: c.By.KeyID, Principal: c.By.Principal, Owner: member[string](saidIn(c.Details), "owner")}
	if then, known := s.standing(author.KeyID, c.Seq); known && author.Owner == "" {
		author.Owner = then.Owner
	}
	return author
}

// approve counts an approval. It reports whether its claim to complete the request follows from the
// approvals that count and their groups; if these cannot be read, from their number.
func (r *ruled) approve(a *ApprovalRow, said asking, c ruling) bool {
	completes := c.completes && int64(len(r.counted))+1 >= a.Required
	if said.asks != nil {
		so := audit.Approval{Check: &spend.Check{Approval: said.asks}}
		for i := range r.counted {
			so.Decisions = append(so.Decisions, audit.ApprovalDecision{Approves: true, Groups: r.counted[i].groups})
		}
		completes = so.Completes(audit.ApprovalDecisionRequest{Approves: true, Groups: c.groups})
	}
	r.counted = append(r.counted, c)
	if completes {
		r.approvedAt = c.at
	}
	return c.completes == completes
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

// counts reports whether an approval counted when a check used it (S92): by all changes of the key until the last stop by
// which the check was judged, the key might decide. A later one that matters would have had the check refused.
func (s *approvals) counts(a *ApprovalRow, said asking, d *ruling, u use) bool {
	then, asker := s.askers(a, said.keyID, u.stops+1)
	now, known := s.standing(d.by.KeyID, d.seq)
	may := func(until time.Time) bool {
		return !known || // a session
			now.active && audit.MayStillDecide(&now.grants, a.PolicyID, a.AgentID, until.Add(-frozenMargin))
	}
	for _, b := range s.behind[d.by.KeyID] {
		if b.seq > d.seq && b.seq <= u.stops {
			if !may(b.at) {
				return false
			}
			now = b
		}
	}
	return may(u.check.Time()) && !d.by.Shares(then) && !d.by.Shares(asker) && !now.Shares(then) && !now.Shares(asker)
}
