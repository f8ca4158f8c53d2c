package model

// Approvals: the check that is recorded when the search begins was escalated and asks for an
// approval, which is a row of the store. Decisions, uses, and the record of the approval's expiry lock
// that row from their judgement to their end, so each is one step here. Who may decide, and how many
// must, is judged under that lock alone, and left out. The clock is the store's own.

// requester is the principal who asked for the check.
const requester = 0

// approval is the approval of the recorded check.
type approval struct {
	at      tick // of the decision that approved, from 1; 0 while there is none
	denied  bool
	used    id   // the check that used it
	expired bool // its expiry is recorded
	clock   tick
}

type approvalStatus uint8

const (
	approvalPending approvalStatus = iota
	approvalApproved
	approvalDenied
	approvalExpired
	approvalUsed
)

// approvalStatus derives the state: state_of_approval.
func (x *explorer) approvalStatus(s *state) approvalStatus {
	p := &s.approval
	switch {
	case p.used != 0 && !x.is(ApprovalUsedAgain):
		return approvalUsed
	case p.denied:
		return approvalDenied
	case p.expired && !x.is(ExpiryForgotten):
		return approvalExpired
	case p.at == 0 && int(p.clock) < x.Expires:
		return approvalPending
	case p.at != 0 && int(p.clock) < int(p.at-1)+x.UseWithin:
		return approvalApproved
	}
	return approvalExpired
}

// decide is a decision, as in decide_approval.
func (x *explorer) decide(s *state, i int) {
	t := *s
	t.attempts[i].pc = pcEnd
	p, status, denies := &t.approval, x.approvalStatus(s), x.Checks[i].Decides == denies
	switch {
	case status == approvalPending && !denies:
		p.at = p.clock + 1
		x.emit(&t, "decide_approval: approves", i)
	case status == approvalPending, status == approvalApproved && denies:
		p.denied = true
		x.emit(&t, "decide_approval: denies", i)
	default:
		x.emit(&t, "decide_approval: takes no decision any more", i)
	}
}

// expiry records that the approval has expired, as expire_approvals does, which any node may call
// at any time.
func (x *explorer) expiry(s *state) {
	if !x.Asks || s.approval.expired || x.approvalStatus(s) != approvalExpired {
		return
	}
	t := *s
	t.approval.expired = true
	x.emit(&t, "expire_approvals: records it", -1)
}

// hasExpired reports whether the check asked for the approval and its expiry is recorded: an expiry
// only by the clock may still be overtaken by a decision that began in time.
func (x *explorer) hasExpired(s *state, r *row) bool {
	return x.asked(r) && (s.approval.expired || x.is(ExpiredByClock) && x.approvalStatus(s) == approvalExpired)
}

func (x *explorer) asked(r *row) bool { return x.Asks && r.check.owner() == recordedCheck-1 }

// judgeUse judges a check with the approval: it lifts only an escalation by the rules that people
// saw. It returns false if the approval cannot be used.
func (x *explorer) judgeUse(t *state, i int) (verdict, bool) {
	if x.approvalStatus(t) != approvalApproved {
		x.end(t, i, answeredRefused, 0)
		return 0, false
	}
	if t.attempts[i].version != 1 && !x.is(LiftedUnderAnyRules) {
		return escalated, true
	}
	return allowed, true
}

// mayUse is the part of a check's commit that judges the use of the approval, as in use_approvals.
func (x *explorer) mayUse(t *state, c *txn) bool {
	return !c.row.uses || x.approvalStatus(t) == approvalApproved || x.is(ApprovalReadBeforeCommit) || x.is(UsedInAnotherTransaction)
}

// usedBefore marks the approval as used in a transaction of its own.
func (x *explorer) usedBefore(t *state, c *txn) {
	if c.row.uses && x.is(UsedInAnotherTransaction) && x.approvalStatus(t) == approvalApproved {
		t.approval.used = c.row.check
	}
}

// markUsed inserts the use, whose primary key is the approval.
func (x *explorer) markUsed(t *state, c *txn) bool {
	p := &t.approval
	if !c.row.uses || p.used == c.row.check {
		return true
	}
	if p.used != 0 && !x.is(ApprovalUsedAgain) {
		return false
	}
	p.used = c.row.check
	return true
}

// heldBy reports whether a check holds its fingerprint against an attempt.
func (x *explorer) heldBy(i int, v verdict) bool {
	c := x.Checks[i]
	switch v {
	case escalated:
		return !c.Uses && (!c.Again || !x.is(AgainPassesWaiting))
	case blocked:
		return !c.Uses && !c.Again
	default:
		return true
	}
}

// passesUnallowed reports whether an attempt passes the holder of its fingerprint: with the
// approval a holder that was not allowed, under judge_again one that was blocked. pass is then
// zero, or a pass in the attempt's window that the attempt does not pass and that is older than the
// holder.
func (x *explorer) passesUnallowed(t *state, i int, h id) (passes bool, pass row) {
	r := t.row(h)
	passesAll := x.Checks[i].Uses && x.is(ApprovedPassesAllowed)
	if !x.Checks[i].Uses && !x.Checks[i].Again || r == nil || r.of == 0 && x.heldBy(i, r.verdict) && !passesAll {
		return false, row{}
	}
	if x.is(AllowedPassHidden) || passesAll {
		return true, row{}
	}
	return true, x.holdingPass(t, i)
}

// holdingPass is the latest pass in an attempt's window that it does not pass.
func (x *explorer) holdingPass(t *state, i int) (latest row) {
	for _, r := range t.rows {
		if x.heldBy(i, r.verdict) && x.isLivePass(t, r, x.Checks[i].Fingerprint, false) && (latest.check == 0 || r.since > latest.since) {
			latest = r
		}
	}
	if int(t.now)-int(latest.since) >= x.Checks[i].Window {
		return row{}
	}
	return latest
}

// brokenApproval checks G13.
func (x *explorer) brokenApproval(s *state) string {
	if !x.Asks {
		return ""
	}
	p := &s.approval
	uses, underWay := 0, false
	for _, r := range s.rows {
		switch {
		case r.check == 0 || !r.uses:
		case r.version != 1:
			return "G13: an escalation by rules that nobody saw was lifted"
		default:
			uses++
		}
	}
	for i := range s.txns {
		c := &s.txns[i]
		underWay = underWay || c.present && c.row.check == p.used && (c.state <= txnEntered || c.state == txnCommitted)
	}
	switch {
	case uses > 1:
		return "G13: an approval let two checks pass"
	case p.used != 0 && !s.recorded(p.used) && !underWay:
		return "G13: an approval is used by a check that is not recorded"
	case uses > 0 && p.used == 0:
		return "G13: a check that used the approval is recorded, and its use is not"
	case p.used != 0 && p.denied:
		return "G13: an approval is both denied and used"
	case p.expired && (p.used != 0 || p.denied):
		return "G13: an approval is expired, and denied or used"
	case p.expired && p.at != 0 && int(p.clock) < int(p.at-1)+x.UseWithin && s.budgets.setBacks == uint8(x.SetBacks):
		return "G13: an approval is expired before its time"
	}
	return ""
}
