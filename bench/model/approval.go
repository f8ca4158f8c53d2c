package model

import "math/bits"

// Approvals: the check that is recorded when the search begins was escalated and asks people for
// their approval, which is a row of the store. Decisions, a use, and the record of the approval's
// expiry are transactions of the store, each of which locks that row from its judgement to its end.
// The clock is the store's own.

// requester is the principal who asked; it may not decide.
const requester = 0

// approval is the approval of the recorded check. Sets of principals have one bit each.
type approval struct {
	approvals  uint8 // how many approvals were counted
	approvedBy uint8
	deniedBy   uint8
	at         tick      // of the approval that decided, from 1; 0 while it is undecided
	used       id        // the check that used it
	expired    bool      // its expiry is recorded
	expiring   bool      // a transaction is recording it
	patched    bool      // the key that asked now has principal 1
	own        bool      // principal 1 decided after the patch
	groups     [4]groups // of each principal that approved, as recorded
	regrouped  bool      // principal 1's key now has other groups
	misgrouped bool      // groups were recorded that the key did not have
	clock      tick
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
	case p.deniedBy != 0 && (p.at == 0 || !x.is(ApprovedStaysApproved)):
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

// approvalLocked reports whether a transaction holds the approval's row.
func (x *explorer) approvalLocked(s *state) bool {
	for i := range s.txns {
		if c := &s.txns[i]; c.present && c.state == txnUsing && !x.is(UseUnlocked) {
			return true
		}
	}
	for i := range x.Checks {
		if s.attempts[i].pc == pcDeciding && !x.is(DecisionUnlocked) {
			return true
		}
	}
	return s.approval.expiring && !x.is(ExpiryUnlocked)
}

// decide is a person's decision, as in decide_approval.
func (x *explorer) decide(s *state, i int) {
	t := new(state)
	*t = *s
	a, p, c := &t.attempts[i], &t.approval, x.Checks[i]
	by := uint8(1) << c.Principal
	if a.pc == pcDeciding {
		x.recordDecision(t, i)
		a.pc = pcEnd
		x.emit(t, "decide_approval: records the decision", i)
		return
	}
	if x.AsksOf > 0 && a.pc == pcDecide {
		x.readGroups(t, i)
		return
	}
	if x.approvalLocked(s) && !x.is(DecisionUnlocked) {
		return
	}
	if x.AsksOf > 0 && x.isStale(s, i) {
		a.pc = pcDecide
		x.emit(t, "decide_approval: it is stale", i)
		return
	}
	status := x.approvalStatus(s)
	replayed := c.Decides == denies && p.deniedBy&by != 0 || c.Decides == approves && p.approvedBy&by != 0 && !x.is(ApproverCountsTwice)
	a.pc = pcEnd
	switch {
	case (c.Principal == requester || c.Principal == 1 && p.patched) && !x.is(RequesterDecides):
		x.emit(t, "decide_approval: it is the requester's", i)
	case replayed:
		x.emit(t, "decide_approval: replays", i)
	case status == approvalPending, status == approvalApproved && c.Decides == denies:
		a.pc = pcDeciding
		x.emit(t, "decide_approval: judges", i)
	default:
		x.emit(t, "decide_approval: takes no decision any more", i)
	}
}

func (x *explorer) recordDecision(t *state, i int) {
	p, c := &t.approval, x.Checks[i]
	by := uint8(1) << c.Principal
	p.own = p.own || p.patched && c.Principal == 1
	if c.Decides == denies {
		p.deniedBy |= by
		return
	}
	complete := x.AsksOf > 0 && x.completes(t, i)
	p.approvedBy |= by
	if x.AsksOf > 0 {
		p.groups[c.Principal] = t.attempts[i].groups
		p.misgrouped = p.misgrouped || t.attempts[i].groups != x.groupsOf(t, c.Principal)
	} else if p.approvals++; int(p.approvals) >= x.Asks {
		complete = true
	}
	if complete {
		p.at = p.clock + 1
	}
}

// patch gives the key that asked another principal, as update_key does, which waits for the lock
// under which a decision is judged and recorded.
func (x *explorer) patch(s *state) {
	if s.budgets.patches == 0 || x.isDeciding(s) && !x.is(KeyReadBeforeDecision) {
		return
	}
	t := *s
	t.budgets.patches--
	t.approval.patched = true
	x.emitFault(&t, "update_key: who asked is principal 1", -1)
}

// isDeciding reports whether a decision is judged and not yet recorded.
func (x *explorer) isDeciding(s *state) bool {
	for i := range x.Checks {
		if s.attempts[i].pc == pcDeciding {
			return true
		}
	}
	return false
}

// expiry records that the approval has expired, as expire_approvals does, which any node may call
// at any time.
func (x *explorer) expiry(s *state) {
	if x.Asks == 0 {
		return
	}
	t := *s
	switch {
	case s.approval.expiring:
		t.approval.expiring, t.approval.expired = false, true
		x.emit(&t, "expire_approvals: records it", -1)
	case !s.approval.expired && x.approvalStatus(s) == approvalExpired && (!x.approvalLocked(s) || x.is(ExpiryUnlocked)):
		t.approval.expiring = true
		x.emit(&t, "expire_approvals: judges", -1)
	}
}

// hasExpired reports whether the check asked for the approval and its expiry is recorded: an expiry
// only by the clock may still be overtaken by a decision that began in time.
func (x *explorer) hasExpired(s *state, r *row) bool {
	return x.asked(r) && (s.approval.expired || x.is(ExpiredByClock) && x.approvalStatus(s) == approvalExpired)
}

func (x *explorer) asked(r *row) bool { return x.Asks > 0 && r.check.owner() == recordedCheck-1 }

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

// use is the part of a check's commit that uses the approval, as in use_approvals. It returns "" if
// it has to wait.
func (x *explorer) use(t *state, c *txn) string {
	switch {
	case x.approvalLocked(t) && !x.is(UseUnlocked):
		return ""
	case x.Checks[c.row.check.owner()].Key && t.key != 0:
		c.state = txnKeyTaken
		return "refused, its key is taken"
	case x.approvalStatus(t) != approvalApproved && !x.is(ApprovalReadBeforeCommit) && !x.is(UsedInAnotherTransaction):
		c.state = txnUnapproved
		return "refused, the approval cannot be used"
	}
	c.state = txnUsing
	return "may use the approval"
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
	if x.Asks == 0 {
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
		underWay = underWay || c.present && c.row.check == p.used && (c.state <= txnUsing || c.state == txnCommitted)
	}
	switch {
	case uses > 1:
		return "G13: an approval let two checks pass"
	case p.used != 0 && !s.recorded(p.used) && !underWay:
		return "G13: an approval is used by a check that is not recorded"
	case uses > 0 && p.used == 0:
		return "G13: a check that used the approval is recorded, and its use is not"
	case p.used != 0 && p.deniedBy != 0:
		return "G13: an approval is both denied and used"
	case p.own:
		return "G13: who asked has decided"
	case p.expired && (p.used != 0 || p.deniedBy != 0):
		return "G13: an approval is expired, and denied or used"
	case p.expired && p.at != 0 && int(p.clock) < int(p.at-1)+x.UseWithin && s.budgets.setBacks == uint8(x.SetBacks):
		return "G13: an approval is expired before its time"
	case x.AsksOf > 0:
		return x.brokenGroups(p)
	case p.at != 0 && bits.OnesCount8(p.approvedBy&^(1<<requester)) != x.Asks:
		return "G13: an approval was not decided by as many others as it asks for"
	}
	return ""
}
