package verify

import (
	"encoding/json"
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
	w.approvals.authors[PolicyVersion{c.Subject, c.Version}] = standing{seq: c.Seq, Party: w.approvals.author(c.Seq, fields)}
	return nil
}

// author returns who made a change of a policy or a draft, as of then: of who had signed
// in the change says the owner, of a key its own changes do.
func (s *approvals) author(seq int64, fields [][]byte) audit.Party {
	const principal = 6 // among chain.ChangeColumns
	var said struct{ Owner string }
	_ = json.Unmarshal(fields[changeDetails], &said) // what is no JSON was not recorded so: its head tells
	author := audit.Party{KeyID: string(fields[changeKeyID]), Principal: string(fields[principal]), Owner: said.Owner}
	if then, known := s.standing(author.KeyID, seq); known && author.Owner == "" {
		author.Owner = then.Owner
	}
	return author
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
