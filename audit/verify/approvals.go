package verify

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"spendgate/audit"
	"spendgate/audit/chain"
	"spendgate/audit/spend"
)

// ApprovalRow is a stored approval together with its use.
type ApprovalRow struct {
	ID                                  spend.ID
	Made                                bool // false if there is only a use
	CreatedAt, ExpiresAt                time.Time
	UseWithinMS                         int64
	Required                            int64
	ActionHash                          spend.Hash
	PolicyID, AgentID, Principal, Owner string
	Payment                             spend.Hash // of the check that asks; zero without one
	UsedBy                              spend.ID   // the check; zero without a use
	Deadline                            *time.Time
}

// terms returns a hash of the values that the check that asks and the row of its approval share.
func (a *ApprovalRow) terms() spend.Hash {
	b := slices.Concat(a.ActionHash[:], a.Payment[:])
	for _, n := range []int64{a.Required, a.ExpiresAt.Sub(a.CreatedAt).Milliseconds(), a.UseWithinMS} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, s := range []string{a.PolicyID, a.AgentID, a.Principal, a.Owner} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return sha256.Sum256(b)
}

// use is a check that was allowed by an approval.
type use struct {
	check   spend.ID
	action  spend.Hash
	payment spend.Hash
	stops   int64 // the last stop by which it was judged
}

// ruling is a change of an approval: a decision, its reopening, its withdrawal, or its expiry.
type ruling struct {
	seq  int64
	kind audit.ChangeKind
	by   audit.Party
	at   time.Time
	hash spend.Hash

	groups    []string // of the decider
	completes bool     // what is asked
	restored  bool     // an expiry by a restore, which may come before its time
	keyIDs    []string // of a reopening: whose approvals count no more
}

// asking is what a check says about the approval that it asks for.
type asking struct {
	terms   spend.Hash // zero, as is everything else, if the check was altered
	keyID   string
	asks    *spend.ApprovalRequest
	version PolicyVersion // that escalated
}

// standing is the party behind a key from a change on.
type standing struct {
	seq int64
	at  time.Time
	audit.Party
	groups []string
	active bool
	grants spend.Grants

	granterSince int64
}

// approvals are what checks and changes say about approvals. They are few, because people decide
// about them.
type approvals struct {
	mu      sync.Mutex
	asked   map[spend.ID]asking
	uses    map[spend.ID][]use
	rulings map[string][]ruling             // by approval_id
	behind  map[string][]standing           // by key_id, in the order of changes
	authors map[PolicyVersion][]audit.Party // who made a version, and who put its draft
}

func newApprovals() approvals {
	return approvals{
		asked: make(map[spend.ID]asking), uses: make(map[spend.ID][]use), rulings: make(map[string][]ruling), behind: make(map[string][]standing),
		authors: make(map[PolicyVersion][]audit.Party),
	}
}

// approval notes how a check is related to approvals.
func (s *slice) approval(fields [][]byte, intact bool) {
	v := s.verifier
	if len(fields[chain.FieldApprovalID]) == 0 && len(fields[chain.FieldApproval]) == 0 || !v.whole() {
		return
	}
	v.approvals.mu.Lock()
	defer v.approvals.mu.Unlock()
	c, err := chain.CheckOf(fields)
	if err != nil {
		if len(fields[chain.FieldApproval]) > 0 {
			v.approvals.asked[spend.ID(fields[0])] = asking{}
		}
		return // the altered row has its own finding
	}
	if c.Approval != nil {
		asked := asking{}
		if intact {
			a := ApprovalRow{
				ExpiresAt: time.Time{}.Add(c.Approval.Expires), UseWithinMS: c.Approval.UseWithin.Milliseconds(), Required: int64(c.Approval.Required),
				ActionHash: c.Approval.ActionHash, PolicyID: c.Action.PolicyID, AgentID: c.Action.AgentID,
				Principal: c.PrincipalName(), Owner: c.Owner, Payment: c.PaymentHash(),
			}
			asked = asking{a.terms(), c.KeyID, c.Approval, PolicyVersion{c.Action.PolicyID, c.Decision.PolicyVersion}}
		}
		v.approvals.asked[c.ID] = asked
	}
	if c.UsesApproval() {
		id := c.Action.ApprovalID
		v.approvals.uses[id] = append(v.approvals.uses[id], use{c.ID, spend.ActionHash(c), c.PaymentHash(), stopsOf(fields)})
	}
}

// ruling notes a change of an approval.
func (w *changeWalk) ruling(c Change) {
	said := saidIn(c.Details)
	by := audit.Party{KeyID: c.By.KeyID, Principal: c.By.Principal, Owner: member[string](said, "owner")}
	w.approvals.rulings[c.Subject] = append(w.approvals.rulings[c.Subject], ruling{
		c.Seq, c.Kind, by, c.At, c.Hash,
		said.groups(), member[bool](said, "completes"), member[bool](said, "restored"), audit.ReopeningKeys(c.Details),
	})
}

// behind notes the party behind a key from a change of the key on.
func (w *changeWalk) behind(c Change) {
	said := saidIn(c.Details)
	by := audit.Party{KeyID: c.Subject, Principal: member[string](said, "principal"), Owner: member[string](said, "owner")}
	grants, _ := spend.ParseGrants(c.Details) // what cannot be read permits nothing
	before, _ := w.approvals.standing(c.Subject, c.Seq)
	granterSince := before.granterSince
	if member[bool](said, "granter") {
		granterSince = c.Seq
	}
	w.approvals.behind[c.Subject] = append(w.approvals.behind[c.Subject],
		standing{c.Seq, c.At, by, said.groups(), member[bool](said, "active"), grants, granterSince})
	if member[bool](said, "stopped") {
		if w.keyStops == nil {
			w.keyStops = make(map[string][]int64)
		}
		w.keyStops[c.Subject] = append(w.keyStops[c.Subject], c.Seq)
	}
}

// standing returns the party behind a key when a change was made.
func (s *approvals) standing(keyID string, seq int64) (at standing, known bool) {
	for _, b := range s.behind[keyID] {
		if b.seq < seq {
			at, known = b, true
		}
	}
	return at, known
}

// askers returns the party behind the key that asked, as of the check and as of a change.
func (s *approvals) askers(a *ApprovalRow, keyID string, seq int64) (then, now audit.Party) {
	at, _ := s.standing(keyID, seq)
	return audit.Party{KeyID: keyID, Principal: a.Principal, Owner: a.Owner}, at.Party
}

// compareApprovals compares approvals and their uses with the checks that asked for them and used
// them, and with people's decisions (G13).
func (v *verifier) compareApprovals(ctx context.Context) error {
	if !v.whole() {
		return nil
	}
	err := v.o.Evidence.Approvals(ctx, func(a ApprovalRow) error {
		v.tally.approvals++
		v.approval(&a)
		return nil
	})
	if err != nil {
		return err
	}
	for id, asked := range v.approvals.asked {
		if asked != (asking{}) {
			v.tally.find(Removed, approvalName(id), "its check asks for it")
		}
	}
	for id, uses := range v.approvals.uses {
		for _, u := range uses {
			v.tally.find(Inserted, useName(id), "%s was allowed with it, and there is no such approval", checkName(u.check))
		}
	}
	for id, rulings := range v.approvals.rulings {
		for _, r := range rulings {
			v.tally.find(Inserted, changeName(r.seq), "there is no approval %s", id)
		}
	}
	return nil
}

// approval compares an approval with everything noted about it.
func (v *verifier) approval(a *ApprovalRow) {
	seen, name := &v.approvals, a.ID.Text(spend.PrefixApproval)
	found := v.tally.count()
	said, asked := seen.asked[a.ID]
	uses, rulings := seen.uses[a.ID], seen.rulings[name]
	if a.Made {
		delete(seen.asked, a.ID)
		delete(seen.uses, a.ID)
		delete(seen.rulings, name)
	}
	switch unread := v.tally.isUnread(DayOf(a.ID)); {
	case !a.Made:
		v.tally.find(Inserted, useName(a.ID), "there is no such approval")
		return
	case !asked && !unread:
		v.tally.find(Inserted, approvalName(a.ID), "no check asks for it")
	case asked && said == asking{}:
		v.tally.find(Unchecked, approvalName(a.ID), "its check was altered")
	case asked && said.terms != a.terms():
		v.tally.find(Altered, approvalName(a.ID), "its check asks for something else")
	case a.CreatedAt.Sub(a.ID.Time()).Abs() > lateCommit:
		v.tally.find(Altered, approvalName(a.ID), "it was made at %s, and its check at %s, or a clock was off", stamp(a.CreatedAt),
			stamp(a.ID.Time()))
	}
	r := v.rule(a, said, rulings)
	v.uses(a, uses, said, r)
	if v.tally.count() == found {
		v.deadline(a, &r)
	}
}

// deadline compares when an approval will expire: the request to people, or the use of what they
// approved. An approval that was used, denied or
// withdrawn, or has expired, has no deadline.
func (v *verifier) deadline(a *ApprovalRow, r *ruled) {
	due := r.due(a)
	name, open := "deadline of "+approvalName(a.ID), a.UsedBy.IsZero() && r.ended == ""
	switch {
	case open && a.Deadline == nil:
		v.tally.find(Removed, name, "it expires at %s", stamp(due))
	case !open && a.Deadline != nil:
		v.tally.find(Inserted, name, "it is used, or at its end")
	case open && !a.Deadline.Equal(due):
		v.tally.find(Altered, name, "it is noted as %s; it expires at %s", stamp(*a.Deadline), stamp(due))
	}
}

// ruled is the result of people's decisions on an approval.
type ruled struct {
	counted    []ruling  // the approvals that count
	approvedAt time.Time // zero while approvals are missing
	reopenedAt time.Time // zero: never
	ended      string    // denied, withdrawn or expired
}

// rule follows the changes of an approval and names those that could not have been made.
func (v *verifier) rule(a *ApprovalRow, said asking, rulings []ruling) (r ruled) {
	name := approvalName(a.ID)
	for _, c := range rulings {
		due := r.due(a)
		wrong := ""
		then, now := v.approvals.askers(a, said.keyID, c.seq)
		switch {
		case c.hash != a.ActionHash:
			wrong = "it is about another action than"
		case r.ended != "":
			wrong = "it comes after the end of"
		case c.kind == audit.ApprovalReopening && c.at.After(due.Add(lateCommit)):
			wrong = "it comes too late for"
		case c.kind == audit.ApprovalReopening:
			r.reopen(c)
		case c.kind == audit.ApprovalExpiry && !c.restored && c.at.Before(due):
			wrong = "it comes before the time of"
		case c.kind == audit.ApprovalExpiry:
			r.ended = "expired"
		case c.kind == audit.ApprovalWithdrawal && a.Payment.IsZero():
			wrong = "only of payments is withdrawn, and of none is"
		case c.kind == audit.ApprovalWithdrawal && c.at.After(due.Add(lateCommit)):
			wrong = "it comes too late for"
		case c.kind == audit.ApprovalWithdrawal:
			r.ended = "withdrawn"
		case c.by.Shares(then), c.by.Shares(now):
			wrong = "it was made by, or for, who asked for"
		case v.approvals.excludes(said, c):
			wrong = "it was made by, or for, who wrote the version that asked for"
		case v.approvals.others(said, c):
			wrong = "it was made by who is in none of the groups of"
		case c.at.After(due.Add(lateCommit)):
			wrong = "it comes too late for"
		case c.kind == audit.ApprovalDenial:
			r.ended = "denied"
		case !r.approvedAt.IsZero(), slices.ContainsFunc(r.counted, func(d ruling) bool { return d.by.Shares(c.by) }):
			wrong = "it is one more than was taken for"
		default:
			if !r.approve(a, said, c) {
				wrong = "it does not say rightly whether it completes"
			}
		}
		if wrong != "" {
			v.tally.find(Inserted, changeName(c.seq), "%s %s", wrong, name)
		}
	}
	return r
}

// reopen applies that the approvals of some keys count no more.
func (r *ruled) reopen(c ruling) {
	r.counted = slices.DeleteFunc(r.counted, func(d ruling) bool { return slices.Contains(c.keyIDs, d.by.KeyID) })
	r.approvedAt, r.reopenedAt = time.Time{}, c.at
}

// due returns until when the approval waits for a decision, or for its use.
func (r *ruled) due(a *ApprovalRow) time.Time {
	switch {
	case !r.approvedAt.IsZero():
		return r.useBy(a)
	case !r.reopenedAt.IsZero():
		return r.reopenedAt.Add(a.ExpiresAt.Sub(a.CreatedAt))
	}
	return a.ExpiresAt
}

func (r *ruled) useBy(a *ApprovalRow) time.Time {
	return r.approvedAt.Add(time.Duration(a.UseWithinMS) * time.Millisecond)
}

// uses compares the use of an approval with the checks that were allowed by it.
func (v *verifier) uses(a *ApprovalRow, uses []use, said asking, r ruled) {
	name := useName(a.ID)
	recorded := slices.ContainsFunc(uses, func(u use) bool { return u.check == a.UsedBy })
	if !a.UsedBy.IsZero() && !recorded && !v.tally.isUnread(DayOf(a.UsedBy)) {
		v.tally.find(Inserted, name, "%s was not allowed with it", checkName(a.UsedBy))
	}
	for _, u := range uses {
		used, at := checkName(u.check), u.check.Time()
		switch {
		case a.UsedBy.IsZero():
			v.tally.find(Removed, name, "%s was allowed with it", used)
		case u.check != a.UsedBy:
			v.tally.find(Inserted, used, "it was allowed with %s, which %s used", approvalName(a.ID), checkName(a.UsedBy))
		}
		switch {
		case u.action != a.ActionHash:
			v.tally.find(Inserted, name, "%s is another action than people saw", used)
		case !u.payment.IsZero() && u.payment != a.Payment:
			v.tally.find(Inserted, name, "%s is of another payment than what people saw", used)
		case r.approvedAt.IsZero():
			v.tally.find(Inserted, name, "%s was allowed with it, and %d of %d had approved", used, len(r.counted), a.Required)
		case r.ended != "":
			v.tally.find(Inserted, name, "%s was allowed with it, and it is %s", used, r.ended)
		case at.Before(r.approvedAt.Add(-lateCommit)), at.After(r.useBy(a).Add(lateCommit)):
			v.tally.find(Inserted, name, "%s was allowed with it, and it was approved at %s, for use by %s; or a clock was off", used,
				stamp(r.approvedAt), stamp(r.useBy(a)))
		default:
			for i := range r.counted {
				if d := &r.counted[i]; !v.approvals.counts(a, said, d, u) {
					v.tally.find(Inserted, name, "%s was allowed with it, and what %s approved did not count any more", used, d.by.KeyID)
				}
			}
		}
	}
}

func approvalName(id spend.ID) string { return "approval " + id.Text(spend.PrefixApproval) }
func useName(id spend.ID) string      { return "use of " + approvalName(id) }
